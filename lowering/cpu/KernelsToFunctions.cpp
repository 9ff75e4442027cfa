/// scf.execute_region { kernel = "layers_mlp_down" }
///   =>  call @layers_mlp_down_decode(captured values)
#include "lowering/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"

namespace cria {
#define GEN_PASS_DEF_HOISTKERNELRESULTS
#define GEN_PASS_DEF_MARKKERNELS
#define GEN_PASS_DEF_KERNELSTOFUNCTIONS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

using KernelLoc = FusedLocWith<StringAttr>;

/// Moves the op that makes `value` and what it needs in front of `region`:
/// allocations, views and sizes. Returns whether the value is there now.
static bool hoist(Value value, Operation *region) {
  Operation *op = value.getDefiningOp();
  if (!op || !region->isProperAncestor(op))
    return true;
  if (!isa<memref::AllocOp>(op) && !isPure(op))
    return false;
  for (Value operand : op->getOperands())
    if (!hoist(operand, region))
      return false;
  op->moveBefore(region);
  return true;
}

static func::FuncOp outline(scf::ExecuteRegionOp op, StringRef entry,
                            SymbolTable &symbols) {
  OpBuilder b(op->getParentOfType<func::FuncOp>());
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op.getRegion(), captured);
  SmallVector<Value> constants, operands;
  for (Value value : captured)
    (matchPattern(value, m_Constant()) ? constants : operands).push_back(value);
  auto kernel = cast<KernelLoc>(op.getLoc());
  std::string name = (kernel.getMetadata().getValue() + "_" + entry).str();
  auto function = func::FuncOp::create(
      b, op.getLoc(), name,
      b.getFunctionType(TypeRange(ValueRange(operands)), {}));
  function.setPrivate();
  // A kernel stays a symbol that debuggers and profilers know.
  function->setAttr("passthrough", b.getStrArrayAttr({"noinline"}));
  symbols.insert(function);

  Block *body = function.addEntryBlock();
  IRMapping mapping;
  b.setInsertionPointToStart(body);
  for (Value constant : constants)
    mapping.map(constant, b.clone(*constant.getDefiningOp())->getResult(0));
  mapping.map(operands, body->getArguments());
  for (Operation &nested : op.getRegion().front().without_terminator())
    b.clone(nested, mapping);
  func::ReturnOp::create(b, op.getLoc());

  b.setInsertionPoint(op);
  func::CallOp::create(b, op.getLoc(), function, operands);
  op.erase();
  return function;
}

namespace {
struct MarkKernels : cria::impl::MarkKernelsBase<MarkKernels> {
  void runOnOperation() override {
    getOperation().walk([](scf::ExecuteRegionOp op) {
      if (auto name = op->getAttrOfType<StringAttr>("kernel"))
        op->setLoc(FusedLoc::get(op.getContext(), {op.getLoc()}, name));
    });
  }
};

struct HoistKernelResults
    : cria::impl::HoistKernelResultsBase<HoistKernelResults> {
  void runOnOperation() override {
    getOperation().walk([](scf::ExecuteRegionOp op) {
      if (!isa<KernelLoc>(op.getLoc()))
        return;
      Operation *yield = op.getRegion().front().getTerminator();
      for (auto [result, value] :
           llvm::zip(op.getResults(), yield->getOperands())) {
        if (hoist(value, op))
          result.replaceAllUsesWith(value);
      }
    });
  }
};

struct KernelsToFunctions
    : cria::impl::KernelsToFunctionsBase<KernelsToFunctions> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<scf::ExecuteRegionOp> kernels;
    getOperation().walk([&](scf::ExecuteRegionOp op) {
      if (isa<KernelLoc>(op.getLoc()))
        kernels.push_back(op);
    });
    for (scf::ExecuteRegionOp op : kernels) {
      if (!op->use_empty() || !op.getRegion().hasOneBlock())
        return op.emitError("expected a kernel of one block whose results are "
                            "not used"),
               signalPassFailure();
      outline(op, op->getParentOfType<func::FuncOp>().getName(), symbols);
    }
  }
};
} // namespace
