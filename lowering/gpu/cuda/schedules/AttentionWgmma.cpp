/// Attention of many tokens by warpgroups (wgmma, sm_90a), 128 rows by 128 keys
/// at once, as FlashAttention-3 has it:
///
///   warpgroup 2   one thread copies the queries, then keys and values of each
///                 turn to a stage of a ring, as soon as it is free
///   0 and 1       have 64 rows each:
///                   s = q k[0]^T;  p = softmax
///                   for turns i = 1, ...:
///                     begin s = q k[i]^T, then o += p v[i - 1]
///                     p' = softmax of s, while v is multiplied
///                     o rescaled;  p = p'
///                   o += p v[last]
///
/// So tensor cores have work while exponentials are computed. A multiprocessor
/// computes 16 of them a cycle: with heads 64 wide they take as long as the
/// products.
///
/// Copies bring what lies after the last key, too. Such scores are masked, and
/// such values cleared before the last product: 0 * NaN is not 0.
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/Warpgroups.h"
#include "lowering/gpu/cuda/schedules/AttentionTile.h"
#include "lowering/gpu/schedules/Tuning.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kRows = kWgmmaPrompt.rows, kKeys = kWgmmaPrompt.keys,
                         kStages = kWgmmaPrompt.stages;
/// Elements of a box's row: wider heads are several boxes side by side.
static constexpr int64_t kColumns = 64;
/// Threads that multiply, and all.
static constexpr int64_t kMultiply = 2 * cuda::kWarpgroup,
                         kThreads = kMultiply + cuda::kWarpgroup;
/// The barriers: a slot of the ring has one that it is full by, and one that it
/// is free by.
static constexpr int64_t kSlots = 2 * kStages, kFree = kSlots,
                         kQueries = 2 * kSlots, kBarriers = kQueries + 1;

namespace {
class WgmmaAttention : AttentionTile {
public:
  WgmmaAttention(KernelFunction &of, const AttentionMemory &in);
  gpu::GPUFuncOp emit();

private:
  /// A slot of the ring, keys or values of a turn, and the parity of its use.
  enum Operand { Keys, Values };
  struct Slot {
    Value number, parity;
  };
  Slot slotOf(Value turn, Operand operand);
  Value rowOf(const Slot &slot);
  Value described(Value start, const Slot &slot, int64_t chunks);

  void copy();
  Value products(const Slot &slot);
  Value addValues(const Slot &slot, ValueRange p, Value out);
  void await(const Slot &slot);
  void release(const Slot &slot);
  SmallVector<Value> turn(Value turn, ValueRange carried);
  void clearBehind(const Slot &slot);
  void multiply();

  int64_t boxes() const { return size / kColumns; }
  int64_t bytesOf(int64_t rows) const { return rows * size * 2; }

  Value mapQ, mapK, mapV;
  Rows memory; // queries, then slots; each box by box
  Value turns, startQ, startK, startV;
  std::optional<cuda::PhaseBarriers> barriers;
};
} // namespace

/// So many queries of a KV head that the rows of a block are whole tokens.
static int64_t queriesTogether(const AttentionMemory &in) {
  return std::gcd(in.group, kRows / 2);
}

/// The tokens of the longest prompt, if that is known.
static std::optional<int64_t> mostTokens(const KernelFunction &of) {
  func::FuncOp kernel = of.kernel;
  if (auto chunk = kernel->getAttrOfType<IntegerAttr>("chunk"))
    return chunk.getInt();
  return std::nullopt;
}

WgmmaAttention::WgmmaAttention(KernelFunction &of, const AttentionMemory &in)
    : AttentionTile(of, in, "_wgmma", kThreads, kRows, queriesTogether(in)) {
  auto mapOf = [&](const Rows &cache) {
    auto type = cast<MemRefType>(cache.base.getType());
    return launch.tensorMap(
        cache,
        {{size, type.getNumElements() / size}, {size}, {kColumns, kKeys}});
  };
  mapK = mapOf(keys);
  mapV = mapOf(values);
  int64_t stride = *tokenStride(in.query, in.group, size);
  mapQ = launch.tensorMap(
      launch.place(in.query).rows,
      {{size, together, in.kvHeads * in.group / together, *mostTokens(of)},
       {size, together * size, stride},
       {kColumns, together, 1, kRows / together}});
  memory =
      b.launchedShared(element, bytesOf(kRows + kSlots * kKeys) / 2, kColumns);
  cuda::fitBlocks(b, 1);
}

WgmmaAttention::Slot WgmmaAttention::slotOf(Value turn, Operand operand) {
  Value stage = b.rem(turn, kStages);
  return {b.add(b.mul(stage, 2), operand), b.rem(b.div(turn, kStages), 2)};
}

/// The first row of a slot in shared memory.
Value WgmmaAttention::rowOf(const Slot &slot) {
  return b.add(b.mul(slot.number, boxes() * kKeys), boxes() * kRows);
}

/// Describes the matrix that lies `chunks` times 16 bytes after the beginning
/// of a slot.
Value WgmmaAttention::described(Value start, const Slot &slot, int64_t chunks) {
  Value own = b.add(b.mul(slot.number, boxes() * kKeys * 8), chunks);
  return b.create<arith::AddIOp>(start,
                                 b.create<arith::ExtUIOp>(b.getI64Type(), own));
}

/// One thread fills slots, each when both warpgroups have read what it had.
void WgmmaAttention::copy() {
  auto copyRows = [&](Value map, SmallVector<Value> at, ArrayRef<int64_t> box,
                      Value barrier, Value row, int64_t rows) {
    barriers->announce(barrier, bytesOf(rows));
    for (int64_t i = 0; i < boxes(); ++i) {
      at[0] = b.i32(i * kColumns);
      barriers->copyBox(map, at, box, barrier,
                        b.address(memory, b.add(row, i * rows), b.i32(0)));
    }
  };
  Value none = b.i32(0);
  copyRows(mapQ, {none, none, b.block(0), b.div(start, together)},
           {kColumns, together, 1, kRows / together}, b.i32(kQueries), none,
           kRows);
  b.loop(b.i32(0), turns, 1, [&](Value turn) {
    Value key = b.add(rowOfKey(firstKey), b.mul(turn, kKeys));
    for (auto [map, operand] : {std::pair(mapK, Keys), {mapV, Values}}) {
      Slot slot = slotOf(turn, operand);
      barriers->await(b.add(slot.number, kFree), b.sub(b.i32(1), slot.parity));
      copyRows(map, {none, key}, {kColumns, kKeys}, slot.number, rowOf(slot),
               kKeys);
    }
  });
}

/// Begins s = q k^T.
Value WgmmaAttention::products(const Slot &slot) {
  Value s;
  for (int64_t k = 0; k < size; k += 16) {
    int64_t box = k / kColumns, chunk = k % kColumns / 8;
    Value q = b.create<arith::AddIOp>(
        startQ, b.create<arith::ConstantIntOp>(b.getI64Type(),
                                               box * kRows * 8 + chunk));
    s = cuda::multiplyTiles(b, element, kKeys, q,
                            described(startK, slot, box * kKeys * 8 + chunk),
                            s);
  }
  cuda::commitProducts(b);
  return s;
}

/// Begins o += p v.
Value WgmmaAttention::addValues(const Slot &slot, ValueRange p, Value out) {
  for (int64_t key = 0; key < kKeys; key += 16)
    out = cuda::multiplyRegisters(b, element, size, p.slice(key / 4, 4),
                                  described(startV, slot, key * 8), out);
  cuda::commitProducts(b);
  return out;
}

/// Until the slot is full.
void WgmmaAttention::await(const Slot &slot) {
  barriers->await(slot.number, slot.parity);
}

/// Lets the slot be filled anew.
void WgmmaAttention::release(const Slot &slot) {
  Value leads = b.equal(b.rem(b.thread(), cuda::kWarpgroup), b.i32(0));
  b.when(leads, [&] { barriers->arrive(b.add(slot.number, kFree)); });
}

/// `carried` are maxima, sums, outputs, and p of the turn before, whose values
/// have come. Those of this turn are waited for at once: ptxas moves no wait
/// for products across that, to before the softmax.
SmallVector<Value> WgmmaAttention::turn(Value turn, ValueRange carried) {
  SmallVector<Value> state(carried.take_front(4));
  MutableArrayRef<Value> all(state);
  int64_t outputs = size / 2;
  Slot keys = slotOf(turn, Keys), own = slotOf(turn, Values),
       values = slotOf(b.sub(turn, b.i32(1)), Values);
  await(keys);
  Value sums = cuda::fenceSums(b, cuda::joinSums(b, carried.slice(4, outputs)));
  Value begun = products(keys);
  sums = addValues(values, carried.drop_front(4 + outputs), sums);
  SmallVector<Value> s = cuda::awaitSums(b, begun, /*groups=*/1);
  release(keys);
  s = scores(s, b.add(firstKey, b.mul(turn, kKeys)));
  auto by = softmax(s, all.slice(0, 2), all.slice(2, 2));
  await(own);
  SmallVector<Value> out = cuda::awaitSums(b, sums);
  release(values);
  shrink(out, by);
  llvm::append_range(state, out);
  llvm::append_range(state, rounded(s));
  return state;
}

/// Clears the values after the last key.
void WgmmaAttention::clearBehind(const Slot &slot) {
  Value first = b.add(firstKey, b.mul(b.sub(turns, b.i32(1)), kKeys));
  Value used = b.max(b.sub(endKey, first), b.i32(0));
  b.when(b.less(used, b.i32(kKeys)), [&] {
    Value zeros = b.zero(VectorType::get({8}, element));
    b.loop(b.add(b.mul(used, 8), b.thread()), b.i32(kKeys * 8), kMultiply,
           [&](Value chunk) {
             Address at = b.address(memory, b.add(rowOf(slot), b.div(chunk, 8)),
                                    b.mul(b.rem(chunk, 8), 8));
             for (int64_t i = 0; i < boxes(); ++i)
               b.storeTo(zeros, b.further(at, memory, i * kKeys, 0));
           });
    cuda::fenceWrites(b);
    cuda::barrierOf(b, kMultiply);
  });
}

void WgmmaAttention::multiply() {
  findRows();
  Value warpgroup = b.div(b.thread(), cuda::kWarpgroup);
  startQ = cuda::describeRows(
      b, b.address(memory, b.mul(warpgroup, kRows / 2), b.i32(0)));
  Address slots = b.address(memory, b.i32(boxes() * kRows), b.i32(0));
  startK = cuda::describeRows(b, slots);
  startV = cuda::describeRows(b, slots, kKeys * cuda::kBoxBytes);
  SmallVector<Value> state(2, b.f32(kNone));
  state.append(2 + size / 2, b.f32(0));
  MutableArrayRef<Value> all(state);
  Slot firstKeys = slotOf(b.i32(0), Keys);
  barriers->await(b.i32(kQueries), b.i32(0));
  await(firstKeys);
  cuda::fenceProducts(b);
  SmallVector<Value> s = cuda::awaitSums(b, products(firstKeys));
  release(firstKeys);
  s = scores(s, firstKey);
  softmax(s, all.slice(0, 2), all.slice(2, 2));
  llvm::append_range(state, rounded(s));
  await(slotOf(b.i32(0), Values));
  state = b.loop(b.i32(1), turns, 1, state, [&](Value at, ValueRange carried) {
    return turn(at, carried);
  });
  Slot last = slotOf(b.sub(turns, b.i32(1)), Values);
  clearBehind(last);
  ValueRange end(state);
  Value sums = cuda::fenceSums(b, cuda::joinSums(b, end.slice(4, size / 2)));
  sums = addValues(last, end.drop_front(4 + size / 2), sums);
  store(ArrayRef(state).slice(2, 2), cuda::awaitSums(b, sums));
}

gpu::GPUFuncOp WgmmaAttention::emit() {
  findBlock();
  turns = b.ceilDiv(b.max(b.sub(endKey, firstKey), b.i32(1)), kKeys);
  barriers.emplace(b, kBarriers);
  b.when(b.equal(b.thread(), b.i32(0)), [&] {
    for (int64_t slot = 0; slot < kSlots; ++slot) {
      barriers->init(b.i32(slot), b.i32(1));
      barriers->init(b.i32(kFree + slot), b.i32(kMultiply / cuda::kWarpgroup));
    }
    barriers->init(b.i32(kQueries), b.i32(1));
    barriers->publish();
  });
  b.barrier();
  b.when(
      b.less(b.thread(), b.i32(kMultiply)),
      [&] {
        cuda::takeRegisters(b, kMultiplyRegisters);
        multiply();
      },
      [&] {
        cuda::leaveRegisters(b, kCopyRegisters);
        b.when(b.equal(b.thread(), b.i32(kMultiply)), [&] { copy(); });
      });
  return finish(bytesOf(kRows + kSlots * kKeys));
}

bool simt::takesAttentionWgmma(const KernelFunction &of,
                               const AttentionMemory &in) {
  return !in.tokens.isConstant() && mostTokens(of) && !in.page &&
         !in.queryElement.isF32() && in.queryElement == in.cacheElement &&
         (in.size == kColumns || in.size == 2 * kColumns) &&
         isContiguous(in.query, 8) && isContiguous(in.result, 2) &&
         tokenStride(in.query, in.group, in.size);
}

gpu::GPUFuncOp simt::emitAttentionWgmma(KernelFunction &of,
                                        const AttentionMemory &in) {
  return WgmmaAttention(of, in).emit();
}
