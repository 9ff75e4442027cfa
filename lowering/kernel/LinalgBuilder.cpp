#include "lowering/kernel/LinalgBuilder.h"
#include "lowering/kernel/Destination.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cria;

Value LinalgBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(*this, getLoc(), value);
}

Value LinalgBuilder::f32(double value) {
  return arith::ConstantOp::create(*this, getLoc(),
                                   getF32FloatAttr(static_cast<float>(value)));
}

/// A tensor of the same size that was made before, or `tensor`: a loop carries
/// tensors of one size, and a choice is between such tensors.
static Value sameSize(Value tensor) {
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    auto loop =
        dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    return loop ? sameSize(loop.getTiedLoopInit(argument)->get()) : tensor;
  }
  if (auto loop = tensor.getDefiningOp<scf::ForOp>())
    return sameSize(loop.getTiedLoopInit(cast<OpResult>(tensor))->get());
  if (auto select = tensor.getDefiningOp<arith::SelectOp>())
    return sameSize(select.getTrueValue());
  return tensor;
}

SmallVector<OpFoldResult> LinalgBuilder::sizes(Value tensor) {
  tensor = sameSize(tensor);
  // Takes the sizes from the op that made the tensor: this is simpler IR than a
  // tensor.dim of the result.
  while (auto op = tensor.getDefiningOp<DestinationStyleOpInterface>())
    tensor = sameSize(op.getTiedOpOperand(cast<OpResult>(tensor))->get());
  if (tensor.getDefiningOp<func::CallOp>())
    if (Value destination = destinationOf(cast<OpResult>(tensor)))
      return sizes(destination);
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return empty.getMixedSizes();
  if (auto expand = tensor.getDefiningOp<tensor::ExpandShapeOp>())
    return expand.getMixedOutputShape();
  if (auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>())
    return sizesOf(collapse);
  if (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>()) {
    SmallVector<OpFoldResult> sizes;
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (auto [i, size] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped[i])
        sizes.push_back(size);
    return sizes;
  }
  return tensor::getMixedSizes(*this, getLoc(), tensor);
}

/// The size of a dimension that a reshape makes is the product of the sizes of
/// the source's dimensions.
SmallVector<OpFoldResult>
LinalgBuilder::sizesOf(tensor::CollapseShapeOp collapse) {
  SmallVector<OpFoldResult> source = sizes(collapse.getSrc()), result;
  AffineExpr s0 = getAffineSymbolExpr(0), s1 = getAffineSymbolExpr(1);
  for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
    OpFoldResult size = source[group.front()];
    for (int64_t dim : ArrayRef(group).drop_front())
      size = affine::makeComposedFoldedAffineApply(*this, getLoc(), s0 * s1,
                                                   {size, source[dim]});
    result.push_back(size);
  }
  return result;
}

Value LinalgBuilder::empty(ArrayRef<OpFoldResult> sizes, Type type) {
  return tensor::EmptyOp::create(*this, getLoc(), sizes, type);
}

Value LinalgBuilder::filled(ArrayRef<OpFoldResult> sizes, double value,
                            Type type) {
  FloatType element = type ? cast<FloatType>(type) : getF32Type();
  Value fill =
      arith::ConstantOp::create(*this, getLoc(), getFloatAttr(element, value));
  return linalg::FillOp::create(*this, getLoc(), ValueRange{fill},
                                ValueRange{empty(sizes, element)})
      .getResult(0);
}

Value LinalgBuilder::widen(Value scalar) {
  if (!isa<FloatType>(scalar.getType()) || scalar.getType().isF32())
    return scalar;
  return arith::ExtFOp::create(*this, getLoc(), getF32Type(), scalar);
}

Value LinalgBuilder::round(Value scalar, Type type) {
  if (scalar.getType() == type)
    return scalar;
  return arith::TruncFOp::create(*this, getLoc(), type, scalar);
}

AffineMap LinalgBuilder::select(unsigned dims, ArrayRef<unsigned> results) {
  SmallVector<AffineExpr> exprs = llvm::map_to_vector(
      results, [&](unsigned d) { return getAffineDimExpr(d); });
  return AffineMap::get(dims, 0, exprs, getContext());
}

SmallVector<Value> LinalgBuilder::generic(unsigned dims, Values inputs,
                                          Values outputs,
                                          ArrayRef<AffineMap> maps,
                                          Payload payload) {
  SmallVector<utils::IteratorType> iterators(dims,
                                             utils::IteratorType::reduction);
  for (AffineMap map : maps.take_back(outputs.size()))
    for (AffineExpr expr : map.getResults())
      iterators[cast<AffineDimExpr>(expr).getPosition()] =
          utils::IteratorType::parallel;
  auto op = linalg::GenericOp::create(
      *this, getLoc(), TypeRange(ValueRange(outputs)), ValueRange(inputs),
      ValueRange(outputs), maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange scalars) {
        LinalgBuilder body(loc, nested);
        auto wide = llvm::map_to_vector(
            scalars, [&](Value scalar) { return body.widen(scalar); });
        OpBuilder::InsertionGuard guard(*this);
        setInsertionPoint(nested.getInsertionBlock(),
                          nested.getInsertionPoint());
        SmallVector<Value> results = payload(wide);
        for (auto [result, output] : llvm::zip(results, outputs))
          result = round(result, getElementTypeOrSelf(output.getType()));
        linalg::YieldOp::create(*this, getLoc(), results);
      });
  return SmallVector<Value>(op.getResults());
}

Value LinalgBuilder::map(Values inputs, Type type, Payload payload) {
  SmallVector<OpFoldResult> shape = sizes(inputs.front());
  SmallVector<AffineMap> maps(inputs.size() + 1,
                              getMultiDimIdentityMap(shape.size()));
  return generic(shape.size(), inputs, {empty(shape, type)}, maps, payload)[0];
}

arith::FastMathFlagsAttr LinalgBuilder::sumFlags() {
  return arith::FastMathFlagsAttr::get(getContext(),
                                       arith::FastMathFlags::reassoc |
                                           arith::FastMathFlags::contract);
}

Value LinalgBuilder::contract(Operand a, Operand b, AffineMap accMap,
                              Value acc) {
  return generic(accMap.getNumDims(), {a.tensor, b.tensor}, {acc},
                 {a.map, b.map, accMap}, [&](Values v) -> SmallVector<Value> {
                   Value product = arith::MulFOp::create(*this, getLoc(), v[0],
                                                         v[1], sumFlags());
                   return {arith::AddFOp::create(*this, getLoc(), v[2], product,
                                                 sumFlags())};
                 })[0];
}

Value LinalgBuilder::contractTransposed(Value a, Value b, Value acc) {
  return contract({a, select(3, {0, 2})}, {b, select(3, {1, 2})},
                  select(3, {0, 1}), acc);
}

Value LinalgBuilder::slice(Value source, ArrayRef<OpFoldResult> offsets,
                           ArrayRef<OpFoldResult> sizes, RankedTensorType type,
                           int64_t step) {
  SmallVector<OpFoldResult> strides(offsets.size(), getIndexAttr(1));
  strides.back() = getIndexAttr(step);
  if (!type)
    return tensor::ExtractSliceOp::create(*this, getLoc(), source, offsets,
                                          sizes, strides);
  return tensor::ExtractSliceOp::create(*this, getLoc(), type, source, offsets,
                                        sizes, strides);
}

Value LinalgBuilder::insert(Value source, Value dest,
                            ArrayRef<OpFoldResult> offsets,
                            ArrayRef<OpFoldResult> sizes, int64_t step) {
  SmallVector<OpFoldResult> strides(offsets.size(), getIndexAttr(1));
  strides.back() = getIndexAttr(step);
  return tensor::InsertSliceOp::create(*this, getLoc(), source, dest, offsets,
                                       sizes, strides);
}
