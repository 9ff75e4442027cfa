/// What lanes, warps and splits have seen of the keys, merged: lanes of a warp
/// by shuffles, warps in shared memory, splits in device memory.
#include "lowering/gpu/cuda/AttentionScan.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Numbers of what warps or splits have saved that a thread loads at once.
static constexpr int64_t kMerged = 32;

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

AttentionScan::State AttentionScan::mergeLanes(State state) {
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
AttentionScan::State AttentionScan::merged(const Saved &from, Value first,
                                           Value count, Value head,
                                           Value column) {
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
  Value sum = divisor(state.sum[0]);
  for (int64_t i = 0; i < mergeWidth; ++i)
    made.push_back(finished(b.fdiv(b.extract(state.out[0], i), sum)));
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
