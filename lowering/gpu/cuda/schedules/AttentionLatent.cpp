/// Attention of many tokens whose values are parts of their keys, as in latent
/// attention, by mma.sync: 64 rows by 32 keys at once.
///
/// A row is too wide for a warp's registers. So two warps share 16 rows of the
/// block, and each has half of the columns of queries, keys, values and
/// outputs:
///
///   s = q k^T over the warp's columns;  s += that of the other warp
///   m, l, o rescaled;  p = exp2(s - m), in both warps
///   o += p v, of the warp's columns
///
/// Queries stay in registers. cp.async copies a tile of keys once for both
/// products, the next tile while this one is multiplied. Rows of a tile lie 16
/// bytes further apart than they are long, which spreads the eight rows of an
/// ldmatrix over all banks.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/AttentionTile.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Rows of a block, warps that share 16 of them, keys of a tile, and tiles that
/// there is room for.
static constexpr int64_t kRows = 64, kAcross = 2, kTileKeys = 32, kTiles = 2;
static constexpr int64_t kThreads = kRows / 16 * kAcross * kWarp;
/// Elements between rows of a tile.
static constexpr int64_t kPad = 8;
/// Registers of a lane for queries and outputs, at most, and numbers of a key:
/// shared memory of 99 KiB, which every chip has, holds two tiles.
static constexpr int64_t kRegisters = 200, kMostSize = 640;

namespace {
class LatentAttention : AttentionTile {
public:
  LatentAttention(KernelFunction &of, const AttentionMemory &in)
      : AttentionTile(of, in, "", kThreads, kRows, std::gcd(in.group, kRows),
                      kAcross),
        tiles(b.launchedShared(element, kTiles * kTileKeys * (size + kPad),
                               size + kPad)),
        halves(b.shared(b.getF32Type(), kThreads * kTileKeys / 2, 4)) {
    cuda::fitBlocks(b, 1);
  }
  gpu::GPUFuncOp emit();

private:
  /// The first row of the tile that has the keys from `first` on.
  Value rowOfTile(Value first) {
    Value tile = b.div(b.sub(first, firstKey), kTileKeys);
    return b.mul(b.rem(tile, kTiles), kTileKeys);
  }
  Value lane() { return b.rem(thread, kWarp); }
  /// The first of the warp's columns, of `columns`.
  Value firstColumn(int64_t columns) {
    Value across = b.div(thread, kThreads / kAcross);
    return b.mul(across, columns / kAcross);
  }
  SmallVector<Value> queries();
  void fetch(Value first);
  SmallVector<Value> products(Value row);
  void addOther(MutableArrayRef<Value> s);
  void addValues(ArrayRef<Value> p, Value row, MutableArrayRef<Value> out);
  SmallVector<Value> turn(Value first, ValueRange carried);

  Rows tiles;  // of keys
  Rows halves; // sums of half of the columns: (four of them, thread)
  SmallVector<Value> q;
  /// The thread's number. In a tile it is opaque, so that what follows from it
  /// is computed anew: registers are few.
  Value thread;
};
} // namespace

/// The warp's columns of its 16 rows as left operands, four pairs for each 16
/// columns.
SmallVector<Value> LatentAttention::queries() {
  SmallVector<Value> q;
  Value t = b.add(cuda::kMmaX.column(b, lane()), firstColumn(size));
  Row rows[] = {ownRow(start, 0), ownRow(start, 1)};
  for (int64_t column = 0; column < size / kAcross; column += 8)
    for (const Row &row : rows)
      q.push_back(b.bits(launch.load(
          in.query, {row.token, kvHead, row.query, b.add(t, column)}, 2)));
  return q;
}

/// Begins to copy the keys from `first` on, up to the last that is seen. Behind
/// it are zeros.
void LatentAttention::fetch(Value first) {
  int64_t chunks = size / 8;
  Value tile = rowOfTile(first);
  b.loop(thread, b.i32(kTileKeys * chunks), kThreads, [&](Value i) {
    Value row = b.div(i, chunks), column = b.mul(b.rem(i, chunks), 8);
    Value key = b.add(first, row), exists = b.less(key, endKey);
    Value from = rowOfKey(b.select(exists, key, b.i32(0)));
    cuda::copyAsync(b, b.address(tiles, b.add(tile, row), column),
                    b.address(keys, from, column), 16, exists);
  });
  cuda::commitCopies(b);
}

/// q k^T over the warp's columns: for every 8 keys the lane's four. The tile
/// begins at `row`.
SmallVector<Value> LatentAttention::products(Value row) {
  Value lane = this->lane();
  Value column = b.mul(cuda::kLoadW.column(b, lane), 8);
  Address from =
      b.opaque(b.address(tiles, b.add(row, cuda::kLoadW.row(b, lane)),
                         b.add(firstColumn(size), column)));
  SmallVector<Value> s(kTileKeys / 8 * 4, b.f32(0));
  for (int64_t k = 0; k < size / kAcross; k += 16)
    for (int64_t key = 0; key < kTileKeys; key += 16) {
      auto right = cuda::loadMatrices(b, b.further(from, tiles, key, k));
      cuda::mma(b, element, ArrayRef(q).slice(k / 4, 4), right,
                MutableArrayRef(s).slice(key / 8 * 4, 8));
    }
  return s;
}

/// Adds what the other warp of these rows has. Both warps get the same bits.
void LatentAttention::addOther(MutableArrayRef<Value> s) {
  Value other = b.exclusiveOr(thread, b.i32(kThreads / kAcross));
  Address mine = b.address(halves, thread, b.i32(0)),
          its = b.address(halves, other, b.i32(0));
  int64_t count = s.size() / 4;
  for (int64_t i = 0; i < count; ++i)
    b.storeTo(b.pack(s.slice(4 * i, 4)),
              b.further(mine, halves, i * kThreads, 0));
  b.barrier();
  auto type = VectorType::get({4}, b.getF32Type());
  for (int64_t i = 0; i < count; ++i) {
    Value four = b.loadFrom(b.further(its, halves, i * kThreads, 0), type);
    for (int64_t e = 0; e < 4; ++e)
      s[4 * i + e] = b.fadd(s[4 * i + e], b.extract(four, e));
  }
}

/// o += p v.
void LatentAttention::addValues(ArrayRef<Value> p, Value row,
                                MutableArrayRef<Value> out) {
  Value lane = this->lane();
  Value column = b.mul(cuda::kLoadX.column(b, lane), 8);
  Address from =
      b.opaque(b.address(tiles, b.add(row, cuda::kLoadX.row(b, lane)),
                         b.add(firstColumn(in.valueSize), column)));
  for (int64_t key = 0; key < kTileKeys; key += 16) {
    SmallVector<Value> left = rounded(p.slice(key / 8 * 4, 8));
    for (int64_t column = 0; column < in.valueSize / kAcross; column += 16) {
      auto right = cuda::loadMatrices(b, b.further(from, tiles, key, column),
                                      /*transposed=*/true);
      cuda::mma(b, element, left, right, out.slice(column / 8 * 4, 8));
    }
  }
}

/// The tile of keys from `first` on. `carried` are maxima, sums and outputs.
SmallVector<Value> LatentAttention::turn(Value first, ValueRange carried) {
  SmallVector<Value> state(carried);
  MutableArrayRef<Value> all(state), out = all.drop_front(4);
  Value row = rowOfTile(first);
  thread = b.opaque(b.thread());
  cuda::awaitCopies(b, 0);
  b.barrier(); // all have come, and nobody reads the tile before
  fetch(b.add(first, kTileKeys));
  SmallVector<Value> s = products(row);
  addOther(s);
  s = scores(s, first);
  shrink(out, softmax(s, all.slice(0, 2), all.slice(2, 2)));
  addValues(s, row, out);
  return state;
}

gpu::GPUFuncOp LatentAttention::emit() {
  thread = b.thread();
  findBlock();
  firstKey = alignedKey(firstKey, kTileKeys);
  findRows();
  fetch(firstKey);
  q = queries();
  SmallVector<Value> state(2, b.f32(kNone));
  state.append(2 + columns() / 8 * 4, b.f32(0));
  auto end = b.loop(
      firstKey, endKey, kTileKeys, state,
      [&](Value first, ValueRange carried) { return turn(first, carried); });
  cuda::awaitCopies(b, 0);
  ArrayRef<Value> all(end);
  store(all.slice(0, 2), all.slice(2, 2), all.drop_front(4));
  return finish(kTiles * kTileKeys * (size + kPad) * 2);
}

bool cuda::takesAttentionLatent(const KernelFunction &,
                                const AttentionMemory &in) {
  int64_t registers = in.size / kAcross / 4 + in.valueSize / kAcross / 2;
  return in.attention.keys == in.attention.values && !in.attention.positions &&
         !in.tokens.isConstant() && !in.queryElement.isF32() &&
         in.queryElement == in.cacheElement && in.size <= kMostSize &&
         in.size % (16 * kAcross) == 0 && in.valueSize % (16 * kAcross) == 0 &&
         registers <= kRegisters && isContiguous(in.query, 2) &&
         isContiguous(in.result, 2);
}

gpu::GPUFuncOp cuda::emitAttentionLatent(KernelFunction &of,
                                         const AttentionMemory &in,
                                         const Tuning &) {
  return LatentAttention(of, in).emit();
}
