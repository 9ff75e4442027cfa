/// c[n] += sum of blocks b of scale(w[n, b]) * (x[b] . w[n, b])
///
/// for one row x and weights w in blocks of floats of 8 bits, as in decode.
/// Rows of weights are read in place, S streams that are far apart at a time,
/// as in Dot.cpp. The bits of a float of 8 bits, moved to the place that f16
/// has for them, are a 256th of the float:
///
///   16 bits = the byte with its sign, << 7, & 0xbfff
///   f32     = f16 with these bits
///
/// x is widened to f32 once. Each vector of a block is multiplied with it, and
/// the sum of these products with the scale. Where numbers are rounded, each is
/// multiplied with the scale and rounded first.
///
/// Products of several rows copy rows of weights, rounded in this way (Dot.cpp,
/// Panel.cpp, Amx.cpp).
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

static constexpr int64_t kNumbers = BlockProduct::kNumbers;
/// The blocks of a row in one turn of the loop.
static constexpr int64_t kGroup = 4;

/// The codes of the weights' block (row, block), as vectors of `lanes` f32.
static SmallVector<Value> widenCodes(VectorBuilder &b,
                                     const BlockProduct &product, Value row,
                                     Value block, int64_t lanes) {
  Value codes = loadCodes(b, product, row, block, /*isSigned=*/true);
  if (product.isFloat) {
    VectorType words = b.vectorType(kNumbers, b.getI16Type());
    auto constant = [&](int16_t value) -> Value {
      return b.create<arith::ConstantOp>(
          DenseElementsAttr::get(words, b.getI16IntegerAttr(value)));
    };
    Value wide = b.create<arith::ExtSIOp>(words, codes);
    Value shifted = b.create<arith::ShLIOp>(wide, constant(7));
    codes = b.create<arith::BitcastOp>(
        b.vectorType(kNumbers, b.getF16Type()),
        b.create<arith::AndIOp>(shifted, constant(~0x4000)));
  }
  VectorType floats = b.vectorType(lanes, b.getF32Type());
  SmallVector<Value> parts;
  for (int64_t first = 0; first < kNumbers; first += lanes) {
    Value part = b.create<vector::ExtractStridedSliceOp>(codes, first, lanes,
                                                         /*strides=*/1);
    parts.push_back(product.isFloat
                        ? b.create<arith::ExtFOp>(floats, part).getResult()
                        : b.create<arith::SIToFPOp>(floats, part).getResult());
  }
  return parts;
}

/// The scale of a block in `lanes` lanes. It is repeated before it is widened,
/// because one instruction loads and repeats it.
static Value splatScale(VectorBuilder &b, const BlockProduct &product,
                        Value row, Value block, int64_t lanes) {
  Value bytes = b.load(product.weights, {row, block, b.index(0)},
                       BlockProduct::kScaleBytes);
  Value word = b.create<vector::ExtractOp>(
      b.create<vector::BitCastOp>(b.vectorType(1, b.getI16Type()), bytes), 0);
  Value words =
      b.create<vector::BroadcastOp>(b.vectorType(lanes, b.getI16Type()), word);
  Value halves =
      b.create<arith::BitcastOp>(b.vectorType(lanes, b.getF16Type()), words);
  return b.create<arith::ExtFOp>(b.vectorType(lanes, b.getF32Type()), halves);
}

/// `number` times `scale`, rounded to `type`.
static Value rounded(VectorBuilder &b, Value number, Value scale, Type type) {
  Value product = b.create<arith::MulFOp>(number, scale);
  if (type.isF32())
    return product;
  return b.create<arith::TruncFOp>(
      cast<VectorType>(product.getType()).clone(type), product);
}

void cria::copyBlock(VectorBuilder &b, const BlockProduct &product, Value row,
                     Value block, Value copy, ArrayRef<Value> at, Value k) {
  // At least 16 bytes are stored at once. The halves of a block are stored one
  // by one: LLVM would join them with one more instruction.
  int64_t lanes = std::max<int64_t>(b.unit.lanes, 8);
  Type type = cast<MemRefType>(copy.getType()).getElementType();
  Type rounding = b.getF32Type();
  if (product.rounds)
    rounding = getElementTypeOrSelf(product.rows.getType());
  Value scale = splatScale(b, product, row, block, lanes);
  SmallVector<Value> place(at);
  place.push_back(k);
  for (Value codes : widenCodes(b, product, row, block, lanes)) {
    Value numbers = rounded(b, codes, scale, rounding);
    if (rounding != type)
      numbers = b.create<arith::ExtFOp>(b.vectorType(lanes, type), numbers);
    b.store(numbers, copy, place);
    place.back() = b.add(place.back(), lanes);
  }
}

namespace {
/// Dot products of a row `x` (K) of f32 with the columns n, n + apart, ... of
/// c, which are rows of weights.
class WidenedDots {
public:
  WidenedDots(VectorBuilder &b, const Contraction &c, Value x, Value n,
              int64_t columns, int64_t apart)
      : b(b), c(c), product(*c.blocks), x(x), n(n), columns(columns),
        apart(apart), sets(columns > 1 ? 1 : 2) {}
  void emit();

private:
  Value rowOf(int64_t column) { return b.add(n, column * apart); }
  SmallVector<Value> group(Value block, ValueRange acc, int64_t count);
  Value add(Value sum, ArrayRef<Value> xs, Value row, Value block);

  VectorBuilder &b;
  const Contraction &c;
  const BlockProduct &product;
  Value x, n;
  /// `sets`: the blocks of a column alternate between sets of accumulators.
  int64_t columns, apart, sets;
};
} // namespace

/// `sum` plus the products of a block of x and a block of weights.
Value WidenedDots::add(Value sum, ArrayRef<Value> xs, Value row, Value block) {
  Value scale = splatScale(b, product, row, block, b.unit.lanes), ofBlock;
  for (auto [x, w] :
       llvm::zip(xs, widenCodes(b, product, row, block, b.unit.lanes))) {
    Value number = w;
    if (product.rounds)
      number = b.create<arith::ExtFOp>(scale.getType(),
                                       rounded(b, w, scale, c.aType()));
    ofBlock = ofBlock ? b.fma(x, number, ofBlock)
                      : b.create<arith::MulFOp>(x, number).getResult();
  }
  if (product.rounds)
    return b.create<arith::AddFOp>(sum, ofBlock);
  return b.fma(ofBlock, scale, sum);
}

/// Adds the products of `count` blocks to the accumulators.
SmallVector<Value> WidenedDots::group(Value block, ValueRange acc,
                                      int64_t count) {
  SmallVector<Value> next(acc);
  if (b.unit.streams > 1 && columns > 1 && count == kGroup)
    for (int64_t column = 0; column < columns; ++column)
      fetchBlocksAhead(b, product, rowOf(column), block, count);
  for (int64_t i = 0; i < count; ++i) {
    Value place = b.add(block, i), k = b.mul(place, kNumbers);
    SmallVector<Value> xs;
    for (int64_t first = 0; first < kNumbers; first += b.unit.lanes)
      xs.push_back(b.load(x, b.add(k, first), b.unit.lanes));
    for (int64_t column = 0; column < columns; ++column) {
      Value &sum = next[column * sets + i % sets];
      sum = add(sum, xs, rowOf(column), place);
    }
  }
  return next;
}

void WidenedDots::emit() {
  int64_t whole = product.blocks() - product.blocks() % kGroup;
  SmallVector<Value> acc(columns * sets, b.zero(b.unit.lanes));
  if (whole)
    acc = b.loop(b.index(0), b.index(whole), kGroup, acc,
                 [&](Value block, ValueRange carried) {
                   return group(block, carried, kGroup);
                 });
  if (int64_t left = product.blocks() - whole)
    acc = group(b.index(whole), acc, left);
  for (int64_t column = 0; column < columns; ++column) {
    Value sums = acc[column * sets];
    for (int64_t set = 1; set < sets; ++set)
      sums = b.create<arith::AddFOp>(sums, acc[column * sets + set]);
    Value result = b.create<vector::ReductionOp>(
        vector::CombiningKind::ADD, sums, arith::FastMathFlags::reassoc);
    SmallVector<Value> place = {b.index(0), rowOf(column)};
    if (!c.fromZero)
      result = b.create<arith::AddFOp>(
          result, b.create<memref::LoadOp>(product.out, place));
    b.create<memref::StoreOp>(result, product.out, place);
  }
}

/// The first row of a, as f32.
static Value widenRow(VectorBuilder &b, const Contraction &c) {
  Value x = b.create<memref::AllocOp>(MemRefType::get({c.k()}, b.getF32Type()),
                                      b.getI64IntegerAttr(64));
  b.loop(b.index(0), b.index(c.k()), kNumbers, [&](Value k) {
    for (int64_t i = 0; i < kNumbers; i += b.unit.lanes) {
      Value at = b.add(k, i);
      b.store(b.loadWide(c.a, {b.index(0), at}, b.unit.lanes), x, at);
    }
  });
  return x;
}

void cria::emitWidenedDot(VectorBuilder &b, const Contraction &c,
                          bool parallel) {
  int64_t streams = b.unit.streams, turns = c.n() / streams;
  Value x = widenRow(b, c);
  auto turn = [&](Value n) {
    WidenedDots(b, c, x, n, streams, /*apart=*/turns).emit();
  };
  if (parallel)
    b.parallel(b.index(turns), turn);
  else
    b.loop(b.index(0), b.index(turns), 1, turn);
  b.loop(b.index(turns * streams), b.index(c.n()), 1, [&](Value n) {
    WidenedDots(b, c, x, n, /*columns=*/1, /*apart=*/1).emit();
  });
}
