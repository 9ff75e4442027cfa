/// c[m, n] += sum of blocks b of scales(x[m], b) * scales(w[n], b) *
///                                (x[m, b] . w[n, b])
///
/// for a few rows m, a row of w in each lane:
///
///   for `lanes` neighbouring rows n of w, in parallel:
///     for some blocks b at a time:
///       copy them: codes[b][step][lane][k of a step], scales[b][lane] as f32
///       for R rows m:
///         sums[m] = first[m][b], for steps of four k:
///         sums[m] += codes[b][step] * splat(x[m, b, step])
///         acc[m]  += float(sums[m]) * (scales[b] * scale of x[m, b])
///     c[m, n] = acc
///
/// The instruction multiplies unsigned by signed bytes, so an offset is added
/// to w, as in BlockPanel.cpp. Without vpdpbusd, weights of four bits have sums
/// of 16 bits, as there, and weights of eight are widened to 16: a step is then
/// two k, first of all even words of a block, (k, k + 2), then of all odd ones,
/// (k + 1, k + 3), since two shifts widen both. Each row of x has the same bits
/// beside any others, and the same as there: sums of integers are exact, and
/// blocks are added in order.
///
/// Rows of x that are sorted by expert (Experts.cpp) are copied in this order,
/// and parts of them are multiplied with the matrices of theirs.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace cria;

static constexpr int64_t kNumbers = BlockProduct::kNumbers;
/// k that share a lane, and the steps of a block.
static constexpr int64_t kStep = 4, kSteps = kNumbers / kStep;
/// The number of blocks that are copied at a time.
static constexpr int64_t kCopied = 8;
static constexpr int64_t kLine = 64; // bytes of a cache line

namespace {
class BlockColumns {
public:
  BlockColumns(VectorBuilder &b, const BlockProduct &product, bool fromZero,
               int64_t minRows, int64_t maxRows,
               const ExpertRows *experts = nullptr)
      : b(b), product(product), experts(experts), fromZero(fromZero),
        minRows(minRows), maxRows(maxRows),
        maxPlaces(experts ? experts->maxPlaces() : maxRows),
        lanes(b.unit.lanes), blocks(product.blocks()),
        mostRows(b.unit.registers / 4),
        widens(!b.unit.dotBytes && product.bits == 8),
        steps(widens ? 2 * kSteps : kSteps),
        rows(experts ? experts->places : b.size(product.codes, 0)),
        firstPlace(b.index(0)) {}
  void emit();

private:
  Value scratch(ArrayRef<int64_t> shape, Type type) {
    return b.create<memref::AllocaOp>(MemRefType::get(shape, type),
                                      b.getI64IntegerAttr(64));
  }
  std::pair<Value, Value> widened(Value bytes);
  SmallVector<Value> placeInOut(Value row, Value n);
  void prepare(Value row);
  SmallVector<Value> words(Value n, Value block);
  void fetchNext(Value n, Value block);
  void copy(Value n, Value block, Value place);
  Value stepOf(Value row, Value block, Value step);
  void tile(Value row, int64_t count, Value begin, Value copied);
  void row(Value n);
  void columns(Value n);

  VectorBuilder &b;
  BlockProduct product;
  const ExpertRows *experts;
  bool fromZero;
  /// Of x, or of each part.
  int64_t minRows, maxRows;
  int64_t maxPlaces, lanes, blocks;
  /// The most rows of x that are multiplied at a time: each has a vector of
  /// integers and one of floats.
  int64_t mostRows;
  /// Whether integers of eight bits are widened.
  bool widens;
  int64_t steps; // of a block
  /// The rows of x, or of the part, and the place of the first one.
  Value rows, firstPlace;
  /// Of x: the scales as f32, the integers, and initial sums, which widened
  /// integers do not need.
  Value scales, xCodes, first;
  /// Of some blocks of w: the integers and the scales; and the sums.
  Value codes, weightScales, acc;
};
} // namespace

/// The even bytes and the odd ones, in 16 bits each.
std::pair<Value, Value> BlockColumns::widened(Value bytes) {
  auto count = cast<VectorType>(bytes.getType()).getNumElements();
  int64_t bits = cast<VectorType>(bytes.getType()).getElementTypeBitWidth();
  VectorType type = b.vectorType(count * bits / 16, b.getI16Type());
  Value both = b.create<vector::BitCastOp>(type, bytes);
  Value eight = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(type, b.getI16IntegerAttr(8)));
  Value even = b.create<arith::ShLIOp>(both, eight);
  return {b.create<arith::ShRSIOp>(even, eight),
          b.create<arith::ShRSIOp>(both, eight)};
}

/// Converts the scales of a row of x, and widens its integers or computes its
/// initial sums: for each block the sum of its integers times the negative
/// offset of the weights.
void BlockColumns::prepare(Value row) {
  SmallVector<Value> from = {row};
  if (experts) {
    bool ofExperts = product.type(product.scales).getRank() == 3;
    Value source = b.max(experts->rowAt(b, row), b.index(0));
    from = experts->indices(b, source, ofExperts);
  }
  Value offset = b.create<arith::ConstantOp>(
      b.getI32IntegerAttr(static_cast<int32_t>(-offsetOf(product))));
  b.loop(b.index(0), b.index(blocks), 1, [&](Value block) {
    SmallVector<Value> at = from;
    at.push_back(block);
    Value scale = b.create<memref::LoadOp>(product.scales, at);
    b.create<memref::StoreOp>(b.create<arith::ExtFOp>(b.getF32Type(), scale),
                              scales, ValueRange{row, block});
    at.push_back(b.index(0));
    Value bytes = b.load(product.codes, at, kNumbers);
    if (widens) {
      auto [even, odd] = widened(bytes);
      b.store(even, xCodes, {row, block, b.index(0)});
      b.store(odd, xCodes, {row, block, b.index(kNumbers / 2)});
      return;
    }
    if (experts)
      b.store(bytes, xCodes, {row, block, b.index(0)});
    // The absolute value of the sum is at most 32 * 128.
    Value integers =
        b.create<arith::ExtSIOp>(b.vectorType(kNumbers, b.getI16Type()), bytes);
    Value sum = b.create<arith::ExtSIOp>(
        b.getI32Type(),
        b.create<vector::ReductionOp>(vector::CombiningKind::ADD, integers));
    b.create<memref::StoreOp>(b.create<arith::MulIOp>(sum, offset), first,
                              ValueRange{row, block});
  });
}

/// The integers of a block of the rows [n, n + lanes) of w: a vector for each
/// step, with a word of each row. An offset makes them not negative, unless
/// they are widened.
SmallVector<Value> BlockColumns::words(Value n, Value block) {
  VectorType four = b.vectorType(4, b.getI32Type());
  // Makes four words of each four of x and the same four of y. `which` are
  // numbers of words: 0 to 3 in x, 4 to 7 in y.
  using Words = std::array<int64_t, 4>;
  auto shuffled = [&](Value x, Value y, Words which) {
    SmallVector<int64_t> mask;
    for (int64_t at = 0; at < lanes; at += 4)
      for (int64_t word : which)
        mask.push_back(at + word % 4 + word / 4 * lanes);
    return b.create<vector::ShuffleOp>(x, y, mask).getResult();
  };
  auto constant = [&](int32_t value) {
    return b.create<arith::ConstantOp>(DenseElementsAttr::get(
        b.vectorType(lanes, b.getI32Type()), b.getI32IntegerAttr(value)));
  };
  SmallVector<Value> result;
  int64_t bytes = product.blockBytes() - BlockProduct::kScaleBytes;
  for (int64_t from = 0; from < bytes; from += 16) {
    SmallVector<Value> parts; // 16 bytes of rows i, i + 4, ...
    for (int64_t i = 0; i < 4; ++i) {
      SmallVector<Value> loaded;
      for (int64_t row = i; row < lanes; row += 4)
        loaded.push_back(b.create<vector::BitCastOp>(
            four, b.load(product.weights,
                         {b.add(n, row), block,
                          b.index(BlockProduct::kScaleBytes + from)},
                         16)));
      for (int64_t size = 4; loaded.size() > 1; size *= 2) {
        SmallVector<int64_t> both(llvm::to_vector(llvm::seq(2 * size)));
        SmallVector<Value> pairs;
        for (size_t at = 0; at < loaded.size(); at += 2)
          pairs.push_back(
              b.create<vector::ShuffleOp>(loaded[at], loaded[at + 1], both));
        loaded = pairs;
      }
      parts.push_back(loaded[0]);
    }
    Value low01 = shuffled(parts[0], parts[1], {0, 4, 1, 5}),
          high01 = shuffled(parts[0], parts[1], {2, 6, 3, 7}),
          low23 = shuffled(parts[2], parts[3], {0, 4, 1, 5}),
          high23 = shuffled(parts[2], parts[3], {2, 6, 3, 7});
    for (auto [x, y] : {std::pair(low01, low23), std::pair(high01, high23)})
      for (Words which : {Words{0, 1, 4, 5}, Words{2, 3, 6, 7}})
        result.push_back(shuffled(x, y, which));
  }
  if (widens) {
    SmallVector<Value> evens, odds;
    for (Value word : result) {
      auto [even, odd] = widened(word);
      evens.push_back(even);
      odds.push_back(odd);
    }
    evens.append(odds);
    return evens;
  }
  if (product.bits == 8) {
    for (Value &word : result)
      word = b.create<arith::XOrIOp>(word, constant(0x80808080));
    return result;
  }
  SmallVector<Value> bytesOf(result);
  Value mask = constant(0x0f0f0f0f);
  for (Value &word : result)
    word = b.create<arith::AndIOp>(word, mask);
  for (Value word : bytesOf)
    result.push_back(b.create<arith::AndIOp>(
        b.create<arith::ShRUIOp>(word, constant(4)), mask));
  return result;
}

/// Prefetches a block of the rows of w that follow [n, n + lanes). If two
/// blocks are in a cache line, half of these rows take turns.
void BlockColumns::fetchNext(Value n, Value block) {
  int64_t turns = 2 * product.blockBytes() <= kLine ? 2 : 1;
  Value next =
      b.add(b.add(n, lanes), b.mul(b.rem(block, turns), lanes / turns));
  for (int64_t row = 0; row < lanes / turns; ++row)
    b.prefetch(product.weights, {b.add(next, row), block, b.index(0)},
               /*level=*/2);
}

void BlockColumns::copy(Value n, Value block, Value place) {
  VectorType bytes = b.vectorType(lanes * kStep, b.getI8Type());
  for (auto [step, word] : llvm::enumerate(words(n, block)))
    b.store(b.create<vector::BitCastOp>(bytes, word), codes,
            {place, b.index(step), b.index(0)});
  SmallVector<std::pair<Value, Value>> places;
  for (int64_t row = 0; row < lanes; ++row)
    places.push_back({b.add(n, row), block});
  b.store(scalesAt(b, product, places), weightScales, {place, b.index(0)});
}

/// The integers of a step of a row of x, in every lane.
Value BlockColumns::stepOf(Value row, Value block, Value step) {
  int64_t count = widens ? kStep / 2 : kStep;
  Type integer = cast<MemRefType>(xCodes.getType()).getElementType();
  Value word = b.create<vector::BitCastOp>(
      b.vectorType(1, b.getI32Type()),
      b.load(xCodes, {row, block, b.mul(step, count)}, count));
  return b.create<vector::BitCastOp>(
      b.vectorType(lanes * count, integer),
      b.create<vector::BroadcastOp>(b.vectorType(lanes, b.getI32Type()),
                                    b.create<vector::ExtractOp>(word, 0)));
}

/// Adds the blocks [begin, begin + copied) to the sums of `count` rows of x.
void BlockColumns::tile(Value row, int64_t count, Value begin, Value copied) {
  VectorType integers = b.vectorType(lanes, b.getI32Type()),
             floats = b.vectorType(lanes, b.getF32Type());
  // Sums of a block have 16 bits if no instruction adds four products, and
  // products are small.
  bool isShort = !b.unit.dotBytes && !widens;
  VectorType sumType =
      isShort ? b.vectorType(2 * lanes, b.getI16Type()) : integers;
  auto addStep = [&](Value sum, Value w, Value x) -> Value {
    if (!widens)
      return addProducts(b, sum, w, x);
    Value pairs = b.create<vector::BitCastOp>(x.getType(), w);
    return b.create<arith::AddIOp>(sum, sumsOfTwo(b, x, pairs));
  };
  Value zero = b.create<arith::ConstantOp>(b.getZeroAttr(sumType));
  Value ones = b.create<arith::ConstantOp>(DenseElementsAttr::get(
      sumType, b.getIntegerAttr(sumType.getElementType(), 1)));
  auto placeOf = [&](int64_t i) { return b.add(firstPlace, b.add(row, i)); };
  // An iteration has eight products. If there are few rows, each has several
  // sums, which do not wait for each other.
  int64_t together = 8 / count, sets = std::max<int64_t>(4 / count, 1);
  SmallVector<Value> carried;
  for (int64_t i = 0; i < count; ++i)
    carried.push_back(b.load(acc, {b.add(row, i), b.index(0)}, lanes));
  carried = b.loop(
      b.index(0), copied, 1, carried, [&](Value place, ValueRange before) {
        Value block = b.add(begin, place);
        auto firstOf = [&](int64_t i) -> Value {
          return b.create<vector::BroadcastOp>(
              integers,
              b.create<memref::LoadOp>(first, ValueRange{placeOf(i), block}));
        };
        SmallVector<Value> sums(count * sets, zero);
        if (!isShort && !widens)
          for (int64_t i = 0; i < count; ++i)
            sums[i * sets] = firstOf(i);
        sums =
            b.loop(b.index(0), b.index(steps), together, sums,
                   [&](Value from, ValueRange before) {
                     SmallVector<Value> sums(before);
                     for (int64_t k = 0; k < together; ++k) {
                       Value step = b.add(from, k);
                       Value w = b.load(codes, {place, step, b.index(0)},
                                        lanes * kStep);
                       for (int64_t i = 0; i < count; ++i) {
                         Value &sum = sums[i * sets + k % sets];
                         sum = addStep(sum, w, stepOf(placeOf(i), block, step));
                       }
                     }
                     return sums;
                   });
        Value ofWeights = b.load(weightScales, {place, b.index(0)}, lanes);
        SmallVector<Value> next;
        for (int64_t i = 0; i < count; ++i) {
          Value sum = sums[i * sets];
          for (int64_t set = 1; set < sets; ++set)
            sum = b.create<arith::AddIOp>(sum, sums[i * sets + set]);
          if (isShort)
            sum = b.create<arith::AddIOp>(firstOf(i), sumsOfTwo(b, sum, ones));
          Value factor = b.create<arith::MulFOp>(
              ofWeights, b.splat(scales, {placeOf(i), block}, lanes));
          next.push_back(
              b.fma(b.create<arith::SIToFPOp>(floats, sum), factor, before[i]));
        }
        return next;
      });
  for (int64_t i = 0; i < count; ++i)
    b.store(carried[i], acc, {b.add(row, i), b.index(0)});
}

/// Multiplies the only row of x with the rows [n, n + lanes) of w, where they
/// are: it would take longer to make words of their blocks. Expects `widens`.
void BlockColumns::row(Value n) {
  Value none = b.index(0);
  int64_t count = 2 * lanes; // integers of a vector
  auto load = [&](Value source, SmallVector<Value> at, int64_t first) -> Value {
    at.back() = b.index(first);
    return b.create<arith::ExtSIOp>(b.vectorType(count, b.getI16Type()),
                                    b.load(source, at, count));
  };
  Value sum = fromZero ? b.zero(lanes) : b.load(product.out, {none, n}, lanes);
  sum = b.loop(
      none, b.index(blocks), 1, sum, [&](Value block, ValueRange before) {
        fetchNext(n, block);
        SmallVector<Value> xs, sums;
        for (int64_t k = 0; k < kNumbers; k += count)
          xs.push_back(load(product.codes, {none, block, none}, k));
        SmallVector<std::pair<Value, Value>> places;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          Value row = b.add(n, lane), sum;
          for (auto [i, x] : llvm::enumerate(xs)) {
            Value two = sumsOfTwo(b, x,
                                  load(product.weights, {row, block, none},
                                       BlockProduct::kScaleBytes +
                                           static_cast<int64_t>(i) * count));
            sum = sum ? b.create<arith::AddIOp>(sum, two) : two;
          }
          sums.push_back(sum);
          places.push_back({row, block});
        }
        Value whole = b.create<vector::FromElementsOp>(
            b.vectorType(lanes, b.getI32Type()), b.sums(sums));
        Value factor =
            b.create<arith::MulFOp>(scalesAt(b, product, places),
                                    b.splat(scales, {none, block}, lanes));
        Value made = b.create<arith::SIToFPOp>(factor.getType(), whole);
        return SmallVector<Value>{b.fma(made, factor, before[0])};
      })[0];
  b.store(sum, product.out, {none, n});
}

/// The indices of column n of the result, for a row of x, or of the part.
SmallVector<Value> BlockColumns::placeInOut(Value row, Value n) {
  if (!experts)
    return {row, n};
  Value place = experts->rowAt(b, b.add(firstPlace, row));
  SmallVector<Value> at = experts->indices(b, place, /*ofExperts=*/true);
  at.push_back(n);
  return at;
}

/// Multiplies all rows of x, or of the part, with the rows [n, n + lanes) of w.
void BlockColumns::columns(Value n) {
  Value none = b.index(0);
  codes = scratch({kCopied, steps, lanes * kStep}, b.getI8Type());
  weightScales = scratch({kCopied, lanes}, b.getF32Type());
  acc = scratch({maxRows, lanes}, b.getF32Type());
  b.loop(none, rows, 1, [&](Value row) {
    b.store(fromZero ? b.zero(lanes)
                     : b.load(product.out, placeInOut(row, n), lanes),
            acc, {row, none});
  });
  b.loop(none, b.index(blocks), kCopied, [&](Value begin) {
    Value count = b.min(b.index(kCopied), b.sub(b.index(blocks), begin));
    b.loop(none, count, 1, [&](Value place) {
      fetchNext(n, b.add(begin, place));
      copy(n, b.add(begin, place), place);
    });
    Value done = none;
    for (int64_t size : {mostRows, mostRows / 2, int64_t(1)}) {
      if (size > maxRows)
        continue;
      Value next = b.mul(b.div(rows, size), size);
      b.loop(done, next, size,
             [&](Value row) { tile(row, size, begin, count); });
      done = next;
    }
  });
  b.loop(none, rows, 1, [&](Value row) {
    b.store(b.load(acc, {row, none}, lanes), product.out, placeInOut(row, n));
  });
}

void BlockColumns::emit() {
  auto allocate = [&](ArrayRef<int64_t> shape, Type type) -> Value {
    return b.create<memref::AllocOp>(MemRefType::get(shape, type),
                                     b.getI64IntegerAttr(64));
  };
  scales = allocate({maxPlaces, blocks}, b.getF32Type());
  xCodes = product.codes;
  if (widens || experts)
    xCodes = allocate({maxPlaces, blocks, kNumbers},
                      b.getIntegerType(widens ? 16 : 8));
  if (!widens)
    first = allocate({maxPlaces, blocks}, b.getI32Type());
  b.parallel(rows, [&](Value row) { prepare(row); });
  int64_t turns = product.columns() / lanes;
  if (experts) {
    b.parallel(b.mul(experts->count, turns), [&](Value i) {
      ExpertPart part(b, *experts, product.weights, b.div(i, turns));
      llvm::SaveAndRestore weights(product.weights, part.matrix);
      firstPlace = part.begin;
      rows = b.sub(part.end, part.begin);
      auto multiply = [&] { columns(b.mul(b.rem(i, turns), lanes)); };
      if (minRows == 1)
        return multiply();
      b.when(b.less(b.index(1), rows), multiply);
    });
    return;
  }
  b.parallel(b.index(turns), [&](Value turn) {
    Value n = b.mul(turn, lanes);
    if (!widens || minRows > 1)
      return columns(n);
    b.when(
        b.less(b.index(1), rows), [&] { columns(n); }, [&] { row(n); });
  });
}

bool cria::takesBlockColumns(const VectorUnit &unit,
                             const BlockProduct &product) {
  return !unit.neon && (unit.dotBytes || !unit.amxBytes) &&
         product.columns() % unit.lanes == 0;
}

void cria::emitBlockColumns(VectorBuilder &b, const BlockProduct &product,
                            bool fromZero, int64_t minRows, int64_t maxRows) {
  BlockColumns(b, product, fromZero, minRows, maxRows).emit();
}

void cria::emitSortedBlockColumns(VectorBuilder &b, const BlockProduct &product,
                                  const ExpertRows &experts, int64_t minRows,
                                  int64_t maxRows) {
  BlockColumns(b, product, /*fromZero=*/false, minRows, maxRows, &experts)
      .emit();
}
