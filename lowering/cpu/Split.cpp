/// One module in the LLVM dialect  =>  one for each entry and kernel
///
///   @cria_decode: calls @head_decode      @cria_decode, declares @head_decode
///   @head_decode: uses @head_decode.0  =>
///   @head_decode.0                        @head_decode, @head_decode.0
///
/// Parts only refer to each other by calls of functions that are not inlined,
/// so LLVM can optimize a part without the others. The callee is hidden, which
/// binds the call when the parts are linked. Symbols that only their own part
/// refers to are internal.
#include "lowering/cpu/Split.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cria;

namespace {
class Splitter {
public:
  explicit Splitter(ModuleOp module) : module(module), symbols(module) {}
  std::vector<OwningOpRef<ModuleOp>> split();

private:
  void readReferences(Operation *op);
  void setLinkage(Operation *op);
  OwningOpRef<ModuleOp> move(ArrayRef<Operation *> definitions);

  ModuleOp module;
  SymbolTable symbols;
  llvm::EquivalenceClasses<Operation *> together;
  /// For each definition, the symbols that it needs declarations of.
  llvm::DenseMap<Operation *, llvm::SetVector<Operation *>> declared;
  /// The functions that another part may call.
  llvm::DenseSet<Operation *> called;
};
} // namespace

static bool isDeclaration(Operation *op) {
  auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
  return function && function.isExternal();
}

/// Whether a reference is a call of a function that is not inlined.
static bool isOutwardCall(Operation *user, Operation *symbol) {
  auto function = dyn_cast<LLVM::LLVMFuncOp>(symbol);
  ArrayAttr attributes = function ? function.getPassthroughAttr() : ArrayAttr();
  return isa<LLVM::CallOp>(user) && attributes &&
         llvm::is_contained(attributes,
                            StringAttr::get(symbol->getContext(), "noinline"));
}

/// Finds the symbols that `op` refers to.
void Splitter::readReferences(Operation *op) {
  auto uses = SymbolTable::getSymbolUses(op);
  for (const SymbolTable::SymbolUse &use : *uses) {
    Operation *symbol = symbols.lookup(use.getSymbolRef().getRootReference());
    if (!symbol || symbol == op)
      continue;
    bool calls = isOutwardCall(use.getUser(), symbol);
    if (calls)
      called.insert(symbol);
    if (calls || isDeclaration(symbol))
      declared[op].insert(symbol);
    else
      together.unionSets(op, symbol);
  }
}

/// Sets the linkage: entries are exported, kernels are hidden, all other
/// symbols are internal.
void Splitter::setLinkage(Operation *op) {
  auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
  if (!function || function.getName().starts_with("cria_"))
    return;
  if (called.contains(op))
    function.setVisibility_(LLVM::Visibility::Hidden);
  else
    function.setLinkage(LLVM::Linkage::Internal);
}

/// Moves definitions to a new module, with declarations of the symbols that
/// they need.
OwningOpRef<ModuleOp> Splitter::move(ArrayRef<Operation *> definitions) {
  OwningOpRef<ModuleOp> part = cast<ModuleOp>(module->cloneWithoutRegions());
  Block *body = &part->getBodyRegion().emplaceBlock();
  llvm::SetVector<Operation *> needed;
  for (Operation *op : definitions) {
    op->moveBefore(body, body->end());
    needed.insert_range(declared[op]);
  }
  for (Operation *op : needed) {
    if (op->getBlock() == body)
      continue;
    Operation *declaration = op->cloneWithoutRegions();
    // Only the definition may have debug info.
    declaration->setLoc(UnknownLoc::get(op->getContext()));
    body->push_back(declaration);
  }
  return part;
}

std::vector<OwningOpRef<ModuleOp>> Splitter::split() {
  SmallVector<Operation *> definitions;
  for (Operation &op : *module.getBody())
    if (!isDeclaration(&op))
      definitions.push_back(&op);
  for (Operation *op : definitions) {
    together.insert(op);
    readReferences(op);
  }
  llvm::MapVector<Operation *, SmallVector<Operation *>> parts;
  for (Operation *op : definitions) {
    setLinkage(op);
    parts[together.getLeaderValue(op)].push_back(op);
  }
  std::vector<OwningOpRef<ModuleOp>> modules;
  for (auto &[leader, members] : parts)
    modules.push_back(move(members));
  return modules;
}

std::vector<OwningOpRef<ModuleOp>> cria::splitByKernel(ModuleOp module) {
  return Splitter(module).split();
}
