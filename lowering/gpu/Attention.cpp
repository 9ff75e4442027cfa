/// Attention over the cache, one pass with a running maximum (online softmax):
///
///   block: a KV head (a part of its query heads where there are many), a
///          token, a split of the visible keys
///   group of lanes: one key at a time, lanes side by side along the head
///     s[h] = q[h] . k;  m, l, o[h] rescaled;  o[h] += p * v
///   merge the groups of a warp by shuffles, the warps in shared memory
///   with several splits: leave (m, l, o) in device memory; the block that
///   arrives last merges all splits
///
/// All query heads of a KV head are done together, so that keys and values are
/// read once. Decode needs splits to fill the machine, a prefill has tokens.
#include "lowering/gpu/Emitters.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

static constexpr int64_t kThreads = 128, kWarps = kThreads / kWarp;
/// Values of q, and of the output, that a lane holds for its query heads at
/// most: they live in registers.
static constexpr int64_t kValues = 32;
/// Below every score; finite, so that differences of it are numbers.
static constexpr double kNone = -1e30;
/// Blocks of a decode, if the cache is long enough for them: two on each of an
/// A100's or H100's multiprocessors.
static constexpr int64_t kDecodeBlocks = 256, kKeysPerSplit = 64;

namespace {
/// The running softmax of some heads: what each thread, warp or split holds.
struct State {
  SmallVector<Value> max, sum, out;

  SmallVector<Value> values() const {
    SmallVector<Value> all(max);
    llvm::append_range(all, sum);
    llvm::append_range(all, out);
    return all;
  }
  static State of(ValueRange values) {
    size_t heads = values.size() / 3;
    return {SmallVector<Value>(values.take_front(heads)),
            SmallVector<Value>(values.slice(heads, heads)),
            SmallVector<Value>(values.take_back(heads))};
  }
};

class Attention {
public:
  Attention(Launch &launch, GQAOp op, Value result, Places &places);
  DictionaryAttr emit();

private:
  std::pair<Value, Value> visibleKeys();
  SmallVector<Value> queries();
  State scan(Value firstKey, Value endKey);
  State step(Value key, Value visible, ArrayRef<Value> q, const State &state);
  State mergeLanes(State state);
  void mergeWarps(const State &state);
  State merged(llvm::function_ref<State(int64_t)> part, int64_t parts);
  void combine(State &into, const State &other);
  void leave(Value head, Value column, Value max, Value sum, Value out);
  void mergeSplits();
  void finishElement(Value head, Value column, Value sum, Value out);
  /// Calls `body` with each (head, column) of the block, one a thread.
  void eachElement(llvm::function_ref<void(Value head, Value column)> body);

  Launch &launch;
  KernelBuilder &b;
  GQAOp op;
  int64_t size, kvHeads, group, heads, parts, splits, width, lanes;
  Rows query, keys, values, result;
  // Of splits: (block, split, head) x max, sum; (...) x out; arrivals.
  Rows partial, partialOut, arrivals;
  Value kvHead, firstHead, token, split; // of the block
};
} // namespace

/// Elements of the head that a lane holds: 16 bytes, or more where a warp would
/// not reach; 0 where it does not.
static int64_t widthOf(GQAOp op) {
  RankedTensorType type = op.getQuery().getType();
  int64_t size = type.getDimSize(2);
  int64_t width = accessWidth(type.getElementType(), size);
  while (width * kWarp < size)
    width *= 2;
  return size % width == 0 ? width : 0;
}

bool cuda::takesAttention(GQAOp op) { return widthOf(op) != 0; }

static int64_t splitsOf(GQAOp op, int64_t blocks) {
  if (op.getQuery().getType().isDynamicDim(0))
    return 1;
  int64_t positions = op.getKeyCache().getType().getDimSize(2);
  int64_t most = llvm::divideCeil(positions, kKeysPerSplit);
  return std::clamp<int64_t>(kDecodeBlocks / blocks, 1, most);
}

Attention::Attention(Launch &launch, GQAOp op, Value result, Places &places)
    : launch(launch), b(launch.b), op(op) {
  RankedTensorType q = op.getQuery().getType(), kv = op.getKeyCache().getType();
  size = q.getDimSize(2);
  kvHeads = kv.getDimSize(1);
  group = q.getDimSize(1) / kvHeads;
  width = widthOf(op);
  heads = std::min(group, kValues / width);
  parts = llvm::divideCeil(group, heads);
  splits = splitsOf(op, kvHeads * parts);
  lanes = llvm::PowerOf2Ceil(llvm::divideCeil(size, width));
  query = launch.rows(op.getQuery());
  query.stride = size;
  keys = launch.cache(op.getKeyCache(), op.getLayer());
  values = launch.cache(op.getValueCache(), op.getLayer());
  this->result = launch.rows(result);
  this->result.stride = size;
  if (splits > 1) {
    int64_t blocks = kvHeads * parts, states = blocks * splits * heads;
    Type f32 = b.getF32Type();
    partial = launch.rows(places.temporary(states * 8), f32, 2);
    partialOut = launch.rows(places.temporary(states * size * 4), f32, size);
    arrivals = launch.rows(places.zeroed(blocks * 4), b.getI32Type(), 1);
  }
}

Value cuda::endOfKeys(Launch &launch, GQAOp op) {
  if (op.getOver())
    return launch.source();
  return launch.b.add(launch.position(), launch.extent(op.getQuery()));
}

/// The first key of this block, and the one behind its last.
std::pair<Value, Value> Attention::visibleKeys() {
  Value at = b.add(launch.position(), token);
  Value end = op.getCausal() ? b.add(at, 1) : endOfKeys(launch, op);
  Value first = b.i32(0);
  if (auto window = op.getWindow())
    first = b.max(first, b.add(at, 1 - static_cast<int64_t>(*window)));
  if (splits == 1)
    return {first, end};
  Value each = b.ceilDiv(b.sub(end, first), splits);
  Value firstKey = b.add(first, b.mul(split, each));
  return {firstKey, b.min(b.add(firstKey, each), end)};
}

/// The lane's part of each query head, times the scale and log2(e).
SmallVector<Value> Attention::queries() {
  double scale = op.getScale().convertToDouble() / std::log(2.0);
  int64_t all = kvHeads * group;
  SmallVector<Value> q;
  Value column = b.mul(b.rem(b.lane(), lanes), width);
  // Lanes beyond the head's end work on its last vector and are not counted.
  Value inside = b.less(column, b.i32(size));
  Value at = b.min(column, b.i32(size - width));
  for (int64_t h = 0; h < heads; ++h) {
    Value head = b.min(b.add(firstHead, h), b.i32(all - 1));
    Value row = b.add(b.mul(token, all), head);
    Value x = b.loadWide(query, row, at, width, Access::ReadOnly);
    Value factor = b.select(inside, b.f32(scale), b.f32(0));
    q.push_back(b.fmul(x, b.splat(factor, width)));
  }
  return q;
}

State Attention::step(Value key, Value visible, ArrayRef<Value> q,
                      const State &state) {
  Value column =
      b.min(b.mul(b.rem(b.lane(), lanes), width), b.i32(size - width));
  Value row =
      b.add(b.mul(kvHead, op.getKeyCache().getType().getDimSize(2)), key);
  Value k = b.loadWide(keys, row, column, width);
  Value v = b.loadWide(values, row, column, width);
  State next;
  for (int64_t h = 0; h < heads; ++h) {
    Value score = b.warpSum(b.sum(b.fmul(q[h], k)), lanes);
    if (op.getSoftcap())
      score = softcap(b, score, *op.getSoftcap(), std::log(2.0));
    score = b.select(visible, score, b.f32(kNone));
    Value max = b.fmax(state.max[h], score);
    Value old = b.exp2(b.fsub(state.max[h], max));
    Value p = b.select(visible, b.exp2(b.fsub(score, max)), b.f32(0));
    next.max.push_back(max);
    next.sum.push_back(b.fma(state.sum[h], old, p));
    next.out.push_back(
        b.fma(v, b.splat(p, width), b.fmul(state.out[h], b.splat(old, width))));
  }
  return next;
}

/// Every group of lanes takes keys in turn; all threads of the block do the
/// same number of turns, since they shuffle.
State Attention::scan(Value firstKey, Value endKey) {
  SmallVector<Value> q = queries();
  int64_t groups = kThreads / lanes;
  Value own = b.div(b.thread(), lanes);
  State init{SmallVector<Value>(heads, b.f32(kNone)),
             SmallVector<Value>(heads, b.f32(0)),
             SmallVector<Value>(heads, b.splat(b.f32(0), width))};
  Value last = b.sub(endKey, b.i32(1));
  return State::of(b.loop(firstKey, endKey, groups, init.values(),
                          [&](Value first, ValueRange carried) {
                            Value key = b.add(first, own);
                            State next =
                                step(b.min(key, last), b.less(key, endKey), q,
                                     State::of(carried));
                            return next.values();
                          }));
}

/// Adds what `other` saw to what `into` saw.
void Attention::combine(State &into, const State &other) {
  for (size_t h = 0; h < into.max.size(); ++h) {
    Value max = b.fmax(into.max[h], other.max[h]);
    Value mine = b.exp2(b.fsub(into.max[h], max));
    Value its = b.exp2(b.fsub(other.max[h], max));
    auto scaled = [&](Value a, Value c) {
      auto type = dyn_cast<VectorType>(a.getType());
      int64_t n = type ? type.getNumElements() : 1;
      return b.fma(a, b.splat(mine, n), b.fmul(c, b.splat(its, n)));
    };
    into.max[h] = max;
    into.sum[h] = scaled(into.sum[h], other.sum[h]);
    into.out[h] = scaled(into.out[h], other.out[h]);
  }
}

State Attention::mergeLanes(State state) {
  for (int64_t mask = lanes; mask < kWarp; mask *= 2) {
    State other;
    for (int64_t h = 0; h < heads; ++h) {
      other.max.push_back(b.shuffleXor(state.max[h], mask));
      other.sum.push_back(b.shuffleXor(state.sum[h], mask));
      SmallVector<Value> parts;
      for (int64_t i = 0; i < width; ++i)
        parts.push_back(b.shuffleXor(b.extract(state.out[h], i), mask));
      other.out.push_back(b.pack(parts));
    }
    combine(state, other);
  }
  return state;
}

/// The states of `parts`, merged.
State Attention::merged(llvm::function_ref<State(int64_t)> part,
                        int64_t parts) {
  State all = part(0);
  for (int64_t i = 1; i < parts; ++i)
    combine(all, part(i));
  return all;
}

void Attention::eachElement(
    llvm::function_ref<void(Value head, Value column)> body) {
  b.loop(b.thread(), b.i32(heads * size), kThreads, [&](Value i) {
    Value head = b.div(i, size);
    // A block may have fewer heads than it has room for.
    b.when(b.less(b.add(firstHead, head), b.mul(b.add(kvHead, 1), group)),
           [&] { body(head, b.rem(i, size)); });
  });
}

void Attention::finishElement(Value head, Value column, Value sum, Value out) {
  Value row = b.add(b.mul(token, kvHeads * group), b.add(firstHead, head));
  b.store(b.fdiv(out, sum), result, row, column);
}

void Attention::mergeWarps(const State &state) {
  Type f32 = b.getF32Type();
  Rows max = b.shared(f32, kWarps * heads, heads);
  Rows sum = b.shared(f32, kWarps * heads, heads);
  Rows out = b.shared(f32, kWarps * heads * size, heads * size);
  Value lane = b.lane(), warp = b.warp(), column = b.mul(lane, width);
  b.when(b.both(b.less(lane, b.i32(lanes)), b.less(column, b.i32(size))), [&] {
    for (int64_t h = 0; h < heads; ++h) {
      b.store(state.out[h], out, warp, b.add(column, h * size));
      b.when(b.equal(lane, b.i32(0)), [&] {
        b.store(state.max[h], max, warp, b.i32(h));
        b.store(state.sum[h], sum, warp, b.i32(h));
      });
    }
  });
  b.barrier();
  eachElement([&](Value head, Value column) {
    State all = merged(
        [&](int64_t i) -> State {
          Value w = b.i32(i), at = b.add(b.mul(head, size), column);
          return {{b.load(max, w, head)},
                  {b.load(sum, w, head)},
                  {b.load(out, w, at)}};
        },
        kWarps);
    if (splits == 1)
      finishElement(head, column, all.sum[0], all.out[0]);
    else
      leave(head, column, all.max[0], all.sum[0], all.out[0]);
  });
}

/// Leaves a split's state of an element in device memory.
void Attention::leave(Value head, Value column, Value max, Value sum,
                      Value out) {
  Value row =
      b.add(b.mul(b.add(b.mul(b.block(0), splits), split), heads), head);
  b.store(out, partialOut, row, column);
  b.when(b.equal(column, b.i32(0)), [&] {
    b.store(max, partial, row, b.i32(0));
    b.store(sum, partial, row, b.i32(1));
  });
}

/// The block that arrives last merges what all splits of a head have left.
void Attention::mergeSplits() {
  Rows flag = b.shared(b.getI32Type(), 1, 1);
  b.fence();
  b.barrier();
  b.when(b.equal(b.thread(), b.i32(0)), [&] {
    Value before = b.atomicIncrement(arrivals, b.block(0), splits - 1);
    b.store(before, flag, b.i32(0), b.i32(0));
  });
  b.barrier();
  Value arrived = b.load(flag, b.i32(0), b.i32(0));
  b.when(b.equal(arrived, b.i32(splits - 1)), [&] {
    b.fence();
    eachElement([&](Value head, Value column) {
      Value first = b.mul(b.block(0), splits);
      auto part = [&](Value index) -> State {
        Value row = b.add(b.mul(b.add(first, index), heads), head);
        return {{b.load(partial, row, b.i32(0))},
                {b.load(partial, row, b.i32(1))},
                {b.load(partialOut, row, column)}};
      };
      State start = part(b.i32(0));
      State all = State::of(b.loop(b.i32(1), b.i32(splits), 1, start.values(),
                                   [&](Value index, ValueRange carried) {
                                     State state = State::of(carried);
                                     combine(state, part(index));
                                     return state.values();
                                   }));
      finishElement(head, column, all.sum[0], all.out[0]);
    });
  });
}

DictionaryAttr Attention::emit() {
  kvHead = b.div(b.block(0), parts);
  firstHead =
      b.add(b.mul(kvHead, group), b.mul(b.rem(b.block(0), parts), heads));
  split = b.block(1);
  token = b.block(2);
  auto [firstKey, endKey] = visibleKeys();
  mergeWarps(mergeLanes(scan(firstKey, endKey)));
  if (splits > 1)
    mergeSplits();
  return launch.finish(
      {{kvHeads * parts, {}}, {splits, {}}, launch.gridOf(op.getQuery(), 1)});
}

Steps cuda::emitAttention(const Target &target, GQAOp op, Value result) {
  Launch launch(op.getLoc(), target.module, target.name, kThreads,
                target.places);
  return {Attention(launch, op, result, target.places).emit()};
}
