/// c[n] += sum of blocks b of scales(x, b) * scales(w[n], b) * (x[b] . w[n, b])
///
/// for one row x of activations, as in decode, or a few, which share the loads
/// of w: of a batch, or of one expert. Rows of weights are read in place, S
/// streams that are far apart at a time, as in Dot.cpp. A block is a vector of
/// 32 integers of 8 bits:
///
///   sums[8 lanes] = 4 products each, of integers; exact
///   acc[n]       += float(sums) * (scale of x * scale of w)
///
/// The instructions multiply unsigned by signed integers, so an offset is added
/// to w. The sums begin with the negative of what the offset adds, which
/// depends on x alone. Without vpdpbusd, sums of two products have 16 bits,
/// which is too few for weights of 8 bits: these are widened first. Arm's
/// instruction multiplies signed integers, 16 at a time: sums have four lanes,
/// and only weights of 4 bits have an offset, because it costs no instruction
/// there. The scales of eight blocks are converted together.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

static constexpr int64_t kNumbers = BlockProduct::kNumbers;
/// The bytes of neighbouring rows of an expert's weights that one iteration
/// reads, or more. The first of these rows is not prefetched.
static constexpr int64_t kUnitBytes = 64 << 10;
/// The number of blocks whose scales are converted together.
static constexpr int64_t kGroup = 8;

/// The number of sums of a block.
static int64_t sumsOf(const VectorUnit &unit) {
  return std::min<int64_t>(unit.lanes, 8);
}

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
  // Loads the bytes twice, and shifts the second copy. This takes one load and
  // two instructions that any port of the vector unit executes.
  Value halves = b.load(product.weights, {row, block, first}, kNumbers / 2);
  SmallVector<int64_t> twice(kNumbers);
  constexpr int64_t words = kNumbers / 4;
  SmallVector<int32_t> shifts(words);
  for (int64_t i = 0; i < kNumbers; ++i)
    twice[i] = i % (kNumbers / 2);
  for (int64_t i = words / 2; i < words; ++i)
    shifts[i] = 4;
  Value both = b.create<vector::BitCastOp>(
      b.vectorType(words, b.getI32Type()),
      b.create<vector::ShuffleOp>(halves, halves, twice));
  Value shifted = b.create<arith::ShRUIOp>(
      both, b.create<arith::ConstantOp>(b.getI32VectorAttr(shifts)));
  Value codes = b.create<arith::AndIOp>(
      b.create<vector::BitCastOp>(b.vectorType(kNumbers, b.getI8Type()),
                                  shifted),
      bytes(b, 15, kNumbers));
  return isSigned ? b.create<arith::SubIOp>(codes, bytes(b, 8, kNumbers))
                  : codes;
}

Value cria::scalesAt(VectorBuilder &b, const BlockProduct &product,
                     ArrayRef<std::pair<Value, Value>> places) {
  auto count = static_cast<int64_t>(places.size());
  VectorType type = b.vectorType(count, b.getI16Type());
  Value bits = b.create<arith::ConstantOp>(b.getZeroAttr(type));
  for (auto [i, place] : llvm::enumerate(places)) {
    Value bytes =
        b.load(product.weights, {place.first, place.second, b.index(0)}, 2);
    Value word =
        b.create<vector::BitCastOp>(b.vectorType(1, b.getI16Type()), bytes);
    bits = b.create<vector::InsertOp>(b.create<vector::ExtractOp>(word, 0),
                                      bits, static_cast<int64_t>(i));
  }
  Value halves =
      b.create<arith::BitcastOp>(b.vectorType(count, b.getF16Type()), bits);
  return b.create<arith::ExtFOp>(b.vectorType(count, b.getF32Type()), halves);
}

Value cria::loadScales(VectorBuilder &b, const BlockProduct &product, Value row,
                       Value block, int64_t count) {
  SmallVector<std::pair<Value, Value>> places;
  for (int64_t i = 0; i < count; ++i)
    places.push_back({row, b.add(block, i)});
  return scalesAt(b, product, places);
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
/// A row of x, and of c.
struct BlockRow {
  SmallVector<Value> x, out; // indices
  Value number;              // of its initial sums
};

/// Dot products of rows of x with the columns n, n + apart, ... of c, which are
/// rows of weights.
class BlockDots {
public:
  /// `first` has the initial sums, (M * B, lanes) i32; null if w has no offset.
  BlockDots(VectorBuilder &b, const BlockProduct &product, Value first,
            ArrayRef<BlockRow> of, Value n, int64_t columns, int64_t apart,
            bool fromZero)
      : b(b), product(product), first(first), n(n), of(of),
        rows(static_cast<int64_t>(of.size())), columns(columns), apart(apart),
        sets(columns >= 4 ? 1 : 4), fromZero(fromZero) {}
  void emit();

private:
  Value rowOf(int64_t column) { return b.add(n, column * apart); }
  SmallVector<Value> group(Value block, ValueRange acc, int64_t count);
  Value multiply(Value x, Value w, Value row, Value block);
  Value &sum(MutableArrayRef<Value> sums, int64_t row, int64_t column,
             int64_t set) {
    return sums[(row * columns + column) * sets + set];
  }

  VectorBuilder &b;
  const BlockProduct &product;
  Value first, n;
  ArrayRef<BlockRow> of;
  int64_t rows;
  /// `sets`: the blocks of a column alternate between sets of accumulators.
  int64_t columns, apart, sets;
  bool fromZero;
};
} // namespace

/// The indices `outer` and then `inner`.
static SmallVector<Value> at(ValueRange outer, ValueRange inner) {
  SmallVector<Value> indices(outer);
  indices.append(inner.begin(), inner.end());
  return indices;
}

/// Half of a block's 32 integers, from `first` on.
static Value halfOf(VectorBuilder &b, Value block, int64_t first) {
  return b.create<vector::ExtractStridedSliceOp>(
      block, ArrayRef<int64_t>{first}, ArrayRef<int64_t>{kNumbers / 2},
      ArrayRef<int64_t>{1});
}

/// Returns sums plus the products of integers; x may be unsigned. There are
/// four neighbours in each sum, or, where there are half as many sums, eight.
static Value dotBytes(VectorBuilder &b, Value sums, Value x, Value y) {
  if (b.unit.neon) {
    for (int64_t first : {int64_t(0), kNumbers / 2})
      sums = b.dotBytes(halfOf(b, x, first), halfOf(b, y, first), sums);
    return sums;
  }
  if (b.unit.dotBytes)
    return b.dotBytes(x, y, sums);
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
      b.getZeroAttr(b.vectorType(sumsOf(b.unit), b.getI32Type())));
}

/// The sums of products of 32 integers, widened to 16 bits, four in each sum.
static Value dotWords(VectorBuilder &b, Value x, Value y) {
  Value sums = zeroSums(b);
  for (int64_t first : {int64_t(0), kNumbers / 2}) {
    auto words = [&](Value bytes) -> Value {
      return b.create<arith::ExtSIOp>(
          b.vectorType(kNumbers / 2, b.getI16Type()), halfOf(b, bytes, first));
    };
    Value wideX = words(x), wideY = words(y);
    sums = b.create<arith::AddIOp>(
        sums,
        b.intrinsic("llvm.x86.avx2.pmadd.wd", sums.getType(), {wideX, wideY}));
  }
  return sums;
}

/// Sums of the products of a row's block x and a block of weights, i32.
Value BlockDots::multiply(Value x, Value w, Value row, Value block) {
  if (!first)
    return b.unit.neon ? dotBytes(b, zeroSums(b), w, x) : dotWords(b, w, x);
  Value at = b.add(block, b.mul(row, product.blocks()));
  return dotBytes(b, b.load(first, {at, b.index(0)}, sumsOf(b.unit)), w, x);
}

/// Adds the products of `count` blocks to the accumulators.
SmallVector<Value> BlockDots::group(Value block, ValueRange acc,
                                    int64_t count) {
  SmallVector<Value> next(acc), xs, scales;
  for (const BlockRow &row : of) {
    for (int64_t i = 0; i < count; ++i)
      xs.push_back(b.load(product.codes,
                          at(row.x, {b.add(block, i), b.index(0)}), kNumbers));
    scales.push_back(b.loadWide(product.scales, at(row.x, block), count));
  }
  for (int64_t column = 0; column < columns; ++column) {
    Value row = rowOf(column);
    if (b.unit.streams > 1 && columns > 1 && count == kGroup)
      fetchBlocksAhead(b, product, row, block, count);
    Value ofWeights = loadScales(b, product, row, block, count);
    SmallVector<Value> factors;
    for (Value scale : scales)
      factors.push_back(b.create<arith::MulFOp>(scale, ofWeights));
    VectorType floats = b.vectorType(sumsOf(b.unit), b.getF32Type());
    for (int64_t i = 0; i < count; ++i) {
      Value place = b.add(block, i);
      Value w = loadCodes(b, product, row, place, /*isSigned=*/!first);
      for (int64_t r = 0; r < rows; ++r) {
        Value sums = b.create<arith::SIToFPOp>(
            floats, multiply(xs[r * count + i], w, of[r].number, place));
        Value factor = b.create<vector::BroadcastOp>(
            floats, b.create<vector::ExtractOp>(factors[r], i));
        Value &acc = sum(next, r, column, i % sets);
        acc = b.fma(sums, factor, acc);
      }
    }
  }
  return next;
}

void BlockDots::emit() {
  int64_t whole = product.blocks() - product.blocks() % kGroup;
  SmallVector<Value> acc(rows * columns * sets, b.zero(sumsOf(b.unit)));
  if (whole)
    acc = b.loop(b.index(0), b.index(whole), kGroup, acc,
                 [&](Value block, ValueRange carried) {
                   return group(block, carried, kGroup);
                 });
  if (int64_t left = product.blocks() - whole)
    acc = group(b.index(whole), acc, left);
  for (int64_t i = 0; i < rows * columns; ++i) {
    int64_t row = i / columns, column = i % columns;
    Value vector = sum(acc, row, column, 0);
    for (int64_t set = 1; set < sets; ++set)
      vector = b.create<arith::AddFOp>(vector, sum(acc, row, column, set));
    Value result = b.create<vector::ReductionOp>(
        vector::CombiningKind::ADD, vector, arith::FastMathFlags::reassoc);
    SmallVector<Value> place = at(of[row].out, rowOf(column));
    if (!fromZero)
      result = b.create<arith::AddFOp>(
          result, b.create<memref::LoadOp>(product.out, place));
    b.create<memref::StoreOp>(result, product.out, place);
  }
}

/// Whether sums of blocks begin with what an offset of the weights adds.
static bool hasFirstSums(const VectorUnit &unit, const BlockProduct &product) {
  return product.bits == 4 || (unit.dotBytes && !unit.neon);
}

/// Room for the initial sums of `rows` rows: for each block of x, the sums of
/// four neighbours times the negative offset of the weights.
static Value allocateSums(VectorBuilder &b, const BlockProduct &product,
                          int64_t rows) {
  auto type = MemRefType::get({rows * product.blocks(), sumsOf(b.unit)},
                              b.getI32Type());
  return b.create<memref::AllocOp>(type, b.getI64IntegerAttr(64));
}

/// Computes the initial sums of the row of x at `x`, the row with this number.
static void setSums(VectorBuilder &b, const BlockProduct &product, Value first,
                    ValueRange x, Value number) {
  Value factor = b.create<arith::ConstantOp>(DenseElementsAttr::get(
      b.vectorType(sumsOf(b.unit), b.getI32Type()),
      b.getI32IntegerAttr(static_cast<int32_t>(-offsetOf(product)))));
  b.loop(b.index(0), b.index(product.blocks()), 1, [&](Value block) {
    Value codes = b.load(product.codes, at(x, {block, b.index(0)}), kNumbers);
    Value sums = dotBytes(b, zeroSums(b), bytes(b, 1, kNumbers), codes);
    Value place = b.add(block, b.mul(number, product.blocks()));
    b.store(b.create<arith::MulIOp>(sums, factor), first, {place, b.index(0)});
  });
}

/// Calls `tile` for the rows [begin, end), some at a time: two if there are
/// many columns or few registers, else four.
static void forTiles(VectorBuilder &b, Value begin, Value end,
                     llvm::function_ref<void(Value, int64_t)> tile) {
  int64_t most = b.unit.streams >= 4 || b.unit.registers < 32 ? 2 : 4;
  Value done = begin, count = b.sub(end, begin);
  for (int64_t size = most; size; size /= 2) {
    Value next = b.add(begin, b.mul(b.div(count, size), size));
    b.loop(done, next, size, [&](Value m) { tile(m, size); });
    done = next;
  }
}

static void emitRows(VectorBuilder &b, const BlockProduct &product,
                     bool fromZero, int64_t maxRows, bool parallel) {
  int64_t streams = b.unit.streams, turns = product.columns() / streams;
  Value first, none = b.index(0);
  if (hasFirstSums(b.unit, product)) {
    first = allocateSums(b, product, maxRows);
    auto ofRow = [&](Value row) { setSums(b, product, first, row, row); };
    if (maxRows == 1)
      ofRow(none);
    else
      b.loop(none, b.size(product.codes, 0), 1, ofRow);
  }
  auto columns = [&](Value n, int64_t count, int64_t apart) {
    auto tile = [&](Value m, int64_t rows) {
      SmallVector<BlockRow> of;
      for (int64_t r = 0; r < rows; ++r) {
        Value row = b.add(m, r);
        of.push_back({{row}, {row}, row});
      }
      BlockDots(b, product, first, of, n, count, apart, fromZero).emit();
    };
    if (maxRows == 1)
      tile(none, 1);
    else
      forTiles(b, none, b.size(product.codes, 0), tile);
  };
  auto turn = [&](Value n) { columns(n, streams, turns); };
  if (parallel)
    b.parallel(b.index(turns), turn);
  else
    b.loop(none, b.index(turns), 1, turn);
  b.loop(b.index(turns * streams), b.index(product.columns()), 1,
         [&](Value n) { columns(n, 1, 1); });
}

void cria::emitBlockDot(VectorBuilder &b, const BlockProduct &product,
                        bool fromZero, bool parallel) {
  emitRows(b, product, fromZero, /*maxRows=*/1, parallel);
}

void cria::emitFewBlockDots(VectorBuilder &b, const BlockProduct &product,
                            bool fromZero, int64_t maxRows) {
  emitRows(b, product, fromZero, maxRows, /*parallel=*/true);
}

/// The initial sums of the rows of x of all tokens, at most `maxTokens`, if
/// there are parts of rows. Null if w has no offset.
static Value sumsOfTokens(VectorBuilder &b, const BlockProduct &product,
                          const ExpertRows &experts, bool ofExperts,
                          int64_t maxTokens) {
  if (!hasFirstSums(b.unit, product))
    return Value();
  int64_t each = ofExperts ? experts.chosen : 1; // rows of a token
  Value first = allocateSums(b, product, maxTokens * each);
  Value rows = b.create<arith::SelectOp>(b.less(b.index(0), experts.count),
                                         b.mul(b.size(product.codes, 0), each),
                                         b.index(0));
  b.parallel(rows, [&](Value row) {
    SmallVector<Value> x = {row};
    if (ofExperts)
      x = experts.indices(b, row, ofExperts);
    setSums(b, product, first, x, row);
  });
  return first;
}

void cria::emitSortedBlockDots(VectorBuilder &b, const BlockProduct &product,
                               const ExpertRows &experts, int64_t maxTokens,
                               bool alone) {
  int64_t streams = b.unit.streams, turns = product.columns() / streams;
  int64_t unit = llvm::divideCeil(
      kUnitBytes, product.blocks() * product.blockBytes()); // turns
  bool ofExperts = product.type(product.scales).getRank() == 3;
  Value first = sumsOfTokens(b, product, experts, ofExperts, maxTokens);
  auto rowAt = [&](Value place) {
    Value row = experts.rowAt(b, place);
    SmallVector<Value> x = experts.indices(b, row, ofExperts);
    return BlockRow{x, experts.indices(b, row, /*ofExperts=*/true),
                    ofExperts ? row : x[0]};
  };
  // Runs `body` for units of parts, with a function that multiplies some
  // columns with the rows of the part.
  auto forParts = [&](int64_t units, auto body) {
    b.parallel(b.mul(experts.count, units), [&](Value i) {
      ExpertPart part(b, experts, product.weights, b.div(i, units));
      BlockProduct of = product;
      of.weights = part.matrix;
      auto columns = [&](Value n, int64_t count, int64_t apart) {
        auto tile = [&](Value place, int64_t rows) {
          SmallVector<BlockRow> tile;
          for (int64_t r = 0; r < rows; ++r)
            tile.push_back(rowAt(b.add(place, r)));
          BlockDots(b, of, first, tile, n, count, apart, /*fromZero=*/false)
              .emit();
        };
        if (alone)
          tile(part.begin, 1);
        else
          forTiles(b, part.begin, part.end, tile);
      };
      auto multiply = [&] { body(b.rem(i, units), columns); };
      if (alone)
        b.when(b.equal(part.end, b.add(part.begin, 1)), multiply);
      else
        multiply();
    });
  };
  if (turns)
    forParts(llvm::divideCeil(turns, unit), [&](Value number, auto columns) {
      Value begin = b.mul(number, unit);
      Value end = b.min(b.add(begin, unit), b.index(turns));
      b.loop(begin, end, 1, [&](Value n) { columns(n, streams, turns); });
    });
  if (product.columns() % streams)
    forParts(1, [&](Value, auto columns) {
      b.loop(b.index(turns * streams), b.index(product.columns()), 1,
             [&](Value n) { columns(n, 1, 1); });
    });
}
