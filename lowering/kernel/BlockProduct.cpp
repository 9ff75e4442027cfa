#include "lowering/kernel/BlockProduct.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cria;
using matchers::m_Any;
using matchers::m_Val;

static bool isInteger(Value value, int64_t expected) {
  APInt found;
  return matchPattern(value, m_ConstantInt(&found)) &&
         found.getSExtValue() == expected;
}

/// Whether `value` is the f32 of the f16 in two bytes.
static bool isScale(Value value, Value low, Value high) {
  Value eight;
  auto shifted =
      m_Op<arith::ShLIOp>(m_Op<arith::ExtUIOp>(m_Val(high)), m_Any(&eight));
  return matchPattern(
             value,
             m_Op<arith::ExtFOp>(m_Op<arith::BitcastOp>(m_Op<arith::OrIOp>(
                 m_Op<arith::ExtUIOp>(m_Val(low)), shifted)))) &&
         isInteger(eight, 8);
}

/// Whether `value` is the integer in a half of a byte, minus 8. The loop `half`
/// chooses the half.
static bool isNibble(Value value, Value byte, unsigned half) {
  Value shift, mask, offset, index, two;
  auto part = m_Op<arith::AndIOp>(
      m_Op<arith::ShRUIOp>(m_Val(byte), m_Any(&shift)), m_Any(&mask));
  if (!matchPattern(value, m_Op<arith::SubIOp>(part, m_Any(&offset))) ||
      !isInteger(mask, 15) || !isInteger(offset, 8) ||
      !matchPattern(shift,
                    m_Op<arith::ShLIOp>(m_Op<arith::IndexCastOp>(m_Any(&index)),
                                        m_Any(&two))) ||
      !isInteger(two, 2))
    return false;
  return isLoop(index, half);
}

/// The matrix whose blocks the bytes [first, first + count) are taken from.
static Value sourceOf(Value bytes, int64_t first, int64_t count) {
  auto view = bytes.getDefiningOp<OffsetSizeAndStrideOpInterface>();
  if (!isa_and_present<memref::SubViewOp, tensor::ExtractSliceOp>(
          view.getOperation()) ||
      !view.hasUnitStride())
    return {};
  Value source = view->getOperand(0);
  auto type = cast<ShapedType>(source.getType());
  auto memory = dyn_cast<MemRefType>(type);
  if (type.getRank() != 3 || !type.hasStaticShape() ||
      (memory && !memory.areTrailingDimsContiguous(3)))
    return {};
  auto offsets = getConstantIntValues(view.getMixedOffsets());
  auto sizes = getConstantIntValues(view.getMixedSizes());
  SmallVector<int64_t> expected(type.getShape());
  expected.back() = count;
  bool fits = offsets == SmallVector<int64_t>{0, 0, first} && sizes == expected;
  return fits ? source : Value();
}

/// The codes before their halves became a dimension of their own.
static Value withoutHalves(Value codes) {
  Operation *op = codes.getDefiningOp();
  bool fits = isa_and_present<memref::ExpandShapeOp, tensor::ExpandShapeOp>(op);
  return fits ? op->getOperand(0) : Value();
}

/// Whether the body adds the terms of BlockProduct. `halves`: numbers have four
/// bits.
static bool hasPayload(Block &body, bool halves) {
  auto argument = [&](unsigned i) -> Value { return body.getArgument(i); };
  Value code, scale;
  auto x = m_Op<arith::MulFOp>(m_Op<arith::SIToFPOp>(m_Val(argument(0))),
                               m_Op<arith::ExtFOp>(m_Val(argument(1))));
  auto w =
      m_Op<arith::MulFOp>(m_Op<arith::SIToFPOp>(m_Any(&code)), m_Any(&scale));
  Value sum = body.getTerminator()->getOperand(0);
  return matchPattern(sum, m_Op<arith::AddFOp>(m_Val(argument(5)),
                                               m_Op<arith::MulFOp>(x, w))) &&
         isScale(scale, argument(3), argument(4)) &&
         (halves ? isNibble(code, argument(2), 3) : code == argument(2));
}

std::optional<BlockProduct> BlockProduct::match(linalg::LinalgOp op,
                                                StringRef &reason) {
  auto fail = [&](StringRef why) {
    reason = why;
    return std::nullopt;
  };
  bool halves = op.getNumLoops() == 5;
  if (!isa<linalg::GenericOp>(op) || op.getNumDpsInputs() != 5 ||
      op.getNumDpsInits() != 1 || (op.getNumLoops() != 4 && !halves) ||
      !hasPayload(*op.getBlock(), halves))
    return std::nullopt;
  if (!mayReorder(op))
    return fail("its terms may not be added in another order");
  for (auto product : op.getBlock()->getOps<arith::MulFOp>())
    if (!bitEnumContainsAll(product.getFastmath(),
                            arith::FastMathFlags::reassoc))
      return fail("its factors may not be regrouped");

  using Dims = SmallVector<unsigned>;
  Dims expected[] = {halves ? Dims{0, 2, 3, 4} : Dims{0, 2, 3},
                     {0, 2},
                     halves ? Dims{1, 2, 4} : Dims{1, 2, 3},
                     {1, 2},
                     {1, 2},
                     {0, 1}};
  for (auto [map, dims] : llvm::zip(op.getIndexingMapsArray(), expected))
    if (!map.isProjectedPermutation() || loops(map) != dims)
      return fail("its loops are not rows, columns, blocks and their numbers");

  auto operand = [&](unsigned i) { return op.getDpsInputOperand(i)->get(); };
  BlockProduct product{operand(0),
                       operand(1),
                       {},
                       op.getDpsInitOperand(0)->get(),
                       halves ? 4 : 8};
  int64_t bytes = halves ? kNumbers / 2 : kNumbers;
  product.weights = sourceOf(operand(2), kScaleBytes, bytes);
  if (!product.weights || product.weights != sourceOf(operand(3), 0, 1) ||
      product.weights != sourceOf(operand(4), 1, 1) ||
      product.blockBytes() != kScaleBytes + bytes)
    return fail("its weights are not the bytes of blocks of one matrix");
  if (halves)
    product.codes = withoutHalves(product.codes);
  auto hasRows = [&](Value value, int64_t rank) {
    if (!value || product.type(value).getRank() != rank)
      return false;
    auto memory = dyn_cast<MemRefType>(value.getType());
    return !memory || memory.isLastDimUnitStride();
  };
  if (!hasRows(product.codes, 3) || !hasRows(product.scales, 2) ||
      !hasRows(product.out, 2) ||
      product.type(product.codes).getDimSize(2) != kNumbers ||
      !product.type(product.scales).getElementType().isF16())
    return fail("its rows are not stored as blocks with f16 scales");
  return product;
}
