#include "lowering/gpu/cuda/schedules/AttentionSplits.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Numbers of what warps or splits have saved that a thread loads at once.
static constexpr int64_t kMerged = 32;

AttentionSplits::AttentionSplits(KernelFunction &of, const AttentionMemory &in,
                                 const DecodeSizes &sizes, int64_t heads)
    : AttentionKernel(of, in, "", kThreads), size(in.size),
      valueSize(in.valueSize), heads(heads), sizes(sizes),
      parts(llvm::divideCeil(in.group, heads)) {
  auto fits = [&](int64_t width) {
    return valueSize % width == 0 && isContiguous(in.result, width) &&
           heads * valueSize / width >= kThreads;
  };
  while (mergeWidth > 1 && !fits(mergeWidth))
    mergeWidth /= 2;
}

/// The largest number of tokens whose keys are split: 1 for a decode, the rows
/// of a batch, or 0 for a prompt, whose keys are not split.
int64_t AttentionSplits::mostTokens() const {
  std::optional<int64_t> most = of.mostTokens();
  if (in.tokens.isConstant() || !in.attention.positions || !most)
    return in.tokens.constant == 1;
  return *most;
}

Value AttentionSplits::number() {
  if (in.tokens.constant == 1)
    return b.block(0);
  return b.add(b.mul(token, in.kvHeads * parts), b.block(0));
}

void AttentionSplits::allocate(int64_t stride, int64_t leastKeys,
                               int64_t multiple, const Blocks &decode) {
  this->leastKeys = std::min(sizes.keysPerSplit, leastKeys);
  this->multiple = multiple;
  Type f32 = b.getF32Type();
  warps = {b.shared(f32, kWarps * heads * 2, 2),
           b.shared(f32, kWarps * heads * stride, stride)};
  int64_t tokens = mostTokens();
  if (!tokens)
    return;
  int64_t blocks = in.kvHeads * parts;
  auto splitsOf = [&](int64_t decodeBlocks) {
    int64_t most = decodeBlocks / llvm::divideCeil(tokens, sizes.batchTokens);
    return std::clamp<int64_t>(most / blocks, 1,
                               llvm::divideCeil(in.room, sizes.keysPerSplit));
  };
  splits = fewSplits = splitsOf(decode.blocks);
  // Blocks without keys cost a little: they must be worth it.
  bool isDeep = in.room > 2 * fewSplits * decode.keys;
  if (int64_t most = splitsOf(decode.deepBlocks); isDeep && most > splits) {
    splits = most;
    deepKeys = llvm::alignTo(decode.keys, multiple);
  }
  if (splits == 1)
    return;
  blocks *= tokens;
  int64_t states = blocks * splits * heads;
  auto temporary = [&](int64_t count, int64_t stride) {
    return launch.rows(of.allocate(f32, count), stride);
  };
  partial = {temporary(states * 2, 2),
             temporary(states * valueSize, valueSize)};
  arrivals = launch.rows(of.zeroed(blocks), 1);
}

Value AttentionSplits::queryOf(Value head) {
  if (parts == 1)
    return head;
  return b.min(b.add(firstQuery, head), b.i32(in.group - 1));
}

Value AttentionSplits::endGiven(Value endKey) {
  Value count = launch.value(of.elements.expr(in.attention.keyCount), {});
  return b.min(endKey, b.sub(count, b.i32(1)));
}

/// The keys of this block. The first split exists even if it has no keys.
AttentionSplits::BlockKeys AttentionSplits::blockKeys() {
  auto [first, end] = keysSeen(token, b.add(token, 1));
  firstSeen = first;
  first = alignedKey(first, multiple);
  if (splits == 1)
    return {first, end, {}, {}, {}};
  Value count = b.max(b.sub(end, first), b.i32(1));
  auto keysOf = [&](int64_t splits) {
    return b.mul(b.ceilDiv(count, splits * multiple), multiple);
  };
  Value each = b.max(keysOf(splits), b.i32(leastKeys));
  if (deepKeys)
    each = b.max(each, b.min(keysOf(fewSplits), b.i32(deepKeys)));
  Value before = b.mul(split, each), firstKey = b.add(first, before);
  return {firstKey, b.min(b.add(firstKey, each), end), b.less(before, count),
          count, each};
}

//===----------------------------------------------------------------------===//
// What warps have seen of the keys, in shared memory, and splits, in device
// memory
//===----------------------------------------------------------------------===//

void AttentionSplits::combine(State &into, size_t head,
                              ArrayRef<Partial> parts) {
  Value &max = into.max[head], &sum = into.sum[head], &out = into.out[head];
  auto type = dyn_cast<VectorType>(out.getType());
  auto splat = [&](Value x) {
    return b.splat(x, type ? type.getNumElements() : 1);
  };
  Value all = max;
  for (const Partial &part : parts)
    all = b.fmax(all, part.max);
  Value mine = b.exp2(b.fsub(max, all));
  max = all;
  sum = b.fmul(sum, mine);
  out = b.fmul(out, splat(mine));
  for (const Partial &part : parts) {
    Value its = b.exp2(b.fsub(part.max, all));
    sum = b.fma(part.sum, its, sum);
    out = b.fma(part.out, splat(its), out);
  }
}

void AttentionSplits::eachElement(
    llvm::function_ref<void(Value head, Value column)> body) {
  int64_t each = valueSize / mergeWidth;
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
    SmallVector<Partial> parts;
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
    SmallVector<Partial> parts;
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
  Value query = b.add(firstQuery, head);
  Value sum = divisor(state.sum[0], state.max[0], query);
  for (int64_t i = 0; i < mergeWidth; ++i)
    made.push_back(finished(b.fdiv(b.extract(state.out[0], i), sum)));
  launch.store(b.pack(made), in.result, {token, kvHead, query, column});
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

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

gpu::GPUFuncOp AttentionSplits::emit() {
  kvHead = b.div(b.block(0), parts);
  firstQuery = b.mul(b.rem(b.block(0), parts), heads);
  split = b.block(1);
  token = b.block(2);
  BlockKeys block = blockKeys();
  if (hasGiven())
    prefetch(block.first, block.end);
  auto attend = [&] {
    // No copy needs to wait for this division.
    if (splits > 1)
      active = b.create<arith::CeilDivUIOp>(block.count, block.each);
    scan(block.first, block.end);
    mergeWarps();
    if (splits > 1)
      mergeSplits();
  };
  if (splits > 1)
    b.when(block.exists, attend);
  else
    attend();
  launch.finish({of.constant(in.kvHeads * parts), of.constant(splits),
                 of.blocks(in.tokens, 1)});
  return b.function;
}
