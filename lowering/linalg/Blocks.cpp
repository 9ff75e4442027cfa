#include "lowering/linalg/Blocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

static constexpr int64_t kNumbers = BlocksType::kNumbers;
static constexpr int64_t kScaleBytes = BlocksType::kScaleBytes;

namespace {
/// Arithmetic in a payload.
struct Scalars {
  LinalgBuilder &b;

  Value integer(int64_t value, unsigned bits) {
    return arith::ConstantOp::create(
        b, b.getLoc(), b.getIntegerAttr(b.getIntegerType(bits), value));
  }
  template <typename Op> Value binary(Value x, Value y) {
    return Op::create(b, b.getLoc(), x, y);
  }
  /// A product whose factors schedules may regroup.
  Value mul(Value x, Value y) {
    return arith::MulFOp::create(b, b.getLoc(), x, y, b.sumFlags());
  }
  Value toF32(Value code) {
    return arith::SIToFPOp::create(b, b.getLoc(), b.getF32Type(), code);
  }
  /// The f32 of an f16 whose two bytes are given.
  Value scale(Value low, Value high) {
    Type i16 = b.getI16Type();
    Value wideLow = arith::ExtUIOp::create(b, b.getLoc(), i16, low);
    Value wideHigh = arith::ExtUIOp::create(b, b.getLoc(), i16, high);
    Value shifted = binary<arith::ShLIOp>(wideHigh, integer(8, 16));
    Value bits = binary<arith::OrIOp>(wideLow, shifted);
    return b.widen(
        arith::BitcastOp::create(b, b.getLoc(), b.getF16Type(), bits));
  }
  /// The integer in half `half` of a byte, 0 the low one, less 8.
  Value nibble(Value byte, Value half) {
    Value index =
        arith::IndexCastOp::create(b, b.getLoc(), b.getI8Type(), half);
    Value shift = binary<arith::ShLIOp>(index, integer(2, 8));
    Value low = binary<arith::ShRUIOp>(byte, shift);
    Value code = binary<arith::AndIOp>(low, integer(15, 8));
    return binary<arith::SubIOp>(code, integer(8, 8));
  }
};
} // namespace

/// x (T, K) as (T, K / 32, 32).
static Value inBlocks(LinalgBuilder &b, Value rows) {
  SmallVector<OpFoldResult> sizes = b.sizes(rows);
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t blocks = type.getDimSize(1) / kNumbers;
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  return tensor::ExpandShapeOp::create(
      b, b.getLoc(), type.clone({type.getDimSize(0), blocks, kNumbers}), rows,
      groups,
      SmallVector<OpFoldResult>{sizes[0], b.getIndexAttr(blocks),
                                b.getIndexAttr(kNumbers)});
}

BlockRows cria::quantizeRows(LinalgBuilder &b, Value rows) {
  Value x = inBlocks(b, rows);
  SmallVector<OpFoldResult> sizes = b.sizes(x), outer = sizes;
  outer.pop_back();
  AffineMap all = b.select(3, {0, 1, 2}), block = b.select(3, {0, 1});
  Value most =
      b.generic(3, {x}, {b.filled(outer, 0)}, {all, block},
                [&](Values v) -> SmallVector<Value> {
                  Value size = math::AbsFOp::create(b, b.getLoc(), v[0]);
                  return {arith::MaximumFOp::create(b, b.getLoc(), v[1], size)};
                })[0];
  auto scaleOf = [&](Value most) -> Value {
    return arith::DivFOp::create(b, b.getLoc(), most, b.f32(127));
  };
  Value codes = b.generic(
      3, {x, most}, {b.empty(sizes, b.getI8Type())}, {all, block, all},
      [&](Values v) -> SmallVector<Value> {
        Value scale = scaleOf(v[1]), zero = b.f32(0);
        Value isZero = arith::CmpFOp::create(
            b, b.getLoc(), arith::CmpFPredicate::OEQ, scale, zero);
        Value inverse = arith::DivFOp::create(b, b.getLoc(), b.f32(1), scale);
        inverse = arith::SelectOp::create(b, b.getLoc(), isZero, zero, inverse);
        Value code = math::RoundEvenOp::create(
            b, b.getLoc(), arith::MulFOp::create(b, b.getLoc(), v[0], inverse));
        return {arith::FPToSIOp::create(b, b.getLoc(), b.getI8Type(), code)};
      })[0];
  Value scales =
      b.map({most}, b.getF16Type(),
            [&](Values v) -> SmallVector<Value> { return {scaleOf(v[0])}; });
  return {codes, scales};
}

/// Bytes [first, first + count) of each block of a matrix, without their
/// dimension where there is one.
static Value bytesOf(LinalgBuilder &b, Value weight, int64_t first,
                     int64_t count) {
  SmallVector<OpFoldResult> sizes = b.sizes(weight);
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape(type.getShape().drop_back());
  if (count > 1)
    shape.push_back(count);
  return b.slice(
      weight, {b.getIndexAttr(0), b.getIndexAttr(0), b.getIndexAttr(first)},
      {sizes[0], sizes[1], b.getIndexAttr(count)}, type.clone(shape));
}

/// Numbers of four bits have a loop over the halves of a byte, too.
Value cria::multiplyBlocks(LinalgBuilder &b, BlockRows x, Value weight,
                           BlockFormat format, Value acc) {
  bool halves = format == BlockFormat::Q4_0;
  int64_t bytes = halves ? kNumbers / 2 : kNumbers;
  unsigned t = 0, n = 1, block = 2, half = 3, byte = halves ? 4 : 3;
  unsigned dims = byte + 1;
  Value codes = x.codes;
  if (halves) {
    auto type = cast<RankedTensorType>(codes.getType());
    SmallVector<OpFoldResult> sizes = b.sizes(codes);
    sizes.back() = b.getIndexAttr(2);
    sizes.push_back(b.getIndexAttr(bytes));
    SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
    codes = tensor::ExpandShapeOp::create(
        b, b.getLoc(),
        type.clone({type.getDimSize(0), type.getDimSize(1), 2, bytes}), codes,
        groups, sizes);
  }
  SmallVector<AffineMap> maps = {halves ? b.select(dims, {t, block, half, byte})
                                        : b.select(dims, {t, block, byte}),
                                 b.select(dims, {t, block}),
                                 b.select(dims, {n, block, byte}),
                                 b.select(dims, {n, block}),
                                 b.select(dims, {n, block}),
                                 b.select(dims, {t, n})};
  return b.generic(
      dims,
      {codes, x.scales, bytesOf(b, weight, kScaleBytes, bytes),
       bytesOf(b, weight, 0, 1), bytesOf(b, weight, 1, 1)},
      {acc}, maps, [&](Values v) -> SmallVector<Value> {
        Scalars s{b};
        Value code = v[2];
        if (halves)
          code = s.nibble(code, linalg::IndexOp::create(b, b.getLoc(), half));
        Value x = s.mul(s.toF32(v[0]), v[1]), number = s.toF32(code);
        Value w = s.mul(number, s.scale(v[3], v[4])), term = s.mul(x, w);
        return {arith::AddFOp::create(b, b.getLoc(), v[5], term, b.sumFlags())};
      })[0];
}

Value cria::extractNumber(LinalgBuilder &b, Value table, Value row,
                          Value column, BlockFormat format) {
  Scalars s{b};
  Value size = b.index(kNumbers);
  Value block = s.binary<arith::DivUIOp>(column, size);
  Value place = s.binary<arith::RemUIOp>(column, size);
  auto byte = [&](Value at) -> Value {
    return tensor::ExtractOp::create(b, b.getLoc(), table,
                                     ValueRange{row, block, at});
  };
  Value half;
  if (format == BlockFormat::Q4_0) {
    Value bytes = b.index(kNumbers / 2);
    half = s.binary<arith::DivUIOp>(place, bytes);
    place = s.binary<arith::RemUIOp>(place, bytes);
  }
  Value code = byte(s.binary<arith::AddIOp>(place, b.index(kScaleBytes)));
  if (half)
    code = s.nibble(code, half);
  Value low = byte(b.index(0)), high = byte(b.index(1));
  Value number = s.toF32(code);
  return s.binary<arith::MulFOp>(number, s.scale(low, high));
}
