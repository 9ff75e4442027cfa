/// Attention of many tokens by warpgroups (wgmma, sm_90a), 128 rows by 128 keys
/// at once, as FlashAttention-3 has it:
///
///   warpgroup 2   one thread copies the queries, then keys and values of each
///                 turn to slots of a ring, as soon as they are free
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
///
/// In paged caches a tile is a box of each of its pages, or of parts of a page.
/// What would be after the last page is copied from there once more.
#include "lowering/gpu/cuda/BoxTile.h"
#include "lowering/gpu/cuda/Ring.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/AttentionTile.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;
using cuda::BoxTile;
using cuda::Ring;

/// Threads that multiply, and their rows: 64 of each warpgroup.
static constexpr int64_t kMultiply = 2 * cuda::kWarpgroup, kRows = 128;

/// The largest number of queries of a KV head that divides a warpgroup's rows,
/// so that a block has whole tokens.
static int64_t queriesTogether(const AttentionMemory &in) {
  return std::gcd(in.group, kRows / 2);
}

namespace {
class WgmmaAttention : AttentionTile {
public:
  WgmmaAttention(KernelFunction &of, const AttentionMemory &in,
                 const PromptWarpgroupSizes &sizes)
      : AttentionTile(of, in, "_wgmma", cuda::specializedThreads(kMultiply),
                      kRows, queriesTogether(in)),
        tileKeys(sizes.keys), steps(sizes.stages), mapK(mapOf(keys)),
        mapV(mapOf(values)), mapQ(mapOfQueries()),
        memory(b.launchedShared(element, bytes() / 2, BoxTile::kColumns)) {
    cuda::fitBlocks(b, 1);
  }

  gpu::GPUFuncOp emit() {
    findBlock();
    firstKey = alignedKey(firstKey, tileKeys);
    turns = b.ceilDiv(b.max(b.sub(endKey, firstKey), b.i32(1)), tileKeys);
    ring.emplace(b, steps, /*parts=*/2, /*others=*/1);
    ring->begin(kMultiply / cuda::kWarpgroup);
    b.barrier();
    cuda::specialize(
        b, kMultiply, [&] { multiply(); }, [&] { copy(); });
    return finish(bytes());
  }

private:
  /// The slots of a turn.
  enum Operand { Keys, Values };

  /// Keys that lie together in memory, which one box has.
  int64_t keysOfBox() const {
    return in.attention.pages ? std::gcd(in.page, tileKeys) : tileKeys;
  }
  int64_t bytes() const { return (kRows + 2 * steps * tileKeys) * size * 2; }
  SmallVector<int64_t> boxOfQueries() const {
    return {BoxTile::kColumns, together, 1, kRows / together};
  }
  SmallVector<int64_t> boxOfKeys() const {
    SmallVector<int64_t> box = {BoxTile::kColumns, keysOfBox()};
    box.resize(in.attention.pages ? 3 : 2, 1);
    return box;
  }
  /// Rows of a page, of all its layers.
  int64_t rowsOfPage() const {
    auto type = cast<ShapedType>(in.attention.keys.getType());
    return computeProduct(type.getShape().drop_front()) / size;
  }
  /// Where caches are paged, pages are a dimension of their own: memory that
  /// begins at a layer has only the layer's rows of each page.
  Value mapOf(const Rows &cache) {
    if (!in.attention.pages) {
      auto type = cast<MemRefType>(cache.base.getType());
      return launch.tensorMap(
          cache, {{size, type.getNumElements() / size}, {size}, boxOfKeys()});
    }
    auto layer = dyn_cast<Value>(in.attention.layer);
    int64_t rows =
        layer && of.isLayer(layer) ? in.kvHeads * in.page : rowsOfPage();
    return launch.tensorMap(
        cache, {{size, rows, 1}, {size, rowsOfPage() * size}, boxOfKeys()});
  }
  Value mapOfQueries() {
    int64_t stride = *tokenStride(in.query, in.group, size);
    return launch.tensorMap(
        launch.place(in.query).rows,
        {{size, together, in.kvHeads * in.group / together, *of.mostTokens()},
         {size, together * size, stride},
         boxOfQueries()});
  }
  BoxTile queries() { return {memory, b.i32(0), kRows, size}; }
  BoxTile tileOf(const Ring::Slot &slot) {
    int64_t boxes = size / BoxTile::kColumns;
    Value first = b.add(b.mul(slot.number, boxes * tileKeys), boxes * kRows);
    return {memory, first, tileKeys, size};
  }

  void copy() {
    Value none = b.i32(0);
    ring->bring(
        ring->other(0), queries().bytes(), [&](auto &barriers, Value full) {
          queries().copy(b, barriers, full, mapQ,
                         {none, none, b.block(0), b.div(start, together)},
                         boxOfQueries());
        });
    b.loop(b.i32(0), turns, 1, [&](Value turn) {
      auto places = placesOf(b.add(firstKey, b.mul(turn, tileKeys)));
      for (auto [map, operand] : {std::pair(mapK, Keys), {mapV, Values}}) {
        Ring::Slot slot = ring->slot(turn, operand);
        ring->fill(slot, tileKeys * size * 2,
                   [&, map = map](auto &barriers, Value full) {
                     BoxTile part = tileOf(slot);
                     for (const SmallVector<Value> &at : places) {
                       part.copy(b, barriers, full, map, at, boxOfKeys());
                       part.first = b.add(part.first, keysOfBox());
                     }
                   });
      }
    });
  }

  /// Where the boxes of the tile of keys from `key` on begin in the map.
  std::vector<SmallVector<Value>> placesOf(Value key) {
    Value none = b.i32(0);
    if (!in.attention.pages)
      return {{none, rowOfKey(key)}};
    std::vector<SmallVector<Value>> places;
    Value last = floorOf(b.max(b.sub(endKey, b.i32(1)), key), keysOfBox());
    for (int64_t i = 0; i < tileKeys; i += keysOfBox()) {
      Value row = rowOfKey(b.min(b.add(key, i), last));
      places.push_back(
          {none, b.rem(row, rowsOfPage()), b.div(row, rowsOfPage())});
    }
    return places;
  }

  /// Describes element (row, column) of a slot's tile. `start` describes the
  /// first slot.
  Value described(Value start, const Ring::Slot &slot, int64_t row,
                  int64_t column) {
    BoxTile tile{memory, {}, tileKeys, size};
    return cuda::further(b, start,
                         b.add(b.mul(slot.number, tile.bytes() / 16),
                               tile.chunksTo(row, column)));
  }

  /// Begins s = q k^T.
  Value products(const Ring::Slot &slot) {
    Value s;
    for (int64_t k = 0; k < size; k += 16) {
      Value q = cuda::further(b, startQ, queries().chunksTo(0, k));
      s = cuda::multiplyTiles(b, element, tileKeys, q,
                              described(startK, slot, 0, k), s);
    }
    cuda::commitProducts(b);
    return s;
  }

  /// Begins o += p v.
  Value addValues(const Ring::Slot &slot, ValueRange p, Value out) {
    for (int64_t key = 0; key < tileKeys; key += 16)
      out = cuda::multiplyRegisters(b, element, size, p.slice(key / 4, 4),
                                    described(startV, slot, key, 0), out);
    cuda::commitProducts(b);
    return out;
  }

  /// One thread of a warpgroup tells that the warpgroup is done with a slot.
  void release(const Ring::Slot &slot) {
    Value leads = b.equal(b.rem(b.thread(), cuda::kWarpgroup), b.i32(0));
    b.when(leads, [&] { ring->release(slot); });
  }

  /// `carried` are maxima, sums, outputs, and p of the turn before, whose
  /// values have come. Those of this turn are waited for at once: ptxas moves
  /// no wait for products across that, to before the softmax.
  SmallVector<Value> turn(Value turn, ValueRange carried) {
    SmallVector<Value> state(carried.take_front(4));
    MutableArrayRef<Value> all(state);
    int64_t outputs = size / 2;
    Ring::Slot keys = ring->slot(turn, Keys), own = ring->slot(turn, Values),
               values = ring->slot(b.sub(turn, b.i32(1)), Values);
    ring->await(keys);
    Value sums =
        cuda::fenceSums(b, cuda::joinSums(b, carried.slice(4, outputs)));
    Value begun = products(keys);
    sums = addValues(values, carried.drop_front(4 + outputs), sums);
    SmallVector<Value> s = cuda::awaitSums(b, begun, /*groups=*/1);
    release(keys);
    s = scores(s, b.add(firstKey, b.mul(turn, tileKeys)));
    auto by = softmax(s, all.slice(0, 2), all.slice(2, 2));
    ring->await(own);
    SmallVector<Value> out = cuda::awaitSums(b, sums);
    release(values);
    shrink(out, by);
    llvm::append_range(state, out);
    llvm::append_range(state, rounded(s));
    return state;
  }

  /// Clears the values after the last key.
  void clearBehind(const Ring::Slot &slot) {
    Value first = b.add(firstKey, b.mul(b.sub(turns, b.i32(1)), tileKeys));
    Value used = b.max(b.sub(endKey, first), b.i32(0));
    b.when(b.less(used, b.i32(tileKeys)), [&] {
      BoxTile tile = tileOf(slot);
      Value zeros = b.zero(VectorType::get({8}, element));
      b.loop(b.add(b.mul(used, 8), b.thread()), b.i32(tileKeys * 8), kMultiply,
             [&](Value chunk) {
               Address at =
                   b.address(memory, b.add(tile.first, b.div(chunk, 8)),
                             b.mul(b.rem(chunk, 8), 8));
               for (int64_t i = 0; i < tile.boxes(); ++i)
                 b.storeTo(zeros, b.further(at, memory, i * tileKeys, 0));
             });
      cuda::fenceWrites(b);
      cuda::barrierOf(b, kMultiply);
    });
  }

  void multiply() {
    findRows();
    Value warpgroup = b.div(b.thread(), cuda::kWarpgroup);
    startQ = cuda::describeRows(
        b, b.address(memory, b.mul(warpgroup, kRows / 2), b.i32(0)));
    Address slots =
        b.address(memory, b.i32(size / BoxTile::kColumns * kRows), b.i32(0));
    startK = cuda::describeRows(b, slots);
    startV = cuda::describeRows(b, slots, tileKeys * cuda::kBoxBytes);
    SmallVector<Value> state(2, b.f32(kNone));
    state.append(2 + size / 2, b.f32(0));
    MutableArrayRef<Value> all(state);
    Ring::Slot firstKeys = ring->slot(b.i32(0), Keys);
    ring->await(ring->other(0));
    ring->await(firstKeys);
    cuda::fenceProducts(b);
    SmallVector<Value> s = cuda::awaitSums(b, products(firstKeys));
    release(firstKeys);
    s = scores(s, firstKey);
    softmax(s, all.slice(0, 2), all.slice(2, 2));
    llvm::append_range(state, rounded(s));
    ring->await(ring->slot(b.i32(0), Values));
    state =
        b.loop(b.i32(1), turns, 1, state,
               [&](Value at, ValueRange carried) { return turn(at, carried); });
    Ring::Slot last = ring->slot(b.sub(turns, b.i32(1)), Values);
    clearBehind(last);
    ValueRange end(state);
    Value sums = cuda::fenceSums(b, cuda::joinSums(b, end.slice(4, size / 2)));
    sums = addValues(last, end.drop_front(4 + size / 2), sums);
    store(ArrayRef(state).slice(0, 2), ArrayRef(state).slice(2, 2),
          cuda::awaitSums(b, sums));
  }

  int64_t tileKeys, steps;
  Value mapK, mapV, mapQ;
  Rows memory; // the queries, then the slots
  Value turns, startQ, startK, startV;
  std::optional<Ring> ring;
};
} // namespace

bool cuda::takesAttentionWgmma(const KernelFunction &of,
                               const AttentionMemory &in) {
  // A tile of keys lies in a ring. A page has whole boxes, of 8 rows at least,
  // and a tile begins with one.
  const Attention &attention = in.attention;
  bool begins = isConstantIntValue(attention.firstKey, 0) ||
                !attention.keysSeen().first.empty();
  bool hasTiles =
      attention.pages ? in.page % 8 == 0 && begins : in.page % 128 == 0;
  return takesAttentionMma(of, in) && of.mostTokens() && hasTiles &&
         (in.size == BoxTile::kColumns || in.size == 2 * BoxTile::kColumns) &&
         tokenStride(in.query, in.group, in.size);
}

gpu::GPUFuncOp cuda::emitAttentionWgmma(KernelFunction &of,
                                        const AttentionMemory &in,
                                        const Tuning &tuning) {
  return WgmmaAttention(of, in, tuning.promptWarpgroups).emit();
}
