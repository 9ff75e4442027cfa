/// What warps and splits have seen of the keys, merged: warps in shared memory,
/// splits in device memory.
#include "lowering/gpu/cuda/AttentionSplits.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Numbers of what warps or splits have saved that a thread loads at once.
static constexpr int64_t kMerged = 32;

void AttentionSplits::combine(State &into, size_t head, ArrayRef<Part> parts) {
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

void AttentionSplits::eachElement(
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

/// Elements of what `count` warps or splits have saved from `first` on, merged:
/// as many at once as are loaded at once, then the rest.
AttentionSplits::State AttentionSplits::merged(const Saved &from, Value first,
                                               Value count, Value head,
                                               Value column) {
  auto known = getConstantIntValue(count);
  int64_t together =
      std::min<int64_t>(kMerged / mergeWidth, known.value_or(16));
  Value last = b.sub(count, b.i32(1));
  auto rowOf = [&](Value index) {
    return b.add(b.mul(b.add(first, index), heads), head);
  };
  auto whole = [&](Value begin, ValueRange carried) {
    Address softmax = b.address(from.softmax, rowOf(begin), b.i32(0));
    Address out = b.address(from.out, rowOf(begin), column);
    SmallVector<Part> parts;
    for (int64_t i = 0; i < together; ++i) {
      int64_t rows = i * heads;
      auto load = [&](Address start, const Rows &of, int64_t width) {
        Type f32 = b.getF32Type();
        return b.loadFrom(b.further(start, of, rows, 0),
                          width == 1 ? f32 : VectorType::get({width}, f32));
      };
      Value both = load(softmax, from.softmax, 2);
      parts.push_back({b.extract(both, 0), b.extract(both, 1),
                       load(out, from.out, mergeWidth)});
    }
    State state = State::of(carried);
    combine(state, 0, parts);
    return state.values();
  };
  auto rest = [&](Value begin, ValueRange carried) {
    SmallVector<Part> parts;
    for (int64_t i = 0; i < together; ++i) {
      Value index = b.add(begin, i), row = rowOf(b.min(index, last));
      Value both = b.load(from.softmax, row, b.i32(0), 2);
      Value max =
          b.select(b.less(index, count), b.extract(both, 0), b.f32(-INFINITY));
      parts.push_back(
          {max, b.extract(both, 1), b.load(from.out, row, column, mergeWidth)});
    }
    State state = State::of(carried);
    combine(state, 0, parts);
    return state.values();
  };
  State init{{b.f32(kNone)}, {b.f32(0)}, {b.splat(b.f32(0), mergeWidth)}};
  if (known && *known % together == 0)
    return State::of(b.loop(b.i32(0), count, together, init.values(), whole));
  Value end = b.sub(count, b.rem(count, together));
  auto most = b.loop(b.i32(0), end, together, init.values(), whole);
  return State::of(b.loop(end, count, together, most, rest));
}

void AttentionSplits::finishElements(Value head, Value column,
                                     const State &state) {
  SmallVector<Value> made;
  Value sum = divisor(state.sum[0]);
  for (int64_t i = 0; i < mergeWidth; ++i)
    made.push_back(finished(b.fdiv(b.extract(state.out[0], i), sum)));
  launch.store(b.pack(made), in.result,
               {token, kvHead, b.add(firstQuery, head), column});
}

void AttentionSplits::mergeWarps() {
  b.barrier();
  eachElement([&](Value head, Value column) {
    State all = merged(warps, b.i32(0), b.i32(kWarps), head, column);
    if (splits == 1)
      return finishElements(head, column, all);
    Value part = b.add(b.mul(number(), splits), split);
    Value row = b.add(b.mul(part, heads), head);
    b.store(all.out[0], partial.out, row, column);
    b.when(b.equal(column, b.i32(0)), [&] {
      Value softmax = b.pack({all.max[0], all.sum[0]});
      b.store(softmax, partial.softmax, row, b.i32(0));
    });
  });
}

/// The block that arrives last merges what all splits of a head have left.
void AttentionSplits::mergeSplits() {
  b.whenLast(arrivals, number(), active, [&] {
    eachElement([&](Value head, Value column) {
      Value first = b.mul(number(), splits);
      finishElements(head, column,
                     merged(partial, first, active, head, column));
    });
  });
}
