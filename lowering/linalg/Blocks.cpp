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
  /// The f32 of the f16 with these two bytes.
  Value scale(Value low, Value high) {
    Type i16 = b.getI16Type();
    Value wideLow = arith::ExtUIOp::create(b, b.getLoc(), i16, low);
    Value wideHigh = arith::ExtUIOp::create(b, b.getLoc(), i16, high);
    Value shifted = binary<arith::ShLIOp>(wideHigh, integer(8, 16));
    Value bits = binary<arith::OrIOp>(wideLow, shifted);
    return b.widen(
        arith::BitcastOp::create(b, b.getLoc(), b.getF16Type(), bits));
  }
  /// The f32 of an integer times its scale, of two bytes.
  Value number(Value code, Value low, Value high) {
    Value factor = scale(low, high);
    return binary<arith::MulFOp>(toF32(code), factor);
  }
  /// q / 256 in f32, of the bits of a float q of 8 bits: an f16 has three bits
  /// of its fraction at bits 7 to 9, and 8 more as the exponent's bias.
  Value partOf(Value byte) {
    Type i16 = b.getI16Type();
    Value wide = arith::ExtSIOp::create(b, b.getLoc(), i16, byte);
    Value shifted = binary<arith::ShLIOp>(wide, integer(7, 16));
    Value bits = binary<arith::AndIOp>(shifted, integer(~0x4000, 16));
    return b.widen(
        arith::BitcastOp::create(b, b.getLoc(), b.getF16Type(), bits));
  }
  /// The code of a number in f32. `half` is the half of a byte that has it;
  /// null if it has 8 bits.
  Value code(BlockFormat format, Value byte, Value half) {
    return format == BlockFormat::FP8 ? partOf(byte)
           : half                     ? toF32(nibble(byte, half))
                                      : toF32(byte);
  }
  /// Byte `byte` of the f16 to which an f32 is rounded; 0 is the low byte.
  Value byteOf(Value number, int64_t byte) {
    Value bits = arith::BitcastOp::create(b, b.getLoc(), b.getI16Type(),
                                          b.round(number, b.getF16Type()));
    if (byte)
      bits = binary<arith::ShRUIOp>(bits, integer(8 * byte, 16));
    return arith::TruncIOp::create(b, b.getLoc(), b.getI8Type(), bits);
  }
  /// The integer in half `half` of a byte, minus 8; half 0 is the low one.
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

/// Reshapes x (..., K) to (..., K / size, size).
static Value inParts(LinalgBuilder &b, Value x, int64_t size) {
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  auto type = cast<RankedTensorType>(x.getType());
  int64_t last = type.getRank() - 1;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() /= size;
  sizes.back() = b.getIndexAttr(shape.back());
  shape.push_back(size);
  sizes.push_back(b.getIndexAttr(size));
  SmallVector<ReassociationIndices> groups;
  for (int64_t dim = 0; dim <= last; ++dim)
    groups.push_back({dim});
  groups.back().push_back(last + 1);
  return tensor::ExpandShapeOp::create(b, b.getLoc(), type.clone(shape), x,
                                       groups, sizes);
}

BlockRows cria::quantizeRows(LinalgBuilder &b, Value rows) {
  Value x = inParts(b, rows, kNumbers);
  SmallVector<OpFoldResult> sizes = b.sizes(x), outer = sizes;
  outer.pop_back();
  unsigned dims = sizes.size();
  AffineMap all = b.getMultiDimIdentityMap(dims),
            block = all.dropResult(dims - 1);
  Value most =
      b.generic(dims, {x}, {b.filled(outer, 0)}, {all, block},
                [&](Values v) -> SmallVector<Value> {
                  Value size = math::AbsFOp::create(b, b.getLoc(), v[0]);
                  return {arith::MaximumFOp::create(b, b.getLoc(), v[1], size)};
                })[0];
  auto scaleOf = [&](Value most) -> Value {
    return arith::DivFOp::create(b, b.getLoc(), most, b.f32(127));
  };
  Value codes = b.generic(
      dims, {x, most}, {b.empty(sizes, b.getI8Type())}, {all, block, all},
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

/// Bytes [first, first + count) of each block of a matrix. If `count` is 1, the
/// result has no dimension for bytes.
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

/// A weight's number in a payload: its byte, the half of the byte that has it
/// (null: all of it), and the two bytes of its scale.
namespace {
struct Stored {
  BlockFormat format;
  Value byte, half, low, high;
};
} // namespace

/// x * w, a term of a product: the number of a row is an integer times a scale,
/// and so is that of a weight.
static Value termOf(LinalgBuilder &b, Value code, Value scale,
                    const Stored &of) {
  Scalars s{b};
  Value x = s.mul(s.toF32(code), scale), factor = s.scale(of.low, of.high);
  return s.mul(x, s.mul(s.code(of.format, of.byte, of.half), factor));
}

/// The same where the number x of a row is a float, and that of a weight is
/// rounded to `type`; if this is null, it is not.
static Value floatTermOf(LinalgBuilder &b, Value x, Type type,
                         const Stored &of) {
  Scalars s{b};
  Value code = s.code(of.format, of.byte, of.half),
        factor = s.scale(of.low, of.high);
  Value w = type ? b.widen(b.round(s.binary<arith::MulFOp>(code, factor), type))
                 : s.mul(code, factor);
  return s.mul(x, w);
}

static int64_t codeBytes(BlockFormat format) {
  return format == BlockFormat::Q4_0 ? kNumbers / 2 : kNumbers;
}

/// acc + `term` over t, n and the numbers of n's blocks. `term` is given the
/// elements of `rows` and `scales` (null: none), and n's number. If numbers
/// have four bits, there is also a loop over the halves.
static Value
sumOverBlocks(LinalgBuilder &b, Value rows, Value scales, Value weight,
              BlockFormat format, Value acc,
              llvm::function_ref<Value(Values of, const Stored &w)> term) {
  bool halves = format == BlockFormat::Q4_0;
  int64_t bytes = codeBytes(format);
  unsigned t = 0, n = 1, block = 2, half = 3, byte = halves ? 4 : 3;
  unsigned dims = byte + 1;
  SmallVector<Value> inputs = {halves ? inParts(b, rows, bytes) : rows};
  SmallVector<AffineMap> maps = {halves ? b.select(dims, {t, block, half, byte})
                                        : b.select(dims, {t, block, byte})};
  if (scales) {
    inputs.push_back(scales);
    maps.push_back(b.select(dims, {t, block}));
  }
  inputs.append({bytesOf(b, weight, kScaleBytes, bytes),
                 bytesOf(b, weight, 0, 1), bytesOf(b, weight, 1, 1)});
  maps.append({b.select(dims, {n, block, byte}), b.select(dims, {n, block}),
               b.select(dims, {n, block}), b.select(dims, {t, n})});
  return b.generic(
      dims, inputs, {acc}, maps, [&](Values v) -> SmallVector<Value> {
        Value index;
        if (halves)
          index = linalg::IndexOp::create(b, b.getLoc(), half);
        Values last = v.take_back(4);
        Value each =
            term(v.drop_back(4), {format, last[0], index, last[1], last[2]});
        return {
            arith::AddFOp::create(b, b.getLoc(), last[3], each, b.sumFlags())};
      })[0];
}

Value cria::multiplyBlocks(LinalgBuilder &b, BlockRows x, Value weight,
                           BlockFormat format, Value acc) {
  return sumOverBlocks(
      b, x.codes, x.scales, weight, format, acc,
      [&](Values of, const Stored &w) { return termOf(b, of[0], of[1], w); });
}

Value cria::multiplyWidened(LinalgBuilder &b, Value x, Value weight,
                            BlockFormat format, bool rounds, Value acc) {
  Type type = rounds ? getElementTypeOrSelf(x) : Type();
  return sumOverBlocks(b, inParts(b, x, kNumbers), /*scales=*/{}, weight,
                       format, acc, [&](Values of, const Stored &w) {
                         return floatTermOf(b, of[0], type, w);
                       });
}

/// The loops are t, s, n, block, (half,) byte; multiplyBlocks has no s.
Value cria::multiplyExperts(LinalgBuilder &b, BlockRows x, Value experts,
                            Value weight, BlockFormat format, Value acc) {
  bool halves = format == BlockFormat::Q4_0;
  unsigned block = 3, half = 4, byte = halves ? 5 : 4, dims = byte + 1;
  SmallVector<unsigned> scales = {0, 1, block};
  if (cast<RankedTensorType>(x.scales.getType()).getRank() == 2)
    scales.erase(scales.begin() + 1); // one row for all experts
  SmallVector<unsigned> codes = scales;
  if (halves)
    codes.push_back(half);
  codes.push_back(byte);
  return b.generic(
      dims,
      {experts, halves ? inParts(b, x.codes, codeBytes(format)) : x.codes,
       x.scales},
      {acc},
      {b.select(dims, {0, 1}), b.select(dims, codes), b.select(dims, scales),
       b.select(dims, {0, 1, 2})},
      [&](Values v) -> SmallVector<Value> {
        auto index = [&](unsigned dim) -> Value {
          return linalg::IndexOp::create(b, b.getLoc(), dim);
        };
        Value expert =
            arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), v[0]);
        auto at = [&](Value place) -> Value {
          return tensor::ExtractOp::create(
              b, b.getLoc(), weight,
              ValueRange{expert, index(2), index(block), place});
        };
        Value code = at(arith::AddIOp::create(b, b.getLoc(), index(byte),
                                              b.index(kScaleBytes))),
              low = at(b.index(0)), high = at(b.index(1));
        Value term =
            termOf(b, v[1], v[2],
                   {format, code, halves ? index(half) : Value(), low, high});
        return {arith::AddFOp::create(b, b.getLoc(), v[3], term, b.sumFlags())};
      })[0];
}

/// The layer of a slice, as a constant if possible. If the layer were a value,
/// upstream would fold a constant into the slice, and guess again which of
/// several unit dimensions the slice drops.
static OpFoldResult layerOf(Value layer) { return getAsOpFoldResult(layer); }

SmallVector<StoredPart> cria::storedParts(LinalgBuilder &b, Value rows) {
  BlockRows quantized = quantizeRows(b, rows);
  SmallVector<StoredPart> parts = {{quantized.codes, kScaleBytes}};
  auto type = cast<RankedTensorType>(quantized.scales.getType());
  SmallVector<OpFoldResult> sizes = b.sizes(quantized.scales);
  sizes.push_back(b.getIndexAttr(1));
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(1);
  SmallVector<ReassociationIndices> groups;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    groups.push_back({dim});
  groups.back().push_back(type.getRank());
  for (int64_t byte = 0; byte < kScaleBytes; ++byte) {
    Value bytes = b.map({quantized.scales}, b.getI8Type(),
                        [&](Values v) -> SmallVector<Value> {
                          return {Scalars{b}.byteOf(v[0], byte)};
                        });
    auto expanded = RankedTensorType::get(shape, b.getI8Type());
    parts.push_back({tensor::ExpandShapeOp::create(b, b.getLoc(), expanded,
                                                   bytes, groups, sizes),
                     byte});
  }
  return parts;
}

Value cria::insertBlocks(LinalgBuilder &b, Value rows, Value cache, Value layer,
                         Value position) {
  BlockRows quantized = quantizeRows(b, rows);
  SmallVector<OpFoldResult> sizes = b.sizes(quantized.scales);
  OpFoldResult zero = b.getIndexAttr(0);
  sizes.insert(sizes.begin(), b.getIndexAttr(1));
  // Inserts `part` into bytes [first, first + count) of each block.
  auto put = [&](Value part, int64_t first, int64_t count) {
    sizes.push_back(b.getIndexAttr(count));
    cache = b.insert(
        part, cache,
        {layerOf(layer), zero, position, zero, b.getIndexAttr(first)}, sizes);
    sizes.pop_back();
  };
  put(quantized.codes, kScaleBytes, kNumbers);
  for (int64_t byte = 0; byte < kScaleBytes; ++byte)
    put(b.map({quantized.scales}, b.getI8Type(),
              [&](Values v) -> SmallVector<Value> {
                return {Scalars{b}.byteOf(v[0], byte)};
              }),
        byte, 1);
  return cache;
}

Value cria::widenBlocks(LinalgBuilder &b, Value cache, Value layer,
                        OpFoldResult first, OpFoldResult keys) {
  auto type = cast<RankedTensorType>(cache.getType());
  int64_t heads = type.getDimSize(1), blocks = type.getDimSize(3);
  int64_t length = getConstantIntValue(keys).value_or(ShapedType::kDynamic);
  OpFoldResult zero = b.getIndexAttr(0);
  auto part = [&](int64_t from, int64_t count) {
    SmallVector<int64_t> shape = {heads, length, blocks};
    if (count > 1)
      shape.push_back(count);
    return b.slice(cache,
                   {layerOf(layer), zero, first, zero, b.getIndexAttr(from)},
                   {b.getIndexAttr(1), b.getIndexAttr(heads), keys,
                    b.getIndexAttr(blocks), b.getIndexAttr(count)},
                   type.clone(shape));
  };
  AffineMap all = b.select(4, {0, 1, 2, 3}), block = b.select(4, {0, 1, 2});
  Value numbers =
      b.generic(4, {part(kScaleBytes, kNumbers), part(0, 1), part(1, 1)},
                {b.empty({b.getIndexAttr(heads), keys, b.getIndexAttr(blocks),
                          b.getIndexAttr(kNumbers)},
                         b.getF32Type())},
                {all, block, block, all}, [&](Values v) -> SmallVector<Value> {
                  Scalars s{b};
                  return {s.number(v[0], v[1], v[2])};
                })[0];
  return tensor::CollapseShapeOp::create(
      b, b.getLoc(), numbers, ArrayRef<ReassociationIndices>{{0}, {1}, {2, 3}});
}

Value cria::widenBlocks(LinalgBuilder &b, Value storage) {
  auto type = cast<RankedTensorType>(storage.getType());
  SmallVector<OpFoldResult> sizes = b.sizes(storage);
  unsigned rank = sizes.size();
  SmallVector<OpFoldResult> offsets(rank, b.getIndexAttr(0));
  auto part = [&](int64_t from, int64_t count) {
    SmallVector<int64_t> shape(type.getShape().drop_back());
    if (count > 1)
      shape.push_back(count);
    offsets.back() = b.getIndexAttr(from);
    sizes.back() = b.getIndexAttr(count);
    return b.slice(storage, offsets, sizes, type.clone(shape));
  };
  AffineMap all = b.getMultiDimIdentityMap(rank),
            block = all.dropResult(rank - 1);
  SmallVector<Value> inputs = {part(kScaleBytes, kNumbers), part(0, 1),
                               part(1, 1)};
  sizes.back() = b.getIndexAttr(kNumbers);
  Value numbers =
      b.generic(rank, inputs, {b.empty(sizes, b.getF32Type())},
                {all, block, block, all}, [&](Values v) -> SmallVector<Value> {
                  Scalars s{b};
                  return {s.number(v[0], v[1], v[2])};
                })[0];
  SmallVector<ReassociationIndices> groups;
  for (unsigned dim = 0; dim + 1 < rank; ++dim)
    groups.push_back({dim});
  groups.back().push_back(rank - 1);
  return tensor::CollapseShapeOp::create(b, b.getLoc(), numbers, groups);
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
  Value low = byte(b.index(0)), high = byte(b.index(1));
  Value number = s.code(format, code, half);
  return s.binary<arith::MulFOp>(number, s.scale(low, high));
}
