/// Norms to linalg on tensors: statistics of each row in f32.
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

/// The sum of terms may be taken in any order and with fused products.
static arith::FastMathFlagsAttr sumFlags(MLIRContext *context) {
  return arith::FastMathFlagsAttr::get(
      context, arith::FastMathFlags::reassoc | arith::FastMathFlags::contract);
}

/// The map of all dimensions but the last: where a row's statistics lie.
static AffineMap rowMap(OpBuilder &b, int64_t rank) {
  return b.getMultiDimIdentityMap(rank).dropResult(rank - 1);
}

/// mean[t] = sum_i term(rows[t, i]) / I, over the last dimension.
Value EntryLowering::rowMean(Value rows, LinalgBuilder::Payload term) {
  auto flags = sumFlags(b.getContext());
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t rank = type.getRank();
  Value sum = b.generic(
      rank, {rows}, {b.filled(ArrayRef(b.sizes(rows)).drop_back(), 0)},
      {b.getMultiDimIdentityMap(rank), rowMap(b, rank)},
      [&](Values v) -> SmallVector<Value> {
        return {arith::AddFOp::create(b, b.getLoc(), v[1], term({v[0]}).front(),
                                      flags)};
      })[0];
  double count = type.getDimSize(rank - 1);
  return b.map({sum}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
    return {arith::DivFOp::create(b, b.getLoc(), v[0], b.f32(count))};
  });
}

/// Where a norm's result goes: over its input, if nothing else reads that.
Value EntryLowering::normDestination(Operation *norm, Value x) {
  auto type = cast<RankedTensorType>(norm->getResult(0).getType());
  if (wideForm.count(norm->getOperand(0)))
    type = type.clone(b.getF32Type());
  if (x.getType() == type && norm->getOperand(0).hasOneUse())
    return x;
  return b.empty(b.sizes(x), type.getElementType());
}

/// The norm of a product's wide form is wide as well.
void EntryLowering::setNorm(Operation *norm, Value result) {
  bool wide = wideForm.count(norm->getOperand(0));
  (wide ? wideForm : storedForm)[norm->getResult(0)] = result;
}

void EntryLowering::lower(RMSNormOp op) {
  Value x = any(op.getInput());
  Type type = op.getType().getElementType();
  auto flags = sumFlags(b.getContext());
  Value mean = rowMean(x, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0], flags)};
  });
  Value inverse = b.map({mean}, b.getF32Type(), [&](Values v) {
    Value shifted = arith::AddFOp::create(b, b.getLoc(), v[0],
                                          b.f32(op.getEps().convertToDouble()));
    return SmallVector<Value>{math::RsqrtOp::create(b, b.getLoc(), shifted)};
  });
  int64_t rank = op.getType().getRank();
  auto last = static_cast<unsigned>(rank - 1);
  AffineMap all = b.getMultiDimIdentityMap(rank);
  SmallVector<Value> inputs = {x, inverse};
  SmallVector<AffineMap> maps = {all, rowMap(b, rank)};
  if (op.getWeight()) {
    inputs.push_back(stored(op.getWeight()));
    maps.push_back(b.select(rank, {last}));
  }
  maps.push_back(all);
  auto apply = [&](Values v) {
    Value y = arith::MulFOp::create(b, b.getLoc(), v[0], v[1]);
    if (!op.getRoundOnce())
      y = b.widen(b.round(y, type));
    Value weight = op.getWeight() ? v[2] : Value();
    if (op.getUnitOffset())
      weight = arith::AddFOp::create(b, b.getLoc(), weight, b.f32(1));
    if (weight)
      y = arith::MulFOp::create(b, b.getLoc(), weight, y);
    return SmallVector<Value>{y};
  };
  setNorm(op,
          b.generic(rank, inputs, {normDestination(op, x)}, maps, apply)[0]);
}

void EntryLowering::lower(LayerNormOp op) {
  Value x = any(op.getInput());
  Value mean =
      rowMean(x, [](Values v) -> SmallVector<Value> { return {v.front()}; });
  SmallVector<AffineMap> rows = {b.select(2, {0, 1}), b.select(2, {0}),
                                 b.select(2, {0, 1})};
  auto centre = [&](Values v) -> SmallVector<Value> {
    return {arith::SubFOp::create(b, b.getLoc(), v[0], v[1])};
  };
  Value centred = b.generic(2, {x, mean}, {b.empty(b.sizes(x), b.getF32Type())},
                            rows, centre)[0];
  Value variance = rowMean(centred, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0])};
  });
  SmallVector<Value> inputs = {centred, variance};
  SmallVector<AffineMap> maps = {rows[0], rows[1]};
  for (Value vector : {op.getGamma(), op.getBeta()})
    if (vector) {
      inputs.push_back(stored(vector));
      maps.push_back(b.select(2, {1}));
    }
  maps.push_back(rows[0]);
  double eps = op.getEps().convertToDouble();
  auto apply = [&](Values v) {
    Value shifted = arith::AddFOp::create(b, b.getLoc(), v[1], b.f32(eps));
    Value y = arith::MulFOp::create(
        b, b.getLoc(), v[0], math::RsqrtOp::create(b, b.getLoc(), shifted));
    if (op.getGamma())
      y = arith::MulFOp::create(b, b.getLoc(), y, v[2]);
    if (op.getBeta())
      y = arith::AddFOp::create(b, b.getLoc(), y, v[3]);
    return SmallVector<Value>{y};
  };
  setNorm(op, b.generic(2, inputs, {normDestination(op, x)}, maps, apply)[0]);
}
