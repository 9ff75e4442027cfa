/// Attention of many tokens on tensor cores (mma.sync), with a running maximum:
///
///   block: 64 query rows of one KV head; a row is a token and one of the query
///          heads that share the KV head, so that keys and values are read once
///          for all of them
///   for tiles of keys that a row of the block may see:
///     s = q k^T;  mask, where a row does not see the whole tile
///     m, l, o rescaled;  p = exp2(s - m);  o += p v
///
/// The last tokens, which may see the most keys, come first.
///
/// A warp has 16 rows. Keys and values come by cp.async: the next keys while
/// the softmax runs, the values while s is computed. Rows of a tile lie 16
/// bytes further apart than they are long, which spreads the eight rows of an
/// ldmatrix over all banks.
///
/// With g = lane / 4 and t = lane % 4, a lane holds of each product of 16 x 8
/// the sums of rows g, g + 8 and columns 2t, 2t + 1: those of s become the left
/// operand of p v where they are.
#include "lowering/gpu/Attention.h"
#include "lowering/gpu/cuda/TensorCores.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 128, kRows = 64, kPad = 8;

namespace {
class AttentionTile : AttentionKernel {
public:
  AttentionTile(KernelFunction &of, const AttentionMemory &in);
  void emit();

private:
  /// A query head of a token, the last where there are no more: a row of the
  /// block.
  struct Row {
    Value token, query, exists;
  };
  Row rowOf(Value index);
  /// A row that the lane has sums of: g, or g + 8.
  Row ownRow(Value start, int64_t half);
  void findRows();
  void fetchQueries();
  void fetch(const Rows &tile, const Rows &cache, Value first);
  /// The address of eight elements, and whether they exist.
  using Source = std::pair<Address, Value>;
  void copyRows(const Rows &tile, int64_t rows,
                llvm::function_ref<Source(Value row, Value column)> from);
  SmallVector<Value> turn(Value first, ValueRange carried);
  SmallVector<Value> products();
  SmallVector<Value> scores(ArrayRef<Value> products, Value first, bool masked);
  SmallVector<Value> scores(Value first);
  void softmax(MutableArrayRef<Value> s, MutableArrayRef<Value> state);
  void addValues(ArrayRef<Value> p, MutableArrayRef<Value> out);
  Value pair(Value low, Value high);
  void store(ValueRange state);

  /// A row that the lane has sums of, and the keys it sees.
  struct OwnRow : Row {
    Value first, end;
  };

  Type element;
  int64_t size, tileKeys;
  double unit; // p is 2^(unit (s - m))
  Rows tileQ, tileK, tileV;
  Value start, tokens, firstKey, endKey;
  SmallVector<OwnRow> rows; // g and g + 8
};
} // namespace

AttentionTile::AttentionTile(KernelFunction &of, const AttentionMemory &in)
    : AttentionKernel(of, in, kThreads), element(in.queryElement),
      size(in.size), unit(1 / std::log(2.0)) {
  if (factor && *factor > 0)
    unit *= *factor;
  // Wide heads leave registers for fewer scores.
  tileKeys = size <= 64 ? 64 : 32;
  int64_t stride = size + kPad;
  tileQ = b.shared(element, kRows * stride, stride);
  tileK = b.shared(element, tileKeys * stride, stride);
  tileV = b.shared(element, tileKeys * stride, stride);
}

AttentionTile::Row AttentionTile::rowOf(Value index) {
  Value token = b.div(index, in.group);
  return {b.min(token, b.sub(tokens, b.i32(1))), b.rem(index, in.group),
          b.less(token, tokens)};
}

AttentionTile::Row AttentionTile::ownRow(Value start, int64_t half) {
  return rowOf(b.add(b.add(start, b.mul(b.warp(), 16)),
                     b.add(b.div(b.lane(), 4), half * 8)));
}

/// The lane's rows, and the keys that any row of the block sees.
void AttentionTile::findRows() {
  tokens = launch.number(in.tokens);
  kvHead = b.block(0);
  Value last = b.sub(b.blocks(1), b.i32(1));
  start = b.mul(b.sub(last, b.block(1)), kRows);
  for (int64_t half = 0; half < 2; ++half) {
    Row row = ownRow(start, half);
    auto [first, end] = keysSeen(row.token, b.add(row.token, 1));
    rows.push_back({row, first, end});
  }
  Value end = b.add(rowOf(b.add(start, kRows - 1)).token, 1);
  std::tie(firstKey, endKey) = keysSeen(rowOf(start).token, end);
}

/// Begins to copy rows of a tile; zeros where there are none.
void AttentionTile::copyRows(
    const Rows &tile, int64_t rows,
    llvm::function_ref<Source(Value row, Value column)> from) {
  int64_t chunks = size / 8;
  b.loop(b.thread(), b.i32(rows * chunks), kThreads, [&](Value i) {
    Value row = b.div(i, chunks), column = b.mul(b.rem(i, chunks), 8);
    auto [source, exists] = from(row, column);
    cuda::copyAsync(b, b.address(tile, row, column), source, 16, exists);
  });
  cuda::commitCopies(b);
}

/// The block's rows of the queries.
void AttentionTile::fetchQueries() {
  copyRows(tileQ, kRows, [&](Value row, Value column) -> Source {
    Row of = rowOf(b.add(start, row));
    return {launch.address(in.query, {of.token, kvHead, of.query, column}),
            of.exists};
  });
}

/// A tile of rows of a cache, up to the last that is seen.
void AttentionTile::fetch(const Rows &tile, const Rows &cache, Value first) {
  copyRows(tile, tileKeys, [&](Value row, Value column) -> Source {
    Value key = b.add(first, row), exists = b.less(key, endKey);
    Value from = b.add(keyRow(), b.select(exists, key, b.i32(0)));
    return {b.address(cache, from, column), exists};
  });
}

/// q k^T: for every 8 keys the lane's four.
SmallVector<Value> AttentionTile::products() {
  Value lane = b.lane();
  Value row = b.add(b.mul(b.div(lane, 16), 8), b.rem(lane, 8));
  Value chunk = b.mul(b.rem(b.div(lane, 8), 2), 8);
  SmallVector<Value> s(tileKeys / 8 * 4, b.f32(0));
  Address start = b.opaque(b.address(tileK, row, chunk));
  Address startQ =
      b.opaque(b.address(tileQ, b.add(b.mul(b.warp(), 16), b.rem(lane, 16)),
                         b.mul(b.div(lane, 16), 8)));
  for (int64_t k = 0; k < size; k += 16) {
    auto left = cuda::loadMatrices(b, b.further(startQ, tileQ, 0, k));
    for (int64_t key = 0; key < tileKeys; key += 16) {
      auto right = cuda::loadMatrices(b, b.further(start, tileK, key, k));
      cuda::mma(b, element, left, right,
                MutableArrayRef(s).slice(key / 8 * 4, 8));
    }
  }
  return s;
}

/// What the softmax takes for the products, but for a factor that `unit` has.
SmallVector<Value> AttentionTile::scores(ArrayRef<Value> products, Value first,
                                         bool masked) {
  SmallVector<Value> s;
  Value t = b.add(first, b.mul(b.rem(b.lane(), 4), 2));
  Value lastKey = b.sub(endKey, b.i32(1));
  for (auto [i, product] : llvm::enumerate(products)) {
    const OwnRow &row = rows[i % 4 / 2];
    Value key = b.add(t, i / 4 * 8 + i % 2), visible = b.less(key, row.end);
    if (!bounds.first.empty())
      visible = b.both(visible, b.less(b.sub(row.first, b.i32(1)), key));
    if (masked)
      key = b.min(key, lastKey);
    Value score = this->score(product, row.query, row.token, key, visible);
    if (factor && *factor <= 0)
      score = b.fmul(score, b.f32(*factor));
    if (masked)
      score = b.select(visible, score, b.f32(-INFINITY));
    s.push_back(score);
  }
  return s;
}

/// The same for a tile, of whose keys a lane's rows see all or some.
SmallVector<Value> AttentionTile::scores(Value first) {
  SmallVector<Value> s = products();
  if (!bounds.exact)
    return scores(s, first, /*masked=*/true);
  Value last = b.add(first, tileKeys - 1);
  Value all = b.both(b.less(last, rows[0].end), b.less(last, rows[1].end));
  if (!bounds.first.empty())
    for (const OwnRow &row : rows)
      all = b.both(all, b.less(b.sub(row.first, b.i32(1)), first));
  return b.choose(
      all, [&] { return scores(s, first, /*masked=*/false); },
      [&] { return scores(s, first, /*masked=*/true); });
}

/// Turns s into p; `state` is the two rows' maxima, the lane's part of their
/// sums, then o.
void AttentionTile::softmax(MutableArrayRef<Value> s,
                            MutableArrayRef<Value> state) {
  MutableArrayRef<Value> out = state.drop_front(4);
  auto power = [&](Value x, Value max) {
    return b.exp2(b.fma(x, b.f32(unit), b.fmul(max, b.f32(-unit))));
  };
  for (size_t half = 0; half < 2; ++half) {
    Value &max = state[half], &sum = state[2 + half];
    auto mine = [&](size_t i) { return i % 4 / 2 == half; };
    Value highest = max;
    for (size_t i = 0; i < s.size(); ++i)
      if (mine(i))
        highest = b.fmax(highest, s[i]);
    highest = b.warpMax(highest, 4);
    Value old = power(max, highest);
    max = highest;
    sum = b.fmul(sum, old);
    for (size_t i = 0; i < s.size(); ++i)
      if (mine(i)) {
        s[i] = power(s[i], highest);
        sum = b.fadd(sum, s[i]);
      }
    for (size_t i = 0; i < out.size(); ++i)
      if (mine(i))
        out[i] = b.fmul(out[i], old);
  }
}

Value AttentionTile::pair(Value low, Value high) {
  return b.bits(b.narrow(b.pack({low, high}), element));
}

/// o += p v; p is rounded to the storage type.
void AttentionTile::addValues(ArrayRef<Value> p, MutableArrayRef<Value> out) {
  Value lane = b.lane();
  Address start =
      b.opaque(b.address(tileV, b.rem(lane, 16), b.mul(b.div(lane, 16), 8)));
  for (int64_t key = 0; key < tileKeys; key += 16) {
    ArrayRef<Value> s = p.slice(key / 8 * 4, 8);
    SmallVector<Value> left = {pair(s[0], s[1]), pair(s[2], s[3]),
                               pair(s[4], s[5]), pair(s[6], s[7])};
    for (int64_t column = 0; column < size; column += 16) {
      auto right = cuda::loadMatrices(b, b.further(start, tileV, key, column),
                                      /*transposed=*/true);
      cuda::mma(b, element, left, right, out.slice(column / 8 * 4, 8));
    }
  }
}

/// The tile of keys from `first` on.
SmallVector<Value> AttentionTile::turn(Value first, ValueRange carried) {
  SmallVector<Value> state(carried);
  fetch(tileV, values, first);
  cuda::awaitCopies(b, 1); // the keys
  b.barrier();
  SmallVector<Value> s = scores(first);
  b.barrier();
  fetch(tileK, keys, b.add(first, tileKeys));
  softmax(s, state);
  cuda::awaitCopies(b, 1); // the values
  b.barrier();
  addValues(s, MutableArrayRef(state).drop_front(4));
  b.barrier();
  return state;
}

void AttentionTile::store(ValueRange state) {
  Value t = b.mul(b.rem(b.lane(), 4), 2);
  Value start = b.opaque(this->start);
  for (int64_t half = 0; half < 2; ++half) {
    Row row = ownRow(start, half);
    Value sum = b.warpSum(state[2 + half], 4);
    b.when(row.exists, [&] {
      for (int64_t column = 0; column < size; column += 8) {
        int64_t at = 4 + column / 8 * 4 + half * 2;
        Value both =
            b.pack({finished(state[at], sum), finished(state[at + 1], sum)});
        launch.store(both, in.result,
                     {row.token, kvHead, row.query, b.add(t, column)});
      }
    });
  }
}

void AttentionTile::emit() {
  findRows();
  fetchQueries();
  SmallVector<Value> state(2, b.f32(kNone));
  state.append(2 + size / 8 * 4, b.f32(0));
  fetch(tileK, keys, firstKey);
  auto end = b.loop(
      firstKey, endKey, tileKeys, state,
      [&](Value first, ValueRange carried) { return turn(first, carried); });
  cuda::awaitCopies(b, 0);
  store(end);
  // A group that does not divide the rows of a block: a few blocks too many.
  launch.finish(
      {of.constant(in.kvHeads), of.blocks(in.tokens, kRows / in.group)});
}

bool simt::takesAttentionMma(const AttentionMemory &in) {
  return !in.tokens.isConstant() && !in.queryElement.isF32() &&
         in.queryElement == in.cacheElement && in.size % 16 == 0 &&
         in.size <= 128 && in.group <= kRows && isContiguous(in.query, 8) &&
         isContiguous(in.result, 2);
}

void simt::emitAttentionMma(KernelFunction &of, const AttentionMemory &in) {
  AttentionTile(of, in).emit();
}
