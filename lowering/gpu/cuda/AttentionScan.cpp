/// Attention over the cache, one pass with a running maximum (online softmax):
///
///   block: a KV head (a part of its query heads where there are many), a
///          token, a split of the visible keys
///   group of lanes: some keys a turn, lanes side by side along the head
///     s[h] = q[h] . k;  m, l, o[h] rescaled;  o[h] += p * v
///   merge the groups of a warp by shuffles, the warps in shared memory
///   with several splits: leave (m, l, o) in device memory; the block that
///   arrives last merges all splits
///
/// All query heads of a KV head are done together, so that keys and values are
/// read once. Decode needs splits to fill the machine, a prefill has tokens.
/// The grid is fixed, the keys are not: a split has at least `leastKeys`, and
/// blocks of splits that no key is left for end at once.
///
/// Loads into registers do not stay in flight: ptxas moves them to where they
/// are used. So cp.async copies keys and values some turns ahead into a ring of
/// stages in shared memory, from before the queries are read on. A lane copies
/// what it will read itself, so that no barrier is needed:
///
///   turn t:    wait for its copies
///              begin to copy turn t + kAhead, over that of t - 1
///              multiply
///
/// Caches in blocks, and lanes with less than 4 or more than 32 bytes of a key,
/// are read where they lie.
#include "lowering/gpu/Attention.h"
#include "lowering/gpu/cuda/TensorCores.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 128, kWarps = kThreads / kWarp;
/// Values of q, and of the output, that a lane holds for its query heads at
/// most: they live in registers.
static constexpr int64_t kValues = 32;
/// Blocks of a decode, if the cache is long enough for them: four on each of an
/// A100's multiprocessors, three or four of an H200's.
static constexpr int64_t kDecodeBlocks = 432;
/// Keys of a split where the cache is full, at least; where it is not, those
/// that are copied at once, if they are fewer.
static constexpr int64_t kKeysPerSplit = 64;
/// Turns that are copied ahead, and bytes that a lane has of a turn's keys:
/// with three blocks on a multiprocessor 48 KiB are in flight.
static constexpr int64_t kAhead = 2, kTurnBytes = 32;
/// Numbers of what warps or splits have saved that a thread loads at once.
static constexpr int64_t kMerged = 32;

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

/// That of one head over some keys.
struct Part {
  Value max, sum, out;
};

class AttentionScan : AttentionKernel {
public:
  AttentionScan(KernelFunction &of, const AttentionMemory &in);
  void emit();

private:
  void allocateRing();
  void allocateSplits();
  Value queryOf(int64_t head);
  std::pair<Value, Value> blockKeys();
  SmallVector<Value> queries();
  /// The lane's column of a head. Lanes beyond the head's end work on its last
  /// columns.
  Value column();
  /// The lane's part of the keys and values of a turn, as stored.
  struct Turn {
    SmallVector<Value> keys, values;
  };
  Value keyOf(Value first, int64_t number);
  Address stage(Value slot);
  void fetch(Value slot, Value first, Value endKey);
  Turn loadStage(Value slot);
  Turn loadKeys(Value first, Value last);
  State scan(Value firstKey, Value endKey);
  Value widened(Value stored);
  Value dot(Value q, Value k);
  State step(Value first, Value endKey, const Turn &turn, ArrayRef<Value> q,
             State state);
  State mergeLanes(State state);
  void mergeWarps(const State &state);
  void mergeSplits();
  void combine(State &into, size_t head, ArrayRef<Part> parts);
  /// States of single heads in memory, a row for each: maximum and sum, output.
  struct Saved {
    Rows softmax, out;
  };
  void save(const State &state, const Saved &to, Value row, Value column);
  State merged(const Saved &from, Value first, Value count, Value head,
               Value column);
  void finishElements(Value head, Value column, const State &state);
  /// Calls `body` with each (head, column) of the block that is a multiple of
  /// `mergeWidth`, one a thread.
  void eachElement(llvm::function_ref<void(Value head, Value column)> body);

  int64_t size, heads, parts, width, lanes, groups;
  /// Keys of a turn, of a group of lanes and of the block.
  int64_t batch = 1, turnKeys;
  int64_t splits = 1, leastKeys;
  /// Columns that a thread merges at once.
  int64_t mergeWidth = 4;
  /// The stages: (slot, key of the batch, key or value, piece), each with a
  /// piece of `pieceWidth` for every thread. None where lanes read caches.
  std::optional<Rows> ring;
  int64_t pieceWidth = 0, pieceBytes = 0;
  Saved partial;                          // (block, split, head)
  Rows arrivals;                          // of a block's splits
  Value firstQuery, token, split, active; // of the block
};
} // namespace

AttentionScan::AttentionScan(KernelFunction &of, const AttentionMemory &in)
    : AttentionKernel(of, in, kThreads), size(in.size), width(scanWidth(in)) {
  heads = std::min(in.group, kValues / width);
  parts = llvm::divideCeil(in.group, heads);
  lanes = llvm::PowerOf2Ceil(llvm::divideCeil(size, width));
  groups = kThreads / lanes;
  auto fits = [&](int64_t width) {
    return size % width == 0 && isContiguous(in.result, width) &&
           heads * size / width >= kThreads;
  };
  while (mergeWidth > 1 && !fits(mergeWidth))
    mergeWidth /= 2;
  allocateRing();
  allocateSplits();
}

void AttentionScan::allocateRing() {
  int64_t elementBytes = keys.element.getIntOrFloatBitWidth() / 8;
  int64_t bytes = width * elementBytes;
  if (!in.attention.widenedKeys && bytes >= 4 && bytes <= kTurnBytes) {
    batch = std::min<int64_t>(2, kTurnBytes / bytes);
    pieceBytes = std::min<int64_t>(16, bytes);
    pieceWidth = pieceBytes / elementBytes;
    int64_t stride = kThreads * pieceWidth;
    int64_t rows = (kAhead + 1) * batch * 2 * (width / pieceWidth);
    ring = b.shared(keys.element, rows * stride, stride);
  }
  turnKeys = groups * batch;
  leastKeys = std::min(kKeysPerSplit, turnKeys * (ring ? kAhead : 1));
}

void AttentionScan::allocateSplits() {
  if (in.tokens.constant != 1)
    return;
  int64_t blocks = in.kvHeads * parts;
  splits = std::clamp<int64_t>(kDecodeBlocks / blocks, 1,
                               llvm::divideCeil(in.room, kKeysPerSplit));
  if (splits == 1)
    return;
  int64_t states = blocks * splits * heads;
  auto temporary = [&](int64_t count, int64_t stride) {
    auto type = MemRefType::get({count}, b.getF32Type());
    return launch.rows(memref::AllocOp::create(of.host, type), stride);
  };
  partial = {temporary(states * 2, 2), temporary(states * size, size)};
  arrivals = launch.rows(of.zeroed(blocks), 1);
}

/// Which of the KV head's queries a head of the block is. Heads past the last
/// do its work again.
Value AttentionScan::queryOf(int64_t head) {
  if (parts == 1)
    return b.i32(head);
  return b.min(b.add(firstQuery, head), b.i32(in.group - 1));
}

/// The first key of this block, and the one behind its last. Sets `active`, the
/// splits that have keys; the first is there without any.
std::pair<Value, Value> AttentionScan::blockKeys() {
  auto [first, end] = keysSeen(token, b.add(token, 1));
  if (splits == 1)
    return {first, end};
  Value count = b.max(b.sub(end, first), b.i32(1));
  Value each = b.max(b.ceilDiv(count, splits), b.i32(leastKeys));
  active = b.create<arith::CeilDivUIOp>(count, each);
  Value firstKey = b.add(first, b.mul(split, each));
  return {firstKey, b.min(b.add(firstKey, each), end)};
}

Value AttentionScan::column() {
  Value own = b.mul(b.rem(b.lane(), lanes), width);
  return b.min(own, b.i32(size - width));
}

/// The lane's part of each query head, times the factor and log2(e).
SmallVector<Value> AttentionScan::queries() {
  double scale = factor ? *factor / std::log(2.0) : 1;
  SmallVector<Value> q;
  // Lanes beyond the head's end are not counted.
  Value inside = b.less(b.mul(b.rem(b.lane(), lanes), width), b.i32(size));
  Value factor = b.select(inside, b.f32(scale), b.f32(0));
  for (int64_t h = 0; h < heads; ++h) {
    Value x =
        launch.load(in.query, {token, kvHead, queryOf(h), column()}, width);
    q.push_back(b.fmul(b.widen(x), b.splat(factor, width)));
  }
  return q;
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

/// A key of this group of lanes in the turn from `first` on.
Value AttentionScan::keyOf(Value first, int64_t number) {
  return b.add(b.add(first, b.div(b.thread(), lanes)), number * groups);
}

/// The lane's first piece in a stage.
Address AttentionScan::stage(Value slot) {
  int64_t rows = batch * 2 * (width / pieceWidth);
  return b.address(*ring, b.mul(slot, rows), b.mul(b.thread(), pieceWidth));
}

/// Begins to copy the lane's part of a turn: a group of copies. Keys behind the
/// end are zeros.
void AttentionScan::fetch(Value slot, Value first, Value endKey) {
  Address to = stage(slot);
  int64_t piece = 0;
  for (int64_t number = 0; number < batch; ++number) {
    Value key = keyOf(first, number), exists = b.less(key, endKey);
    Value row = b.add(keyRow(), b.select(exists, key, b.i32(0)));
    for (const Rows *cache : {&keys, &values})
      for (int64_t at = 0; at < width; at += pieceWidth)
        cuda::copyAsync(b, b.further(to, *ring, piece++, 0),
                        b.address(*cache, row, b.add(column(), at)), pieceBytes,
                        exists);
  }
  cuda::commitCopies(b);
}

AttentionScan::Turn AttentionScan::loadStage(Value slot) {
  Address from = stage(slot);
  auto type = VectorType::get({pieceWidth}, ring->element);
  int64_t piece = 0;
  auto load = [&] {
    SmallVector<Value> elements;
    for (int64_t at = 0; at < width; at += pieceWidth) {
      Value loaded = b.loadFrom(b.further(from, *ring, piece++, 0),
                                pieceWidth == 1 ? ring->element : Type(type));
      if (pieceWidth == width)
        return loaded;
      for (int64_t i = 0; i < pieceWidth; ++i)
        elements.push_back(b.extract(loaded, i));
    }
    return b.pack(elements);
  };
  Turn turn;
  for (int64_t number = 0; number < batch; ++number) {
    turn.keys.push_back(load());
    turn.values.push_back(load());
  }
  return turn;
}

AttentionScan::Turn AttentionScan::loadKeys(Value first, Value last) {
  Value key = b.min(keyOf(first, 0), last);
  Value row = b.add(keyRow(), b.mul(key, in.keyRows));
  auto load = [&](linalg::GenericOp widened, const Rows &cache) {
    return widened ? loadWidened(b, widened, cache, row, column(), width)
                   : b.load(cache, row, column(), width);
  };
  return {{load(in.attention.widenedKeys, keys)},
          {load(in.attention.widenedValues, values)}};
}

//===----------------------------------------------------------------------===//
// The softmax
//===----------------------------------------------------------------------===//

/// In f32. Of a pair of bf16 the high one needs no shift.
Value AttentionScan::widened(Value stored) {
  auto type = dyn_cast<VectorType>(stored.getType());
  if (!type || !type.getElementType().isBF16() || type.getNumElements() % 2)
    return b.widen(stored);
  int64_t pairs = type.getNumElements() / 2;
  Value words = b.create<LLVM::BitcastOp>(
      VectorType::get({pairs}, b.getI32Type()), stored);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < pairs; ++i) {
    Value word = b.extract(words, i);
    Value low = b.create<arith::ShLIOp>(word, b.i32(16));
    for (Value bits : {low, b.both(word, b.i32(int32_t(0xffff0000)))})
      elements.push_back(b.create<LLVM::BitcastOp>(b.getF32Type(), bits));
  }
  return b.pack(elements);
}

/// The lane's part of a product.
Value AttentionScan::dot(Value q, Value k) {
  Value sum = b.fmul(b.extract(q, 0), b.extract(k, 0));
  for (int64_t i = 1; i < width; ++i)
    sum = b.fma(b.extract(q, i), b.extract(k, i), sum);
  return sum;
}

/// The state with the keys of one turn more.
State AttentionScan::step(Value first, Value endKey, const Turn &turn,
                          ArrayRef<Value> q, State state) {
  Value last = b.sub(endKey, b.i32(1));
  std::vector<SmallVector<Part>> added(heads); // (head, key)
  for (int64_t number = 0; number < batch; ++number) {
    Value key = keyOf(first, number), inside = b.less(key, endKey);
    key = b.min(key, last);
    Value k = widened(turn.keys[number]), v = widened(turn.values[number]);
    for (int64_t h = 0; h < heads; ++h) {
      Value visible = inside;
      Value score = this->score(b.warpSum(dot(q[h], k), lanes), queryOf(h),
                                token, key, visible);
      if (!factor)
        score = b.fmul(score, b.f32(1 / std::log(2.0)));
      score = b.select(visible, score, b.f32(-INFINITY));
      added[h].push_back({score, b.f32(1), v});
    }
  }
  for (int64_t h = 0; h < heads; ++h)
    combine(state, h, added[h]);
  return state;
}

/// Every group of lanes takes keys in turn; all threads of the block do the
/// same number of turns, since they shuffle.
State AttentionScan::scan(Value firstKey, Value endKey) {
  for (int64_t ahead = 0; ring && ahead < kAhead; ++ahead)
    fetch(b.i32(ahead), b.add(firstKey, ahead * turnKeys), endKey);
  SmallVector<Value> q = queries();
  State init{SmallVector<Value>(heads, b.f32(kNone)),
             SmallVector<Value>(heads, b.f32(0)),
             SmallVector<Value>(heads, b.splat(b.f32(0), width))};
  SmallVector<Value> carried = init.values();
  carried.append({b.i32(0), b.i32(kAhead)}); // the turn's slot, the one before
  auto turn = [&](Value first, ValueRange carried) {
    Value slot = carried[carried.size() - 2], free = carried.back();
    Turn loaded;
    if (ring) {
      cuda::awaitCopies(b, kAhead - 1);
      fetch(free, b.add(first, kAhead * turnKeys), endKey);
      loaded = loadStage(slot);
    } else {
      loaded = loadKeys(first, b.sub(endKey, b.i32(1)));
    }
    State state =
        step(first, endKey, loaded, q, State::of(carried.drop_back(2)));
    SmallVector<Value> next = state.values();
    Value isLast = b.equal(slot, b.i32(kAhead));
    next.append({b.select(isLast, b.i32(0), b.add(slot, 1)), slot});
    return next;
  };
  auto end = b.loop(firstKey, endKey, turnKeys, carried, turn);
  if (ring)
    cuda::awaitCopies(b, 0);
  return State::of(ValueRange(end).drop_back(2));
}

/// Adds to a head what the parts have seen.
void AttentionScan::combine(State &into, size_t head, ArrayRef<Part> parts) {
  Value &max = into.max[head], &sum = into.sum[head], &out = into.out[head];
  auto type = dyn_cast<VectorType>(out.getType());
  auto splat = [&](Value x) {
    return b.splat(x, type ? type.getNumElements() : 1);
  };
  Value all = max;
  for (const Part &part : parts)
    all = b.fmax(all, part.max);
  Value mine = b.exp2(b.fsub(max, all));
  max = all;
  sum = b.fmul(sum, mine);
  out = b.fmul(out, splat(mine));
  for (const Part &part : parts) {
    Value its = b.exp2(b.fsub(part.max, all));
    sum = b.fma(part.sum, its, sum);
    out = b.fma(part.out, splat(its), out);
  }
}

State AttentionScan::mergeLanes(State state) {
  for (int64_t mask = lanes; mask < kWarp; mask *= 2)
    for (int64_t h = 0; h < heads; ++h) {
      SmallVector<Value> out;
      for (int64_t i = 0; i < width; ++i)
        out.push_back(b.shuffleXor(b.extract(state.out[h], i), mask));
      combine(state, h,
              Part{b.shuffleXor(state.max[h], mask),
                   b.shuffleXor(state.sum[h], mask), b.pack(out)});
    }
  return state;
}

//===----------------------------------------------------------------------===//
// Merging warps and splits
//===----------------------------------------------------------------------===//

void AttentionScan::eachElement(
    llvm::function_ref<void(Value head, Value column)> body) {
  int64_t each = size / mergeWidth;
  b.loop(b.thread(), b.i32(heads * each), kThreads, [&](Value i) {
    Value head = b.div(i, each);
    Value column = b.mul(b.rem(i, each), mergeWidth);
    if (in.group % heads == 0)
      return body(head, column);
    // A block may have fewer heads than it has room for.
    b.when(b.less(b.add(firstQuery, head), b.i32(in.group)),
           [&] { body(head, column); });
  });
}

void AttentionScan::save(const State &state, const Saved &to, Value row,
                         Value column) {
  b.store(state.out[0], to.out, row, column);
  b.when(b.equal(column, b.i32(0)), [&] {
    b.store(b.pack({state.max[0], state.sum[0]}), to.softmax, row, b.i32(0));
  });
}

/// Elements of what `count` warps or splits have saved from `first` on, merged.
State AttentionScan::merged(const Saved &from, Value first, Value count,
                            Value head, Value column) {
  int64_t together = std::min<int64_t>(kMerged / mergeWidth,
                                       getConstantIntValue(count).value_or(16));
  Value last = b.sub(count, b.i32(1));
  State init{{b.f32(kNone)}, {b.f32(0)}, {b.splat(b.f32(0), mergeWidth)}};
  auto body = [&](Value begin, ValueRange carried) {
    SmallVector<Part> parts;
    for (int64_t i = 0; i < together; ++i) {
      Value index = b.add(begin, i), own = b.min(index, last);
      Value row = b.add(b.mul(b.add(first, own), heads), head);
      Value softmax = b.load(from.softmax, row, b.i32(0), 2);
      Value max = b.select(b.less(index, count), b.extract(softmax, 0),
                           b.f32(-INFINITY));
      parts.push_back({max, b.extract(softmax, 1),
                       b.load(from.out, row, column, mergeWidth)});
    }
    State state = State::of(carried);
    combine(state, 0, parts);
    return state.values();
  };
  return State::of(b.loop(b.i32(0), count, together, init.values(), body));
}

void AttentionScan::finishElements(Value head, Value column,
                                   const State &state) {
  SmallVector<Value> made;
  for (int64_t i = 0; i < mergeWidth; ++i)
    made.push_back(finished(b.extract(state.out[0], i), state.sum[0]));
  launch.store(b.pack(made), in.result,
               {token, kvHead, b.add(firstQuery, head), column});
}

void AttentionScan::mergeWarps(const State &state) {
  Type f32 = b.getF32Type();
  Saved warps{b.shared(f32, kWarps * heads * 2, 2),
              b.shared(f32, kWarps * heads * size, size)};
  Value lane = b.lane(), column = b.mul(lane, width);
  b.when(b.both(b.less(lane, b.i32(lanes)), b.less(column, b.i32(size))), [&] {
    for (int64_t h = 0; h < heads; ++h)
      save({{state.max[h]}, {state.sum[h]}, {state.out[h]}}, warps,
           b.add(b.mul(b.warp(), heads), h), column);
  });
  b.barrier();
  eachElement([&](Value head, Value column) {
    State all = merged(warps, b.i32(0), b.i32(kWarps), head, column);
    if (splits == 1)
      return finishElements(head, column, all);
    Value part = b.add(b.mul(b.block(0), splits), split);
    save(all, partial, b.add(b.mul(part, heads), head), column);
  });
}

/// The block that arrives last merges what all splits of a head have left.
void AttentionScan::mergeSplits() {
  b.whenLast(arrivals, b.block(0), active, [&] {
    eachElement([&](Value head, Value column) {
      Value first = b.mul(b.block(0), splits);
      finishElements(head, column,
                     merged(partial, first, active, head, column));
    });
  });
}

void AttentionScan::emit() {
  kvHead = b.div(b.block(0), parts);
  firstQuery = b.mul(b.rem(b.block(0), parts), heads);
  split = b.block(1);
  token = b.block(2);
  auto [firstKey, endKey] = blockKeys();
  auto attend = [&, firstKey = firstKey, endKey = endKey] {
    mergeWarps(mergeLanes(scan(firstKey, endKey)));
    if (splits > 1)
      mergeSplits();
  };
  if (splits > 1)
    b.when(b.less(split, active), attend);
  else
    attend();
  launch.finish({of.constant(in.kvHeads * parts), of.constant(splits),
                 of.blocks(in.tokens, 1)});
}

void simt::emitAttentionScan(KernelFunction &of, const AttentionMemory &in) {
  AttentionScan(of, in).emit();
}
