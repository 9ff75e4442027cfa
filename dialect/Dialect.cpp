#include "dialect/Dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria::llama;

#include "dialect/Dialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/Types.cpp.inc"

RankedTensorType cria::llama::storageType(RankedTensorType type) {
  auto blocks = dyn_cast<BlocksType>(type.getElementType());
  if (!blocks)
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() /= BlocksType::kNumbers;
  shape.push_back(blocks.getBytes());
  return RankedTensorType::get(shape, IntegerType::get(type.getContext(), 8));
}

int64_t cria::llama::storageBytes(RankedTensorType type) {
  type = storageType(type);
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

/// The most ranks that may share a model.
static constexpr int64_t kMostShards = 1024;

int64_t LlamaDialect::shardsOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto shards =
      module ? module->getAttrOfType<IntegerAttr>(kShards) : IntegerAttr();
  return shards ? shards.getInt() : 1;
}

LogicalResult LlamaDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attribute) {
  if (attribute.getName() != kShards)
    return op->emitError("expected no attribute '")
           << attribute.getName().getValue() << "'";
  auto shards = dyn_cast<IntegerAttr>(attribute.getValue());
  if (isa<ModuleOp>(op) && shards && shards.getType().isInteger(64) &&
      shards.getInt() >= 2 && shards.getInt() <= kMostShards)
    return success();
  return op->emitError("expected '")
         << kShards << "' to be an i64 from 2 to " << kMostShards
         << " on a module, got " << attribute.getValue();
}

/// The attribute of the op whose name is most like `name`, if one is.
static std::optional<StringRef> similarAttribute(Operation *op,
                                                 StringRef name) {
  std::optional<StringRef> best;
  unsigned least = 3;
  for (StringAttr known : op->getName().getAttributeNames()) {
    unsigned edits = name.edit_distance(known, true, least);
    if (edits < least)
      best = known.getValue();
    least = std::min(least, edits);
  }
  return best;
}

void LlamaDialect::warnOfUnknownAttributes(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    StringRef name = attribute.getName();
    if (name.contains('.') || name == SymbolTable::getVisibilityAttrName())
      continue;
    std::string key = (op->getName().getStringRef() + " " + name).str();
    if (llvm::sys::ScopedLock lock(mutex); !warned.insert(key).second)
      continue;
    InFlightDiagnostic warning = op->emitWarning("'");
    warning << op->getName() << "' has no attribute '" << name
            << "', which is ignored";
    if (std::optional<StringRef> similar = similarAttribute(op, name))
      warning << "; did you mean '" << *similar << "'?";
  }
}

namespace {
/// Ops compute the same in every function.
struct Inliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void LlamaDialect::initialize() {
  addInterfaces<Inliner>();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/Ops.cpp.inc"
      >();
}
