/// Attention of many tokens on tensor cores (mma.sync), with a running maximum:
///
///   block: 64 query rows of one KV head; a row is a token and one of the query
///          heads that share the KV head, so that keys and values are read once
///          for all of them
///   for tiles of keys that a row of the block may see:
///     s = q k^T;  mask;  m, l, o rescaled;  p = exp2(s - m);  o += p v
///
/// A warp has 16 rows. Keys and values come by cp.async: the next keys while
/// the softmax runs, the values while s is computed. Rows of a tile lie 16
/// bytes further apart than they are long, which spreads the eight rows of an
/// ldmatrix over all banks.
///
/// With g = lane / 4 and t = lane % 4, a lane holds of each product of 16 x 8
/// the sums of rows g, g + 8 and columns 2t, 2t + 1: those of s become the left
/// operand of p v where they are.
#include "lowering/gpu/Emitters.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

static constexpr int64_t kThreads = 128, kRows = 64, kPad = 8;
/// Below every score; finite, so that differences of it are numbers.
static constexpr double kNone = -1e30;

namespace {
class AttentionTile {
public:
  AttentionTile(Launch &launch, GQAOp op, Value result);
  DictionaryAttr emit();

private:
  void findRows();
  void fetchQueries();
  void fetch(const Rows &tile, const Rows &cache, Value first);
  SmallVector<Value> turn(Value first, ValueRange carried);
  SmallVector<Value> scores(Value first);
  void softmax(MutableArrayRef<Value> s, MutableArrayRef<Value> state);
  void addValues(ArrayRef<Value> p, MutableArrayRef<Value> out);
  Value visible(int64_t half, Value key);
  Value pair(Value low, Value high);
  void store(ValueRange state);

  /// A row that the lane has sums of: its row of the queries, the keys it sees,
  /// and whether it exists.
  struct Row {
    Value query, first, end, exists;
  };

  Launch &launch;
  KernelBuilder &b;
  GQAOp op;
  Type element;
  int64_t size, tileKeys, kvHeads, group, positions;
  Rows query, keys, values, result, tileQ, tileK, tileV;
  Value kvHead, firstKey, endKey;
  SmallVector<Row> rows; // g and g + 8
};
} // namespace

AttentionTile::AttentionTile(Launch &launch, GQAOp op, Value result)
    : launch(launch), b(launch.b), op(op) {
  RankedTensorType q = op.getQuery().getType(), kv = op.getKeyCache().getType();
  element = q.getElementType();
  size = q.getDimSize(2);
  // Wide heads leave registers for fewer scores.
  tileKeys = size <= 64 ? 64 : 32;
  kvHeads = kv.getDimSize(1);
  positions = kv.getDimSize(2);
  group = q.getDimSize(1) / kvHeads;
  query = launch.rows(op.getQuery());
  query.stride = size;
  this->result = launch.rows(result);
  this->result.stride = size;
  keys = launch.cache(op.getKeyCache(), op.getLayer());
  values = launch.cache(op.getValueCache(), op.getLayer());
  int64_t stride = size + kPad;
  tileQ = b.shared(element, kRows * stride, stride);
  tileK = b.shared(element, tileKeys * stride, stride);
  tileV = b.shared(element, tileKeys * stride, stride);
}

/// The lane's rows, and the keys that any row of the block sees.
void AttentionTile::findRows() {
  Value position = launch.position(), tokens = launch.extent(op.getQuery());
  Value last = b.sub(tokens, b.i32(1));
  kvHead = b.block(0);
  auto seen = [&](Value token) {
    Value at = b.add(position, token), first = b.i32(0);
    if (auto window = op.getWindow())
      first = b.max(first, b.add(at, 1 - static_cast<int64_t>(*window)));
    return std::pair(first,
                     op.getCausal() ? b.add(at, 1) : endOfKeys(launch, op));
  };
  Value start = b.mul(b.block(1), kRows);
  for (int64_t half = 0; half < 2; ++half) {
    Value index = b.add(b.add(start, b.mul(b.warp(), 16)),
                        b.add(b.div(b.lane(), 4), half * 8));
    Value exists = b.less(b.div(index, group), tokens);
    Value token = b.min(b.div(index, group), last);
    Value head = b.add(b.mul(kvHead, group), b.rem(index, group));
    auto [first, end] = seen(token);
    rows.push_back(
        {b.add(b.mul(token, kvHeads * group), head), first, end, exists});
  }
  auto tokenOf = [&](Value index) { return b.min(b.div(index, group), last); };
  firstKey = seen(tokenOf(start)).first;
  endKey = seen(tokenOf(b.add(start, kRows - 1))).second;
}

/// Begins to copy the block's rows of the queries; zeros past the last.
void AttentionTile::fetchQueries() {
  Value last = b.sub(launch.extent(op.getQuery()), b.i32(1));
  Value start = b.mul(b.block(1), kRows);
  int64_t chunks = size / 8;
  b.loop(b.thread(), b.i32(kRows * chunks), kThreads, [&](Value i) {
    Value row = b.div(i, chunks), column = b.mul(b.rem(i, chunks), 8);
    Value index = b.add(start, row), token = b.div(index, group);
    Value exists = b.less(token, b.add(last, 1));
    Value head = b.add(b.mul(kvHead, group), b.rem(index, group));
    Value from = b.add(b.mul(b.min(token, last), kvHeads * group), head);
    b.copyAsync(b.address(tileQ, row, column), b.address(query, from, column),
                16, exists);
  });
  b.commitCopies();
}

/// Begins to copy a tile of rows of a cache; zeros past the last that is seen.
void AttentionTile::fetch(const Rows &tile, const Rows &cache, Value first) {
  int64_t chunks = size / 8;
  b.loop(b.thread(), b.i32(tileKeys * chunks), kThreads, [&](Value i) {
    Value row = b.div(i, chunks), column = b.mul(b.rem(i, chunks), 8);
    Value key = b.add(first, row), exists = b.less(key, endKey);
    Value from =
        b.add(b.mul(kvHead, positions), b.select(exists, key, b.i32(0)));
    b.copyAsync(b.address(tile, row, column), b.address(cache, from, column),
                16, exists);
  });
  b.commitCopies();
}

Value AttentionTile::visible(int64_t half, Value key) {
  Value before = b.less(key, rows[half].end);
  if (!op.getWindow())
    return before;
  return b.both(before, b.less(b.sub(rows[half].first, b.i32(1)), key));
}

/// s, in units of log2(e), masked: for every 8 keys the lane's four.
SmallVector<Value> AttentionTile::scores(Value first) {
  Value lane = b.lane();
  Value row = b.add(b.mul(b.div(lane, 16), 8), b.rem(lane, 8));
  Value chunk = b.mul(b.rem(b.div(lane, 8), 2), 8);
  SmallVector<Value> s(tileKeys / 8 * 4, b.f32(0));
  Address start = b.opaque(b.address(tileK, row, chunk));
  Address startQ =
      b.opaque(b.address(tileQ, b.add(b.mul(b.warp(), 16), b.rem(lane, 16)),
                         b.mul(b.div(lane, 16), 8)));
  for (int64_t k = 0; k < size; k += 16) {
    auto left = b.loadMatrices(b.further(startQ, tileQ, 0, k));
    for (int64_t key = 0; key < tileKeys; key += 16) {
      auto right = b.loadMatrices(b.further(start, tileK, key, k));
      for (int64_t half = 0; half < 2; ++half)
        b.mma(element, left, ValueRange(right).slice(half * 2, 2),
              MutableArrayRef(s).slice((key / 8 + half) * 4, 4));
    }
  }
  double scale = op.getScale().convertToDouble() / std::log(2.0);
  Value t = b.add(first, b.mul(b.rem(lane, 4), 2));
  for (int64_t i = 0; i < tileKeys / 8 * 4; ++i) {
    Value key = b.add(t, i / 4 * 8 + i % 2);
    Value score = b.fmul(s[i], b.f32(scale));
    if (op.getSoftcap())
      score = softcap(b, score, *op.getSoftcap(), std::log(2.0));
    s[i] = b.select(visible(i % 4 / 2, key), score, b.f32(kNone));
  }
  return s;
}

/// Turns s into p; `state` is the two rows' maxima, the lane's part of their
/// sums, then o.
void AttentionTile::softmax(MutableArrayRef<Value> s,
                            MutableArrayRef<Value> state) {
  MutableArrayRef<Value> out = state.drop_front(4);
  for (size_t half = 0; half < 2; ++half) {
    Value &max = state[half], &sum = state[2 + half];
    auto mine = [&](size_t i) { return i % 4 / 2 == half; };
    Value highest = max;
    for (size_t i = 0; i < s.size(); ++i)
      if (mine(i))
        highest = b.fmax(highest, s[i]);
    highest = b.warpMax(highest, 4);
    Value old = b.exp2(b.fsub(max, highest));
    max = highest;
    sum = b.fmul(sum, old);
    for (size_t i = 0; i < s.size(); ++i)
      if (mine(i)) {
        s[i] = b.exp2(b.fsub(s[i], highest));
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
      auto right = b.loadMatrices(b.further(start, tileV, key, column),
                                  /*transposed=*/true);
      for (int64_t half = 0; half < 2; ++half)
        b.mma(element, left, ValueRange(right).slice(half * 2, 2),
              out.slice((column / 8 + half) * 4, 4));
    }
  }
}

/// The tile of keys from `first` on.
SmallVector<Value> AttentionTile::turn(Value first, ValueRange carried) {
  SmallVector<Value> state(carried);
  fetch(tileV, values, first);
  b.awaitCopies(1); // the keys
  b.barrier();
  SmallVector<Value> s = scores(first);
  b.barrier();
  fetch(tileK, keys, b.add(first, tileKeys));
  softmax(s, state);
  b.awaitCopies(1); // the values
  b.barrier();
  addValues(s, MutableArrayRef(state).drop_front(4));
  b.barrier();
  return state;
}

void AttentionTile::store(ValueRange state) {
  Value t = b.mul(b.rem(b.lane(), 4), 2);
  for (int64_t half = 0; half < 2; ++half) {
    Value sum = b.warpSum(state[2 + half], 4);
    b.when(rows[half].exists, [&] {
      for (int64_t column = 0; column < size; column += 8) {
        int64_t at = 4 + column / 8 * 4 + half * 2;
        Value both =
            b.pack({b.fdiv(state[at], sum), b.fdiv(state[at + 1], sum)});
        b.store(both, result, rows[half].query, b.add(t, column));
      }
    });
  }
}

DictionaryAttr AttentionTile::emit() {
  findRows();
  fetchQueries();
  SmallVector<Value> state(2, b.f32(kNone));
  state.append(2 + size / 8 * 4, b.f32(0));
  fetch(tileK, keys, firstKey);
  auto end = b.loop(
      firstKey, endKey, tileKeys, state,
      [&](Value first, ValueRange carried) { return turn(first, carried); });
  b.awaitCopies(0);
  store(end);
  // A group that does not divide the rows of a block: a few blocks too many.
  return launch.finish(
      {{kvHeads, {}}, launch.gridOf(op.getQuery(), kRows / group)});
}

bool cuda::takesAttentionMma(GQAOp op) {
  RankedTensorType q = op.getQuery().getType(), kv = op.getKeyCache().getType();
  int64_t size = q.getDimSize(2), group = q.getDimSize(1) / kv.getDimSize(1);
  return q.isDynamicDim(0) && !q.getElementType().isF32() &&
         q.getElementType() == kv.getElementType() && size % 16 == 0 &&
         size <= 128 && group <= kRows;
}

Steps cuda::emitAttentionMma(const Target &target, GQAOp op, Value result) {
  Launch launch(op.getLoc(), target.module, target.name, kThreads,
                target.places);
  return {AttentionTile(launch, op, result).emit()};
}
