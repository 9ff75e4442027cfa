/// @forward  =>  @prefill, and @decode with one token:
///
///   %n = tensor.dim %ids, %c0                  =>  1
///   llama.linear %x : tensor<?x64xf32>, ...    =>  tensor<1x64xf32>
///   tensor.extract_slice %x[%first, 0] [%rows, 64]  =>  %x
///
/// If @forward returns hidden states, only @prefill returns them.
///
/// @decode is copied op by op. Operands have new types, so each op's result
/// types are inferred again, and constants are folded during the copy.
#include "passes/Passes.h"

#include "dialect/Dialect.h"
#include "dialect/Elementwise.h"
#include "dialect/Signature.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

namespace cria {
#define GEN_PASS_DEF_SPECIALIZEENTRIES
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The type with one token instead of a dynamic first dimension.
static Type oneToken(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() == 0 || !tensor.isDynamicDim(0))
    return type;
  SmallVector<int64_t> shape(tensor.getShape());
  shape[0] = 1;
  return tensor.clone(shape);
}

static bool isDynamic(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && !shaped.hasStaticShape();
}

namespace {
/// Copies ops, mapping the values of the old function to those of the new.
class Specializer {
public:
  Specializer(OpBuilder &b, IRMapping &map) : b(b), map(map) {}

  LogicalResult copyBlock(Block &block);

private:
  LogicalResult copy(Operation *op);
  LogicalResult copyLoop(scf::ForOp loop);
  Operation *create(Operation *op);
  Operation *create(tensor::ExpandShapeOp op);
  Operation *create(tensor::CollapseShapeOp op);
  Operation *create(tensor::ExtractSliceOp op);
  Operation *create(tensor::SplatOp op);
  Operation *create(tensor::ConcatOp op);
  SmallVector<OpFoldResult> mapped(ArrayRef<OpFoldResult> values);

  OpBuilder &b;
  IRMapping &map;
};
} // namespace

LogicalResult Specializer::copyBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(copy(&op)))
      return failure();
  return success();
}

/// Maps sizes of the old function to the new one. Constants become attributes.
SmallVector<OpFoldResult> Specializer::mapped(ArrayRef<OpFoldResult> values) {
  return llvm::map_to_vector(values, [&](OpFoldResult value) -> OpFoldResult {
    if (auto old = dyn_cast<Value>(value))
      return getAsOpFoldResult(map.lookup(old));
    return value;
  });
}

Operation *Specializer::create(tensor::ExpandShapeOp op) {
  SmallVector<OpFoldResult> sizes = mapped(op.getMixedOutputShape());
  auto type = op.getResultType().clone(decomposeMixedValues(sizes).first);
  return tensor::ExpandShapeOp::create(b, op.getLoc(), type,
                                       map.lookup(op.getSrc()),
                                       op.getReassociationIndices(), sizes);
}

Operation *Specializer::create(tensor::CollapseShapeOp op) {
  return tensor::CollapseShapeOp::create(
      b, op.getLoc(), map.lookup(op.getSrc()), op.getReassociationIndices());
}

Operation *Specializer::create(tensor::ExtractSliceOp op) {
  SmallVector<OpFoldResult> sizes = mapped(op.getMixedSizes());
  auto type = tensor::ExtractSliceOp::inferCanonicalRankReducedResultType(
      op.getType().getRank(),
      cast<RankedTensorType>(oneToken(op.getSourceType())), sizes);
  return tensor::ExtractSliceOp::create(
      b, op.getLoc(), type, map.lookup(op.getSource()),
      mapped(op.getMixedOffsets()), sizes, mapped(op.getMixedStrides()));
}

Operation *Specializer::create(tensor::SplatOp op) {
  auto [shape, dynamic] = decomposeMixedValues(
      mapped(getMixedValues(op.getType().getShape(), op.getDynamicSizes(), b)));
  return tensor::SplatOp::create(b, op.getLoc(), map.lookup(op.getInput()),
                                 op.getType().clone(shape), dynamic);
}

Operation *Specializer::create(tensor::ConcatOp op) {
  auto inputs = llvm::map_to_vector(
      op.getInputs(), [&](Value input) { return map.lookup(input); });
  return tensor::ConcatOp::create(b, op.getLoc(), op.getDim(), inputs);
}

/// Creates the op on new operands. Its types are inferred if the op can infer
/// them.
Operation *Specializer::create(Operation *op) {
  if (auto typed = dyn_cast<tensor::ExpandShapeOp>(op))
    return create(typed);
  if (auto typed = dyn_cast<tensor::CollapseShapeOp>(op))
    return create(typed);
  if (auto typed = dyn_cast<tensor::ExtractSliceOp>(op))
    return create(typed);
  if (auto typed = dyn_cast<tensor::SplatOp>(op))
    return create(typed);
  if (auto typed = dyn_cast<tensor::ConcatOp>(op))
    return create(typed);
  Operation *made = b.clone(*op, map);
  if (isElementwise(made)) {
    auto shaped = cast<ShapedType>(tensorsOf(made).front().getType());
    Value result = made->getResult(0);
    result.setType(shaped.clone(getElementTypeOrSelf(result.getType())));
    return made;
  }
  auto inferring = dyn_cast<InferTypeOpInterface>(made);
  SmallVector<Type> types;
  if (!inferring ||
      failed(inferring.inferReturnTypes(
          op->getContext(), op->getLoc(), made->getOperands(),
          made->getDiscardableAttrDictionary(), made->getPropertiesStorage(),
          made->getRegions(), types)))
    return made;
  for (auto [result, type] : llvm::zip(made->getResults(), types))
    result.setType(type);
  return made;
}

LogicalResult Specializer::copy(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return copyLoop(loop);
  if (op->getNumRegions())
    return op->emitError("expected no op with a region but scf.for, got ")
           << op->getName();
  Operation *made = create(op);
  if (llvm::any_of(made->getResultTypes(), isDynamic))
    return op->emitError("expected a type that can be inferred for one token");
  SmallVector<Value> values;
  if (failed(b.tryFold(made, values)) || values.empty())
    values.assign(made->result_begin(), made->result_end());
  else
    made->erase();
  map.map(op->getResults(), values);
  return success();
}

LogicalResult Specializer::copyLoop(scf::ForOp loop) {
  SmallVector<Value> inits = llvm::map_to_vector(
      loop.getInitArgs(), [&](Value value) { return map.lookup(value); });
  auto made = scf::ForOp::create(
      b, loop.getLoc(), map.lookup(loop.getLowerBound()),
      map.lookup(loop.getUpperBound()), map.lookup(loop.getStep()), inits);
  map.map(loop.getBody()->getArguments(), made.getBody()->getArguments());
  map.map(loop.getResults(), made.getResults());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(made.getBody());
  if (failed(copyBlock(*loop.getBody())))
    return failure();
  if (inits.empty())
    return success();
  Operation *yield = loop.getBody()->getTerminator();
  Operation *copied = b.clone(*yield, map);
  if (copied->getOperandTypes() != made.getResultTypes())
    return yield->emitError("expected a loop to carry the same number of "
                            "tokens throughout");
  return success();
}

/// Removes the ops of a block whose results nothing uses.
static void eraseUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

static LogicalResult makeDecode(func::FuncOp forward) {
  OpBuilder b(forward->getContext());
  b.setInsertionPointAfter(forward);
  FunctionType whole = forward.getFunctionType(), type = withoutHidden(whole);
  auto decode = func::FuncOp::create(
      b, forward.getLoc(), "decode",
      b.getFunctionType(llvm::map_to_vector(type.getInputs(), oneToken),
                        llvm::map_to_vector(type.getResults(), oneToken)));
  Block *entry = decode.addEntryBlock();
  b.setInsertionPointToStart(entry);
  IRMapping map;
  Value first = arith::ConstantIndexOp::create(b, forward.getLoc(), 0);
  SmallVector<Value> arguments(forward.getArguments());
  if (returnsHidden(whole)) {
    unsigned place = firstHiddenArgument(whole);
    map.map(arguments[place], first);
    arguments.erase(arguments.begin() + place);
  }
  map.map(ValueRange(arguments), entry->getArguments());
  map.map(forward.getArgument(2), first);
  if (failed(Specializer(b, map).copyBlock(forward.front())))
    return failure();
  Operation *ret = forward.front().getTerminator();
  Operation *copied = b.clone(*ret, map);
  if (returnsHidden(whole)) {
    copied->eraseOperand(1);
    eraseUnused(*entry);
  }
  if (copied->getOperandTypes() != decode.getResultTypes())
    return ret->emitError("expected one row of logits for one token");
  return success();
}

/// Whether the function takes ids, position and first logit.
static bool isForward(func::FuncOp op) {
  auto isIds = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 1 &&
           tensor.getElementType().isInteger(32);
  };
  return op && op.getBody().hasOneBlock() && op.getNumArguments() >= 3 &&
         isIds(op.getArgument(0).getType()) &&
         op.getArgument(1).getType().isIndex() &&
         op.getArgument(2).getType().isIndex();
}

namespace {
struct SpecializeEntries
    : cria::impl::SpecializeEntriesBase<SpecializeEntries> {
  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!isForward(forward)) {
      getOperation().emitError(
          "expected a function @forward(ids, position, first, caches...)");
      return signalPassFailure();
    }
    if (failed(makeDecode(forward)))
      return signalPassFailure();
    forward.setName("prefill");
  }
};
} // namespace
