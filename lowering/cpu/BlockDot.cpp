/// c[n] += sum of blocks b of scales(x, b) * scales(w[n], b) * (x[b] . w[n, b])
///
/// for one row x of activations: what decode does. Rows of weights are read
/// where they lie, S far streams at a time as in Dot.cpp. A block is a vector
/// of 32 integers of 8 bits:
///
///   sums[8 lanes] = 4 products each, of integers; exact
///   acc[n]       += float(sums) * (scale of x * scale of w)
///
/// The instructions multiply unsigned by signed integers. So an offset is added
/// to w, and the sums begin with what that adds to them, which depends on x
/// alone. Without vpdpbusd, sums of two products have 16 bits, which is too few
/// for integers of 8 bits: those are widened first. Scales of eight blocks are
/// converted together.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

static constexpr int64_t kNumbers = BlockProduct::kNumbers;
/// Sums of a block.
static constexpr int64_t kLanes = 8;
/// Blocks whose scales are converted together.
static constexpr int64_t kGroup = 8;

/// `value` in each of `lanes` bytes.
static Value bytes(VectorBuilder &b, int64_t value, int64_t lanes) {
  return b.create<arith::ConstantOp>(
      DenseElementsAttr::get(b.vectorType(lanes, b.getI8Type()),
                             b.getI8IntegerAttr(static_cast<int8_t>(value))));
}

Value cria::loadCodes(VectorBuilder &b, const BlockProduct &product, Value row,
                      Value block, bool isSigned) {
  Value first = b.index(BlockProduct::kScaleBytes);
  if (product.bits == 8) {
    Value codes = b.load(product.weights, {row, block, first}, kNumbers);
    return isSigned ? codes
                    : b.create<arith::XOrIOp>(codes, bytes(b, -128, kNumbers));
  }
  // Twice the bytes, of which the second are shifted: a load and two
  // instructions that any port of the vector unit takes.
  Value halves = b.load(product.weights, {row, block, first}, kNumbers / 2);
  SmallVector<int64_t> twice(kNumbers);
  SmallVector<int32_t> shifts(kLanes);
  for (int64_t i = 0; i < kNumbers; ++i)
    twice[i] = i % (kNumbers / 2);
  for (int64_t i = kLanes / 2; i < kLanes; ++i)
    shifts[i] = 4;
  Value words = b.create<vector::BitCastOp>(
      b.vectorType(kLanes, b.getI32Type()),
      b.create<vector::ShuffleOp>(halves, halves, twice));
  Value shifted = b.create<arith::ShRUIOp>(
      words, b.create<arith::ConstantOp>(b.getI32VectorAttr(shifts)));
  Value codes = b.create<arith::AndIOp>(
      b.create<vector::BitCastOp>(b.vectorType(kNumbers, b.getI8Type()),
                                  shifted),
      bytes(b, 15, kNumbers));
  return isSigned ? b.create<arith::SubIOp>(codes, bytes(b, 8, kNumbers))
                  : codes;
}

Value cria::loadScales(VectorBuilder &b, const BlockProduct &product, Value row,
                       Value block, int64_t count) {
  VectorType type = b.vectorType(count, b.getI16Type());
  Value bits = b.create<arith::ConstantOp>(b.getZeroAttr(type));
  for (int64_t i = 0; i < count; ++i) {
    Value bytes =
        b.load(product.weights, {row, b.add(block, i), b.index(0)}, 2);
    Value word =
        b.create<vector::BitCastOp>(b.vectorType(1, b.getI16Type()), bytes);
    bits = b.create<vector::InsertOp>(b.create<vector::ExtractOp>(word, 0),
                                      bits, i);
  }
  Value halves =
      b.create<arith::BitcastOp>(b.vectorType(count, b.getF16Type()), bits);
  return b.create<arith::ExtFOp>(b.vectorType(count, b.getF32Type()), halves);
}

void cria::fetchBlocksAhead(VectorBuilder &b, const BlockProduct &product,
                            Value row, Value block, int64_t count) {
  constexpr int64_t first = VectorUnit::kBytesAhead;
  int64_t bytes = product.blockBytes();
  for (int64_t at = first; at < first + count * bytes; at += 64)
    b.prefetch(product.weights,
               {row, b.add(block, at / bytes), b.index(at % bytes)},
               /*level=*/1);
}

namespace {
/// The row x with columns n, n + apart, ... of c, which are rows of weights.
class BlockDots {
public:
  /// `first` is what sums begin with, (B, 8) i32; null where w is widened.
  BlockDots(VectorBuilder &b, const BlockProduct &product, Value first, Value n,
            int64_t columns, int64_t apart, bool fromZero)
      : b(b), product(product), first(first), n(n), columns(columns),
        apart(apart), sets(columns >= 4 ? 1 : 4), fromZero(fromZero) {}
  void emit();

private:
  Value rowOf(int64_t column) { return b.add(n, column * apart); }
  SmallVector<Value> group(Value block, ValueRange acc, int64_t count);
  Value multiply(Value x, Value row, Value block);

  VectorBuilder &b;
  const BlockProduct &product;
  Value first, n;
  /// Sets of accumulators, which the blocks of a column take turns with.
  int64_t columns, apart, sets;
  bool fromZero;
};
} // namespace

/// sums + the products of four neighbours of unsigned and signed integers.
static Value dotBytes(VectorBuilder &b, Value sums, Value x, Value y) {
  if (b.unit.dotBytes)
    return b.intrinsic("llvm.x86.avx512.vpdpbusd.256", sums.getType(),
                       {sums, x, y});
  VectorType words = b.vectorType(kNumbers / 2, b.getI16Type());
  Value pairs = b.intrinsic("llvm.x86.avx2.pmadd.ub.sw", words, {x, y});
  Value ones = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(words, b.getI16IntegerAttr(1)));
  return b.create<arith::AddIOp>(
      sums,
      b.intrinsic("llvm.x86.avx2.pmadd.wd", sums.getType(), {pairs, ones}));
}

static Value zeroSums(VectorBuilder &b) {
  return b.create<arith::ConstantOp>(
      b.getZeroAttr(b.vectorType(kLanes, b.getI32Type())));
}

/// The products of 32 integers in 16 bits, four in each sum.
static Value dotWords(VectorBuilder &b, Value x, Value y) {
  Value sums = zeroSums(b);
  for (int64_t first : {int64_t(0), kNumbers / 2}) {
    auto words = [&](Value bytes) -> Value {
      return b.create<arith::ExtSIOp>(
          b.vectorType(kNumbers / 2, b.getI16Type()),
          b.create<vector::ExtractStridedSliceOp>(
              bytes, ArrayRef<int64_t>{first}, ArrayRef<int64_t>{kNumbers / 2},
              ArrayRef<int64_t>{1}));
    };
    Value wideX = words(x), wideY = words(y);
    sums = b.create<arith::AddIOp>(
        sums,
        b.intrinsic("llvm.x86.avx2.pmadd.wd", sums.getType(), {wideX, wideY}));
  }
  return sums;
}

/// Sums of the products of x with a block of weights, vector<8xi32>.
Value BlockDots::multiply(Value x, Value row, Value block) {
  Value w = loadCodes(b, product, row, block, /*isSigned=*/!first);
  if (!first)
    return dotWords(b, w, x);
  return dotBytes(b, b.load(first, {block, b.index(0)}, kLanes), w, x);
}

/// Adds the products of `count` blocks to the accumulators.
SmallVector<Value> BlockDots::group(Value block, ValueRange acc,
                                    int64_t count) {
  SmallVector<Value> next(acc), xs;
  for (int64_t i = 0; i < count; ++i)
    xs.push_back(b.load(product.codes,
                        {b.index(0), b.add(block, i), b.index(0)}, kNumbers));
  Value scales = b.loadWide(product.scales, {b.index(0), block}, count);
  for (int64_t column = 0; column < columns; ++column) {
    Value row = rowOf(column);
    if (b.unit.streams > 1 && columns > 1 && count == kGroup)
      fetchBlocksAhead(b, product, row, block, count);
    Value factors = b.create<arith::MulFOp>(
        scales, loadScales(b, product, row, block, count));
    for (int64_t i = 0; i < count; ++i) {
      Value sums =
          b.create<arith::SIToFPOp>(b.vectorType(kLanes, b.getF32Type()),
                                    multiply(xs[i], row, b.add(block, i)));
      Value factor = b.create<vector::BroadcastOp>(
          b.vectorType(kLanes, b.getF32Type()),
          b.create<vector::ExtractOp>(factors, i));
      Value &sum = next[column * sets + i % sets];
      sum = b.fma(sums, factor, sum);
    }
  }
  return next;
}

void BlockDots::emit() {
  int64_t whole = product.blocks() - product.blocks() % kGroup;
  SmallVector<Value> acc(columns * sets, b.zero(kLanes));
  if (whole)
    acc = b.loop(b.index(0), b.index(whole), kGroup, acc,
                 [&](Value block, ValueRange carried) {
                   return group(block, carried, kGroup);
                 });
  if (int64_t left = product.blocks() - whole)
    acc = group(b.index(whole), acc, left);
  for (int64_t column = 0; column < columns; ++column) {
    Value vector = acc[column * sets];
    for (int64_t set = 1; set < sets; ++set)
      vector = b.create<arith::AddFOp>(vector, acc[column * sets + set]);
    Value sum = b.create<vector::ReductionOp>(
        vector::CombiningKind::ADD, vector, arith::FastMathFlags::reassoc);
    SmallVector<Value> at = {b.index(0), rowOf(column)};
    if (!fromZero)
      sum = b.create<arith::AddFOp>(sum,
                                    b.create<memref::LoadOp>(product.out, at));
    b.create<memref::StoreOp>(sum, product.out, at);
  }
}

/// What sums begin with: for each block of x the sums of four neighbours, times
/// the offset that weights have, less than zero.
static Value firstSums(VectorBuilder &b, const BlockProduct &product) {
  auto type = MemRefType::get({product.blocks(), kLanes}, b.getI32Type());
  Value first = b.create<memref::AllocOp>(type, b.getI64IntegerAttr(64));
  Value factor = b.create<arith::ConstantOp>(DenseElementsAttr::get(
      b.vectorType(kLanes, b.getI32Type()),
      b.getI32IntegerAttr(static_cast<int32_t>(-offsetOf(product)))));
  b.loop(b.index(0), b.index(product.blocks()), 1, [&](Value block) {
    Value x = b.load(product.codes, {b.index(0), block, b.index(0)}, kNumbers);
    Value sums = dotBytes(b, zeroSums(b), bytes(b, 1, kNumbers), x);
    b.store(b.create<arith::MulIOp>(sums, factor), first, {block, b.index(0)});
  });
  return first;
}

void cria::emitBlockDot(VectorBuilder &b, const BlockProduct &product,
                        bool fromZero) {
  int64_t streams = b.unit.streams, turns = product.columns() / streams;
  Value first;
  if (b.unit.dotBytes || product.bits == 4)
    first = firstSums(b, product);
  auto columns = [&](Value n, int64_t count, int64_t apart) {
    BlockDots(b, product, first, n, count, apart, fromZero).emit();
  };
  b.parallel(b.index(turns), [&](Value n) { columns(n, streams, turns); });
  b.loop(b.index(turns * streams), b.index(product.columns()), 1,
         [&](Value n) { columns(n, 1, 1); });
}
