/// The scan of keys and values on CUDA cores:
///
///   group of lanes: some keys a turn, lanes side by side along the head
///     s[h] = q[h] . k;  m, l, o[h] rescaled;  o[h] += p * v
///   merge the groups of a warp by shuffles
///
/// Loads into registers do not stay in flight: ptxas moves them to where they
/// are used. So cp.async copies keys and values some turns ahead into a ring of
/// stages in shared memory, from before the queries are read on. A lane copies
/// what it will read itself, so that no barrier is needed:
///
///   turn t:    wait for its copies
///              begin to copy turn t + ahead, over that of t - 1
///              multiply
///
/// Caches in blocks, and lanes with less than 4 or more than 32 bytes of a key,
/// are read where they lie.
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/AttentionSplits.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/kernel/Launches.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Values of q, and of the output, that a lane holds for its query heads at
/// most: they live in registers.
static constexpr int64_t kValues = 32;
/// Bytes that a lane has of a turn's keys.
static constexpr int64_t kTurnBytes = 32;

namespace {
class AttentionScan : public AttentionSplits {
public:
  AttentionScan(KernelFunction &of, const AttentionMemory &in,
                const Tuning &tuning);

private:
  void prefetch(Value firstKey, Value endKey) override;
  void scan(Value firstKey, Value endKey) override;
  void allocateRing();
  SmallVector<Value> queries();
  /// The lane's column of a head. Lanes beyond the head's end work on its last
  /// columns.
  Value column();
  /// The lane's part of the keys and values of a turn, as stored.
  struct Turn {
    SmallVector<Value> keys, values;
  };
  Value keyOf(Value first, int64_t number);
  /// What a key and its value are copied from: one cache, if the value is a
  /// part of the key.
  SmallVector<const Rows *> caches() const {
    SmallVector<const Rows *> both = {&keys, &values};
    both.truncate(hasOneCache() ? 1 : 2);
    return both;
  }
  int64_t stageRows() const {
    return batch * int64_t(caches().size()) * (width / pieceWidth);
  }
  Address stage(Value slot);
  void fetch(Value slot, Value first, Value endKey, Which which);
  Turn loadStage(Value slot);
  Turn loadKeys(Value first, Value last);
  State scanTurns(Value firstKey, Value endKey);
  Value widened(Value stored);
  Value dot(Value q, Value k);
  State step(Value first, Value endKey, const Turn &turn, ArrayRef<Value> q,
             State state);
  State mergeLanes(State state);

  int64_t width, lanes, groups;
  int64_t turnsAhead; // that are copied
  /// Keys of a turn, of a group of lanes and of the block.
  int64_t batch = 1, turnKeys;
  /// The stages: (slot, key of the batch, key or value, piece), each with a
  /// piece of `pieceWidth` for every thread. None where lanes read caches.
  std::optional<Rows> ring;
  int64_t pieceWidth = 0, pieceBytes = 0;
};
} // namespace

AttentionScan::AttentionScan(KernelFunction &of, const AttentionMemory &in,
                             const Tuning &tuning)
    : AttentionSplits(of, in, tuning.decode,
                      std::min(in.group, kValues / scanWidth(in))),
      width(scanWidth(in)), turnsAhead(tuning.scan.ahead) {
  lanes = llvm::PowerOf2Ceil(llvm::divideCeil(size, width));
  groups = kThreads / lanes;
  allocateRing();
  allocate(valueSize, turnKeys * (ring ? turnsAhead : 1), 1,
           {tuning.scan.blocks});
}

void AttentionScan::allocateRing() {
  int64_t elementBytes = keys.element.getIntOrFloatBitWidth() / 8;
  int64_t bytes = width * elementBytes;
  if (!in.attention.widenedKeys && bytes >= 4 && bytes <= kTurnBytes) {
    batch = std::min<int64_t>(2, kTurnBytes / bytes);
    pieceBytes = std::min<int64_t>(16, bytes);
    pieceWidth = pieceBytes / elementBytes;
    int64_t stride = kThreads * pieceWidth;
    int64_t rows = (turnsAhead + 1) * stageRows();
    ring = b.shared(keys.element, rows * stride, stride);
  }
  turnKeys = groups * batch;
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
    Value x = launch.load(in.query,
                          {token, kvHead, queryOf(b.i32(h)), column()}, width);
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
  return b.address(*ring, b.mul(slot, stageRows()),
                   b.mul(b.thread(), pieceWidth));
}

/// Begins to copy the lane's part of a turn, of the keys in `which`. Keys after
/// the end count as new; zeros are stored for them.
void AttentionScan::fetch(Value slot, Value first, Value endKey, Which which) {
  Address to = stage(slot);
  for (int64_t number = 0; number < batch; ++number) {
    Value key = keyOf(first, number), exists = b.less(key, endKey);
    auto copy = [&] {
      Value row = rowOfKey(b.select(exists, key, b.i32(0)), pagesOf());
      int64_t piece = number * stageRows() / batch;
      for (const Rows *cache : caches())
        for (int64_t at = 0; at < width; at += pieceWidth) {
          Operation *copied = cuda::copyAsync(
              b, b.further(to, *ring, piece++, 0),
              b.address(*cache, row, b.add(column(), at)), pieceBytes, exists);
          if (which == Which::Given)
            copied->setAttr(kGivenAttribute, b.getUnitAttr());
        }
    };
    if (which == Which::All) {
      copy();
      continue;
    }
    Value end = endGiven(endKey);
    b.when(which == Which::Given ? b.less(key, end)
                                 : b.less(end, b.add(key, 1)),
           copy);
  }
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
    turn.values.push_back(hasOneCache() ? turn.keys.back() : load());
  }
  return turn;
}

AttentionScan::Turn AttentionScan::loadKeys(Value first, Value last) {
  Value key = b.min(keyOf(first, 0), last);
  Value row = rowOfKey(key, pagesOf());
  auto load = [&](linalg::GenericOp widened, const Rows &cache) {
    return widened ? loadWidened(b, widened, cache, row, column(), width)
                   : b.load(cache, row, column(), width);
  };
  Value own = load(in.attention.widenedKeys, keys);
  if (hasOneCache())
    return {{own}, {own}};
  return {{own}, {load(in.attention.widenedValues, values)}};
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
  Value words = b.bitcast(VectorType::get({pairs}, b.getI32Type()), stored);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < pairs; ++i) {
    Value word = b.extract(words, i);
    Value low = b.create<arith::ShLIOp>(word, b.i32(16));
    for (Value bits : {low, b.both(word, b.i32(int32_t(0xffff0000)))})
      elements.push_back(b.bitcast(b.getF32Type(), bits));
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
AttentionSplits::State AttentionScan::step(Value first, Value endKey,
                                           const Turn &turn, ArrayRef<Value> q,
                                           State state) {
  Value last = b.sub(endKey, b.i32(1));
  std::vector<SmallVector<Partial>> added(heads); // (head, key)
  for (int64_t number = 0; number < batch; ++number) {
    Value key = keyOf(first, number), inside = b.less(key, endKey);
    key = b.min(key, last);
    Value k = widened(turn.keys[number]), v = widened(turn.values[number]);
    for (int64_t h = 0; h < heads; ++h) {
      Value visible = inside;
      Value score = this->score(b.warpSum(dot(q[h], k), lanes),
                                queryOf(b.i32(h)), token, key, visible);
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
AttentionSplits::State AttentionScan::scanTurns(Value firstKey, Value endKey) {
  for (int64_t ahead = 0; ring && ahead < turnsAhead; ++ahead) {
    fetch(b.i32(ahead), b.add(firstKey, ahead * turnKeys), endKey,
          hasGiven() ? Which::New : Which::All);
    cuda::commitCopies(b);
  }
  SmallVector<Value> q = queries();
  State init{SmallVector<Value>(heads, b.f32(kNone)),
             SmallVector<Value>(heads, b.f32(0)),
             SmallVector<Value>(heads, b.splat(b.f32(0), width))};
  SmallVector<Value> carried = init.values();
  // The slot of the turn, and of the turn before.
  carried.append({b.i32(0), b.i32(turnsAhead)});
  auto turn = [&](Value first, ValueRange carried) {
    Value slot = carried[carried.size() - 2], free = carried.back();
    Turn loaded;
    if (ring) {
      cuda::awaitCopies(b, turnsAhead - 1);
      fetch(free, b.add(first, turnsAhead * turnKeys), endKey, Which::All);
      cuda::commitCopies(b);
      loaded = loadStage(slot);
    } else {
      loaded = loadKeys(first, b.sub(endKey, b.i32(1)));
    }
    State state =
        step(first, endKey, loaded, q, State::of(carried.drop_back(2)));
    SmallVector<Value> next = state.values();
    Value isLast = b.equal(slot, b.i32(turnsAhead));
    next.append({b.select(isLast, b.i32(0), b.add(slot, 1)), slot});
    return next;
  };
  auto end = b.loop(firstKey, endKey, turnKeys, carried, turn);
  if (ring)
    cuda::awaitCopies(b, 0);
  return State::of(ValueRange(end).drop_back(2));
}

AttentionSplits::State AttentionScan::mergeLanes(State state) {
  for (int64_t mask = lanes; mask < kWarp; mask *= 2)
    for (int64_t h = 0; h < heads; ++h) {
      SmallVector<Value> out;
      for (int64_t i = 0; i < width; ++i)
        out.push_back(b.shuffleXor(b.extract(state.out[h], i), mask));
      combine(state, h,
              Partial{b.shuffleXor(state.max[h], mask),
                      b.shuffleXor(state.sum[h], mask), b.pack(out)});
    }
  return state;
}

void AttentionScan::prefetch(Value firstKey, Value endKey) {
  for (int64_t ahead = 0; ring && ahead < turnsAhead; ++ahead)
    fetch(b.i32(ahead), b.add(firstKey, ahead * turnKeys), endKey,
          Which::Given);
}

void AttentionScan::scan(Value firstKey, Value endKey) {
  State state = mergeLanes(scanTurns(firstKey, endKey));
  Value lane = b.lane(), column = b.mul(lane, width);
  b.when(b.both(b.less(lane, b.i32(lanes)), b.less(column, b.i32(valueSize))),
         [&] {
           for (int64_t h = 0; h < heads; ++h) {
             Value row = b.add(b.mul(b.warp(), heads), h);
             b.store(state.out[h], warps.out, row, column);
             b.when(b.equal(column, b.i32(0)), [&] {
               Value softmax = b.pack({state.max[h], state.sum[h]});
               b.store(softmax, warps.softmax, row, b.i32(0));
             });
           }
         });
}

gpu::GPUFuncOp cuda::emitAttentionScan(KernelFunction &of,
                                       const AttentionMemory &in,
                                       const Tuning &tuning) {
  return AttentionScan(of, in, tuning).emit();
}
