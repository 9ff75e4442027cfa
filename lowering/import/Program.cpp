#include "lowering/import/Program.h"
#include "dialect/Dialect.h"
#include "lowering/import/Json.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Far more than any program, and than any tensor.
static constexpr uint64_t maxFileSize = 64 << 20;
static constexpr int64_t maxBytes = int64_t(1) << 44;
/// The most positions of anything.
static constexpr int64_t maxPositions = 1 << 24;

OwningOpRef<ModuleOp> cria::loadProgram(StringRef path, MLIRContext *context) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LlamaDialect,
                       scf::SCFDialect, tensor::TensorDialect>();
  llvm::Expected<std::string> text = readTextFile(path, maxFileSize);
  if (text)
    return parseSourceString<ModuleOp>(*text, ParserConfig(context), path);
  emitError(UnknownLoc::get(context)) << llvm::toString(text.takeError());
  return {};
}

/// The one function, or null after a diagnostic.
static func::FuncOp findForward(ModuleOp module) {
  func::FuncOp forward;
  for (Operation &op : module.getOps()) {
    if (isa<WeightOp, RopeTableOp>(op))
      continue;
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || function.getName() != "forward") {
      op.emitError("expected only weights, rope tables and one function "
                   "@forward in a program");
      return {};
    }
    forward = function;
  }
  if (!forward) {
    module.emitError("expected a function @forward");
    return {};
  }
  if (!forward.getBody().hasOneBlock()) {
    forward.emitError("expected @forward to be one block, got ")
        << forward.getBody().getBlocks().size();
    return {};
  }
  return forward;
}

static LogicalResult expectType(func::FuncOp forward, const Twine &what,
                                StringRef expected, Type found, bool holds) {
  if (holds)
    return success();
  return forward.emitError("expected ")
         << what << " of type " << expected << ", got " << found;
}

static bool isTokens(Type type, int64_t rank) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == rank && tensor.isDynamicDim(0) &&
         tensor.getNumDynamicDims() == 1;
}

/// The bytes of a tensor with one token in place of a dynamic dimension;
/// nothing where a dimension is empty or they are beyond any machine.
static std::optional<int64_t> bytesOf(ShapedType type) {
  std::optional<int64_t> bytes = type.getElementTypeBitWidth() / 8;
  for (int64_t size : type.getShape()) {
    if (size != 0 && bytes && !ShapedType::isDynamic(size))
      bytes = llvm::checkedMul(*bytes, size);
    if (size == 0 || !bytes || *bytes > maxBytes)
      return std::nullopt;
  }
  return bytes;
}

static LogicalResult verifySize(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.getElementType().isIntOrFloat() || bytesOf(tensor))
    return success();
  return op->emitError("expected tensors of 1 to ")
         << maxBytes << " bytes, got " << type;
}

static bool isCache(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 4 && tensor.hasStaticShape() &&
         isa<Float32Type, Float16Type, BFloat16Type>(tensor.getElementType());
}

static LogicalResult verifySignature(func::FuncOp forward) {
  FunctionType type = forward.getFunctionType();
  if (type.getNumInputs() < 3 ||
      type.getNumResults() != type.getNumInputs() - 2)
    return forward.emitError("expected (ids, position, first, caches...) -> "
                             "(logits, caches...), got ")
           << type;
  Type ids = type.getInput(0), logits = type.getResult(0);
  bool idsHold = isTokens(ids, 1) && getElementTypeOrSelf(ids).isInteger(32);
  bool logitsHold = isTokens(logits, 2) && getElementTypeOrSelf(logits).isF32();
  if (failed(expectType(forward, "ids", "tensor<?xi32>", ids, idsHold)) ||
      failed(expectType(forward, "position", "index", type.getInput(1),
                        type.getInput(1).isIndex())) ||
      failed(expectType(forward, "first", "index", type.getInput(2),
                        type.getInput(2).isIndex())) ||
      failed(
          expectType(forward, "logits", "tensor<?xVxf32>", logits, logitsHold)))
    return failure();
  for (unsigned i = 3; i < type.getNumInputs(); ++i) {
    Type cache = type.getInput(i), returned = type.getResult(i - 2);
    if (failed(expectType(forward, "argument " + Twine(i),
                          "tensor<LxHxSxDxfloat>", cache, isCache(cache))))
      return failure();
    if (failed(verifySize(forward, cache)))
      return failure();
    if (cache != returned)
      return forward.emitError("expected result ")
             << i - 2 << " to be the cache of argument " << i << ", " << cache
             << ", got " << returned;
  }
  return success();
}

static LogicalResult verifyOp(Operation *op) {
  bool known = isa<LlamaDialect, arith::ArithDialect>(op->getDialect()) ||
               isa<scf::ForOp, scf::YieldOp, func::ReturnOp, tensor::DimOp,
                   tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                   tensor::ExtractSliceOp>(op);
  if (!known)
    return op->emitError("expected ops of llama, scf.for, arith and reshapes "
                         "of tensors in a program, got ")
           << op->getName();
  for (Type type : op->getResultTypes()) {
    if (failed(verifySize(op, type)))
      return failure();
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (isa<UnrankedTensorType>(type) ||
        (tensor && tensor.getRank() > 0 &&
         llvm::any_of(tensor.getShape().drop_front(), ShapedType::isDynamic)))
      return op->emitError("expected no dynamic dimension but the first, the "
                           "token count, got ")
             << type;
  }
  return success();
}

/// Ids are below the logits' columns: the runtime checks no other bound.
static LogicalResult verifyEmbed(EmbedOp op, int64_t vocab) {
  int64_t rows = cast<RankedTensorType>(op.getTable().getType()).getDimSize(0);
  if (!ShapedType::isDynamic(rows) && rows >= vocab)
    return success();
  return op.emitError("expected a table of at least ")
         << vocab << " rows, one for each column of the logits, got "
         << op.getTable().getType();
}

static LogicalResult verifySymbols(ModuleOp module) {
  for (auto weight : module.getOps<WeightOp>())
    if (failed(verifySize(weight, weight.getType())))
      return failure();
  for (auto table : module.getOps<RopeTableOp>())
    if (static_cast<int64_t>(table.getPositions()) > maxPositions)
      return table.emitError("expected at most ")
             << maxPositions << " positions, got " << table.getPositions();
  return success();
}

LogicalResult cria::verifyProgram(ModuleOp module) {
  func::FuncOp forward = findForward(module);
  if (!forward || failed(verifySymbols(module)) ||
      failed(verifySignature(forward)))
    return failure();
  auto logits = cast<RankedTensorType>(forward.getResultTypes()[0]);
  WalkResult result = forward.getBody().walk([&](Operation *op) {
    auto embed = dyn_cast<EmbedOp>(op);
    if (failed(verifyOp(op)) ||
        (embed && failed(verifyEmbed(embed, logits.getDimSize(1)))))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

int64_t cria::positionsOf(ModuleOp module) {
  int64_t positions = maxPositions;
  for (auto table : module.getOps<RopeTableOp>())
    positions = std::min(positions, static_cast<int64_t>(table.getPositions()));
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (Type type : forward.getArgumentTypes().drop_front(3))
    positions = std::min(positions, cast<RankedTensorType>(type).getDimSize(2));
  return positions;
}
