/// Lowers ops that compute each number of a tensor from the numbers at the same
/// index: elementwise ops of arith and math, activations, and the constants
/// among their operands.
#include "dialect/Elementwise.h"
#include "lowering/linalg/Functions.h"
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

void FunctionLowering::lower(tensor::SplatOp op) {
  SmallVector<OpFoldResult> sizes =
      getMixedValues(op.getType().getShape(), op.getDynamicSizes(), b);
  for (OpFoldResult &size : sizes)
    if (auto value = dyn_cast<Value>(size))
      size = stored(value);
  Value empty = b.empty(sizes, op.getType().getElementType());
  storedForm[op] =
      linalg::FillOp::create(b, b.getLoc(), stored(op.getInput()), empty)
          .getResult(0);
}

/// The scalar that all elements of `tensor` equal, or null.
static Value splatValue(LinalgBuilder &b, Value tensor,
                        llvm::function_ref<Value(Value)> stored) {
  if (auto splat = tensor.getDefiningOp<tensor::SplatOp>())
    return stored(splat.getInput());
  SplatElementsAttr elements;
  if (!matchPattern(tensor, m_Constant(&elements)))
    return nullptr;
  return arith::ConstantOp::create(b, b.getLoc(),
                                   elements.getSplatValue<TypedAttr>());
}

/// Makes a linalg.generic whose body is the same op on scalars. Upstream's
/// convert-elementwise-to-linalg would write to an operand's tensor, which
/// bufferization then has to copy.
void FunctionLowering::lowerElementwise(Operation *op) {
  SmallVector<Value> inputs, operands;
  for (Value old : op->getOperands()) {
    bool isTensor = isa<RankedTensorType>(old.getType());
    Value number = isTensor
                       ? splatValue(b, old, [&](Value v) { return stored(v); })
                       : stored(old);
    operands.push_back(number); // null: an element of the next input
    if (!number)
      inputs.push_back(stored(old));
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Value out =
      b.empty(b.sizes(stored(tensorsOf(op).front())), type.getElementType());
  SmallVector<AffineMap> maps(inputs.size() + 1,
                              b.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  storedForm[op->getResult(0)] =
      linalg::GenericOp::create(
          b, b.getLoc(), out.getType(), inputs, out, maps, iterators,
          [&](OpBuilder &nested, Location loc, ValueRange numbers) {
            for (Value &operand : operands)
              if (!operand) {
                operand = numbers.front();
                numbers = numbers.drop_front();
              }
            Operation *scalar =
                nested.create(loc, op->getName().getIdentifier(), operands,
                              type.getElementType(), op->getAttrs());
            linalg::YieldOp::create(nested, loc, scalar->getResults());
          })
          .getResult(0);
}

/// min(gate, L) * sigmoid(alpha * min(gate, L)) * (clamp(up, -L, L) + 1)
static Value limitedProduct(LinalgBuilder &b, SwiGLUOp op, Value gate,
                            Value up) {
  double most = op.getLimit()->convertToDouble();
  auto atMost = [&](Value x) -> Value {
    return arith::MinimumFOp::create(b, b.getLoc(), x, b.f32(most));
  };
  auto product = [&](Value x, Value y) -> Value {
    return arith::MulFOp::create(b, b.getLoc(), x, y);
  };
  gate = atMost(gate);
  Value opened = product(
      gate, activate(b, Activation::Sigmoid,
                     product(gate, b.f32(op.getAlpha().convertToDouble()))));
  up = arith::MaximumFOp::create(b, b.getLoc(), atMost(up), b.f32(-most));
  return product(opened, arith::AddFOp::create(b, b.getLoc(), up, b.f32(1)));
}

/// A gate with one column is read without it, for each column.
void FunctionLowering::lower(SwiGLUOp op) {
  Value gate = any(op.getGate()), up = any(op.getUp());
  int64_t rank = op.getType().getRank();
  AffineMap all = b.getMultiDimIdentityMap(rank), place = all;
  if (op.getGate().getType() != op.getType()) {
    SmallVector<ReassociationIndices> groups = {{rank - 2, rank - 1}};
    if (rank == 3)
      groups.insert(groups.begin(), {0});
    gate = tensor::CollapseShapeOp::create(b, b.getLoc(), gate, groups);
    place = all.dropResult(rank - 1);
  }
  storedForm[op] = b.generic(
      rank, {gate, up}, {b.empty(b.sizes(up), op.getType().getElementType())},
      {place, all, all}, [&](Values v) -> SmallVector<Value> {
        if (op.getLimit())
          return {limitedProduct(b, op, v[0], v[1])};
        Value opened = activate(b, op.getActivation(), v[0]);
        return {arith::MulFOp::create(b, b.getLoc(), opened, v[1])};
      })[0];
}

void FunctionLowering::lower(ActivateOp op) {
  storedForm[op] = b.map({any(op.getInput())}, op.getType().getElementType(),
                         [&](Values v) -> SmallVector<Value> {
                           return {activate(b, op.getActivation(), v[0])};
                         });
}
