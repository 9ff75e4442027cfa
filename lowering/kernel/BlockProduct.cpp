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

/// Whether `value` is a 256th of the float of 8 bits in a byte.
static bool isPartOfFloat(Value value, Value byte) {
  Value seven, mask;
  auto shifted =
      m_Op<arith::ShLIOp>(m_Op<arith::ExtSIOp>(m_Val(byte)), m_Any(&seven));
  return matchPattern(value,
                      m_Op<arith::ExtFOp>(m_Op<arith::BitcastOp>(
                          m_Op<arith::AndIOp>(shifted, m_Any(&mask))))) &&
         isInteger(seven, 7) && isInteger(mask, ~0x4000);
}

/// What was expanded to a value of more dimensions: null if nothing was.
static Value unexpanded(Value value) {
  Operation *op = value.getDefiningOp();
  bool fits = isa_and_present<memref::ExpandShapeOp, tensor::ExpandShapeOp>(op);
  return fits ? op->getOperand(0) : Value();
}

namespace {
/// The values in a payload that the terms of BlockProduct are made of. With
/// widened weights there is no scale of x, and `x` is the number itself.
struct Term {
  Value x, scaleX, code, low, high, out;
  /// As in BlockProduct.
  bool isFloat = false, rounds = false;
};
} // namespace

/// Whether the body adds such terms. Numbers of four bits have a loop over the
/// halves of bytes.
static bool hasPayload(Block &body, Term &term,
                       std::optional<unsigned> halves) {
  Value code, scale, x, w, number;
  Value sum = body.getTerminator()->getOperand(0);
  auto product = m_Op<arith::MulFOp>(m_Any(&x), m_Any(&w));
  if (!matchPattern(sum, m_Op<arith::AddFOp>(m_Val(term.out), product)))
    return false;
  if (!term.scaleX) {
    if (!matchPattern(x, m_Op<arith::ExtFOp>(m_Val(term.x))))
      return false;
    if (matchPattern(
            w, m_Op<arith::ExtFOp>(m_Op<arith::TruncFOp>(m_Any(&number))))) {
      auto widened = w.getDefiningOp<arith::ExtFOp>();
      if (widened.getIn().getType() != term.x.getType())
        return false;
      term.rounds = true;
      w = number;
    }
  } else if (!matchPattern(x, m_Op<arith::MulFOp>(
                                  m_Op<arith::SIToFPOp>(m_Val(term.x)),
                                  m_Op<arith::ExtFOp>(m_Val(term.scaleX))))) {
    return false;
  }
  if (!matchPattern(w, m_Op<arith::MulFOp>(m_Any(&number), m_Any(&scale))) ||
      !isScale(scale, term.low, term.high))
    return false;
  term.isFloat = !term.scaleX && !halves && isPartOfFloat(number, term.code);
  if (term.isFloat)
    return true;
  return (term.scaleX || term.rounds) &&
         matchPattern(number, m_Op<arith::SIToFPOp>(m_Any(&code))) &&
         (halves ? isNibble(code, term.code, *halves) : code == term.code);
}

static bool mayRegroup(Block &body) {
  return llvm::all_of(body.getOps<arith::MulFOp>(), [](arith::MulFOp product) {
    return bitEnumContainsAll(product.getFastmath(),
                              arith::FastMathFlags::reassoc);
  });
}

std::optional<BlockProduct> BlockProduct::match(linalg::LinalgOp op,
                                                StringRef &reason) {
  auto fail = [&](StringRef why) {
    reason = why;
    return std::nullopt;
  };
  bool halves = op.getNumLoops() == 5, widened = op.getNumDpsInputs() == 4;
  if (!isa<linalg::GenericOp>(op) || op.getNumDpsInits() != 1 ||
      (op.getNumDpsInputs() != 5 && !widened) ||
      (op.getNumLoops() != 4 && !halves))
    return std::nullopt;
  // Then follow the weights' codes, the low and the high bytes of their scales,
  // and the result.
  unsigned first = widened ? 1 : 2;
  Block &body = *op.getBlock();
  auto argument = [&](unsigned i) -> Value { return body.getArgument(i); };
  Term term = {argument(0),         widened ? Value() : argument(1),
               argument(first),     argument(first + 1),
               argument(first + 2), argument(first + 3)};
  if (!hasPayload(body, term, halves ? std::optional(3u) : std::nullopt))
    return std::nullopt;
  if (!mayReorder(op))
    return fail("its terms may not be added in another order");
  if (!term.rounds && !mayRegroup(body))
    return fail("its factors may not be regrouped");

  using Dims = SmallVector<unsigned>;
  SmallVector<Dims> expected = {halves ? Dims{0, 2, 3, 4} : Dims{0, 2, 3}};
  if (!widened)
    expected.push_back({0, 2});
  expected.append(
      {halves ? Dims{1, 2, 4} : Dims{1, 2, 3}, {1, 2}, {1, 2}, {0, 1}});
  for (auto [map, dims] : llvm::zip_equal(op.getIndexingMapsArray(), expected))
    if (!map.isProjectedPermutation() || loops(map) != dims)
      return fail("its loops are not rows, columns, blocks and their numbers");

  auto operand = [&](unsigned i) { return op.getDpsInputOperand(i)->get(); };
  int64_t bytes = halves ? kNumbers / 2 : kNumbers;
  BlockProduct product = {};
  product.bits = halves ? 4 : 8;
  product.isFloat = term.isFloat;
  product.rounds = term.rounds;
  product.out = op.getDpsInitOperand(0)->get();
  product.weights = sourceOf(operand(first), kScaleBytes, bytes);
  if (!product.weights ||
      product.weights != sourceOf(operand(first + 1), 0, 1) ||
      product.weights != sourceOf(operand(first + 2), 1, 1) ||
      product.blockBytes() != kScaleBytes + bytes)
    return fail("its weights are not the bytes of blocks of one matrix");
  Value x = operand(0);
  auto hasRows = [&](Value value, int64_t rank) {
    if (!value || product.type(value).getRank() != rank)
      return false;
    auto memory = dyn_cast<MemRefType>(value.getType());
    return !memory || memory.isLastDimUnitStride();
  };
  if (widened) {
    while (x && product.type(x).getRank() > 2)
      x = unexpanded(x);
    product.rows = x;
    if (!hasRows(x, 2) || !hasRows(product.out, 2) ||
        product.type(x).getDimSize(1) != product.blocks() * kNumbers)
      return fail("its rows are not those of a matrix with whole blocks");
    return product;
  }
  product.codes = halves ? unexpanded(x) : x;
  product.scales = operand(1);
  if (!hasRows(product.codes, 3) || !hasRows(product.scales, 2) ||
      !hasRows(product.out, 2) ||
      product.type(product.codes).getDimSize(2) != kNumbers ||
      !product.type(product.scales).getElementType().isF16())
    return fail("its rows are not stored as blocks with f16 scales");
  return product;
}

//===----------------------------------------------------------------------===//
// Chosen matrices
//===----------------------------------------------------------------------===//

/// The tensor or memref that a payload reads an element of, and its place.
static std::pair<Value, ValueRange> read(Operation &op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return {load.getMemRef(), load.getIndices()};
  auto extract = cast<tensor::ExtractOp>(op);
  return {extract.getTensor(), extract.getIndices()};
}

/// Whether `value` is the byte of the innermost loop, after the scale.
static bool isCodeByte(Value value, linalg::LinalgOp op) {
  auto sum = value.getDefiningOp<arith::AddIOp>();
  return sum && isLoop(sum.getLhs(), op.getNumLoops() - 1) &&
         isConstantIntValue(sum.getRhs(), BlockProduct::kScaleBytes);
}

std::optional<ChosenBlockProduct>
ChosenBlockProduct::match(linalg::LinalgOp op) {
  using Dims = SmallVector<unsigned>;
  unsigned count = op.getNumLoops();
  bool halves = count == 6;
  if (!isa<linalg::GenericOp>(op) || (count != 5 && !halves) ||
      op.getNumDpsInputs() != 3 || op.getNumDpsInits() != 1 ||
      !llvm::all_of(op.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isProjectedPermutation(); }))
    return std::nullopt;
  auto maps = llvm::map_to_vector(op.getIndexingMapsArray(), loops);
  Dims codes = maps[2];
  for (unsigned inner = 4; inner < count; ++inner)
    codes.push_back(inner);
  bool hasRows = maps[2] == Dims{0, 3} || maps[2] == Dims{0, 1, 3};
  if (maps[0] != Dims{0, 1} || maps[1] != codes || !hasRows ||
      maps[3] != Dims{0, 1, 2})
    return std::nullopt;
  auto operand = [&](unsigned i) { return op.getDpsInputOperand(i)->get(); };
  ChosenBlockProduct product{operand(0),
                             operand(1),
                             operand(2),
                             {},
                             op.getDpsInitOperand(0)->get(),
                             halves ? 4 : 8,
                             {},
                             {},
                             {}};
  Block &body = *op.getBlock();
  for (Operation &inner : body) {
    if (!isa<memref::LoadOp, tensor::ExtractOp>(inner))
      continue;
    auto [weights, at] = read(inner);
    if (at.size() != 4 || (product.weights && product.weights != weights))
      return std::nullopt;
    product.weights = weights;
    auto number = at[0].getDefiningOp<arith::IndexCastOp>();
    if (!number || number.getIn() != body.getArgument(0) || !isLoop(at[1], 2) ||
        !isLoop(at[2], 3))
      return std::nullopt;
    Value &place = isConstantIntValue(at[3], 0)   ? product.low
                   : isConstantIntValue(at[3], 1) ? product.high
                                                  : product.code;
    if (place || (&place == &product.code && !isCodeByte(at[3], op)))
      return std::nullopt;
    place = inner.getResult(0);
  }
  if (halves)
    product.codes = unexpanded(product.codes);
  Term term = {body.getArgument(1), body.getArgument(2), product.code,
               product.low,         product.high,        body.getArgument(3)};
  if (!product.code || !product.low || !product.high || !product.codes ||
      !hasPayload(body, term, halves ? std::optional(4u) : std::nullopt) ||
      !mayReorder(op) || !mayRegroup(body))
    return std::nullopt;
  auto isOf = [](Value value, int64_t size) {
    return cast<ShapedType>(value.getType()).getShape().back() == size;
  };
  Type scale = getElementTypeOrSelf(product.scales.getType());
  // How many experts a token chooses; negative if the size is dynamic.
  int64_t chosen = cast<ShapedType>(product.chosen.getType()).getDimSize(1);
  if (chosen < 1 || !scale.isF16() ||
      !isOf(product.codes, BlockProduct::kNumbers) ||
      !isOf(product.weights, BlockProduct::blockBytes(product.bits)))
    return std::nullopt;
  return product;
}
