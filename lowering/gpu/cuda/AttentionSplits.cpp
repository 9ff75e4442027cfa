#include "lowering/gpu/cuda/AttentionSplits.h"
#include "lowering/gpu/cuda/Tuning.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

AttentionSplits::AttentionSplits(KernelFunction &of, const AttentionMemory &in,
                                 int64_t heads)
    : AttentionKernel(of, in, "", kThreads), size(in.size), heads(heads),
      parts(llvm::divideCeil(in.group, heads)) {
  auto fits = [&](int64_t width) {
    return size % width == 0 && isContiguous(in.result, width) &&
           heads * size / width >= kThreads;
  };
  while (mergeWidth > 1 && !fits(mergeWidth))
    mergeWidth /= 2;
}

/// The largest number of tokens whose keys are split: 1 for a decode, the rows
/// of a batch, or 0 for a prompt, whose keys are not split.
int64_t AttentionSplits::mostTokens() const {
  auto chunk = of.kernel->getAttrOfType<IntegerAttr>("chunk");
  if (in.tokens.isConstant() || !in.attention.positions || !chunk)
    return in.tokens.constant == 1;
  return chunk.getInt();
}

Value AttentionSplits::number() {
  if (in.tokens.constant == 1)
    return b.block(0);
  return b.add(b.mul(token, in.kvHeads * parts), b.block(0));
}

void AttentionSplits::allocate(int64_t stride, int64_t leastKeys,
                               int64_t multiple) {
  this->leastKeys = std::min(kKeysPerSplit, leastKeys);
  this->multiple = multiple;
  Type f32 = b.getF32Type();
  warps = {b.shared(f32, kWarps * heads * 2, 2),
           b.shared(f32, kWarps * heads * stride, stride)};
  int64_t tokens = mostTokens();
  if (!tokens)
    return;
  int64_t blocks = in.kvHeads * parts;
  int64_t most = kDecodeBlocks / llvm::divideCeil(tokens, kBatchTokens);
  splits = std::clamp<int64_t>(most / blocks, 1,
                               llvm::divideCeil(in.room, kKeysPerSplit));
  if (splits == 1)
    return;
  blocks *= tokens;
  int64_t states = blocks * splits * heads;
  auto temporary = [&](int64_t count, int64_t stride) {
    return launch.rows(of.allocate(f32, count), stride);
  };
  partial = {temporary(states * 2, 2), temporary(states * size, size)};
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
  Value each = b.mul(b.ceilDiv(count, splits * multiple), multiple);
  each = b.max(each, b.i32(leastKeys));
  Value before = b.mul(split, each), firstKey = b.add(first, before);
  return {firstKey, b.min(b.add(firstKey, each), end), b.less(before, count),
          count, each};
}

void AttentionSplits::emit() {
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
}
