/// Attention of many tokens by mma.sync, some rows by 64 keys at once, or by 32
/// where heads are wide.
///
/// Keys and values come by cp.async: the next keys while the softmax runs, the
/// values while s is computed. Rows of a tile lie 16 bytes further apart than
/// they are long, which spreads the eight rows of an ldmatrix over all banks.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/AttentionTile.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Rows of a warp, and elements between rows of a tile.
static constexpr int64_t kWarpRows = 16, kPad = 8;
/// Query heads of a KV head at most: a block has all of a token.
static constexpr int64_t kMostGroup = 64;

namespace {
class MmaAttention : AttentionTile {
public:
  MmaAttention(KernelFunction &of, const AttentionMemory &in, int64_t rows);
  gpu::GPUFuncOp emit();

private:
  void fetchQueries();
  void fetch(const Rows &tile, const Rows &cache, Value first);
  /// The address of eight elements, and whether they exist.
  using Guarded = std::pair<Address, Value>;
  void copyRows(const Rows &tile, int64_t rows,
                llvm::function_ref<Guarded(Value row, Value column)> from);
  SmallVector<Value> turn(Value first, ValueRange carried);
  SmallVector<Value> products();
  void addValues(ArrayRef<Value> p, MutableArrayRef<Value> out);

  int64_t tileKeys;
  Rows tileQ, tileK, tileV;
};
} // namespace

MmaAttention::MmaAttention(KernelFunction &of, const AttentionMemory &in,
                           int64_t rows)
    : AttentionTile(of, in, "", rows / kWarpRows * kWarp, rows, in.group) {
  // Wide heads leave registers for fewer scores.
  tileKeys = size <= 64 ? 64 : 32;
  int64_t stride = size + kPad;
  tileQ = b.shared(element, blockRows * stride, stride);
  tileK = b.shared(element, tileKeys * stride, stride);
  tileV = b.shared(element, tileKeys * stride, stride);
}

/// Begins to copy rows of a tile; zeros where there are none.
void MmaAttention::copyRows(
    const Rows &tile, int64_t rows,
    llvm::function_ref<Guarded(Value row, Value column)> from) {
  int64_t chunks = size / 8;
  b.loop(b.thread(), b.i32(rows * chunks), b.threads(), [&](Value i) {
    Value row = b.div(i, chunks), column = b.mul(b.rem(i, chunks), 8);
    auto [source, exists] = from(row, column);
    cuda::copyAsync(b, b.address(tile, row, column), source, 16, exists);
  });
  cuda::commitCopies(b);
}

/// The block's rows of the queries.
void MmaAttention::fetchQueries() {
  copyRows(tileQ, blockRows, [&](Value row, Value column) -> Guarded {
    Row of = rowOf(b.add(start, row));
    return {launch.address(in.query, {of.token, kvHead, of.query, column}),
            of.exists};
  });
}

/// A tile of rows of a cache, up to the last that is seen.
void MmaAttention::fetch(const Rows &tile, const Rows &cache, Value first) {
  copyRows(tile, tileKeys, [&](Value row, Value column) -> Guarded {
    Value key = b.add(first, row), exists = b.less(key, endKey);
    Value from = rowOfKey(b.select(exists, key, b.i32(0)));
    return {b.address(cache, from, column), exists};
  });
}

/// q k^T: for every 8 keys the lane's four.
SmallVector<Value> MmaAttention::products() {
  Value lane = b.lane();
  Value row = cuda::kLoadW.row(b, lane);
  Value column = b.mul(cuda::kLoadW.column(b, lane), 8);
  SmallVector<Value> s(tileKeys / 8 * 4, b.f32(0));
  Address start = b.opaque(b.address(tileK, row, column));
  Address startQ = b.opaque(
      b.address(tileQ, b.add(b.mul(b.warp(), 16), cuda::kLoadX.row(b, lane)),
                b.mul(cuda::kLoadX.column(b, lane), 8)));
  for (int64_t k = 0; k < size; k += 16) {
    auto left = cuda::loadMatrices(b, b.further(startQ, tileQ, 0, k));
    for (int64_t key = 0; key < tileKeys; key += 16) {
      auto right = cuda::loadMatrices(b, b.further(start, tileK, key, k));
      cuda::mma(b, element, left, right,
                MutableArrayRef(s).slice(key / 8 * 4, 8));
    }
  }
  return s;
}

/// o += p v.
void MmaAttention::addValues(ArrayRef<Value> p, MutableArrayRef<Value> out) {
  Value lane = b.lane();
  Address start = b.opaque(b.address(tileV, cuda::kLoadX.row(b, lane),
                                     b.mul(cuda::kLoadX.column(b, lane), 8)));
  for (int64_t key = 0; key < tileKeys; key += 16) {
    SmallVector<Value> left = rounded(p.slice(key / 8 * 4, 8));
    for (int64_t column = 0; column < size; column += 16) {
      auto right = cuda::loadMatrices(b, b.further(start, tileV, key, column),
                                      /*transposed=*/true);
      cuda::mma(b, element, left, right, out.slice(column / 8 * 4, 8));
    }
  }
}

/// The tile of keys from `first` on. `carried` are maxima, sums and outputs.
SmallVector<Value> MmaAttention::turn(Value first, ValueRange carried) {
  SmallVector<Value> state(carried);
  MutableArrayRef<Value> all(state), out = all.drop_front(4);
  fetch(tileV, values, first);
  cuda::awaitCopies(b, 1); // the keys
  b.barrier();
  SmallVector<Value> s = scores(products(), first);
  b.barrier();
  fetch(tileK, keys, b.add(first, tileKeys));
  shrink(out, softmax(s, all.slice(0, 2), all.slice(2, 2)));
  cuda::awaitCopies(b, 1); // the values
  b.barrier();
  addValues(s, out);
  b.barrier();
  return state;
}

gpu::GPUFuncOp MmaAttention::emit() {
  findBlock();
  firstKey = alignedKey(firstKey, tileKeys);
  findRows();
  fetchQueries();
  SmallVector<Value> state(2, b.f32(kNone));
  state.append(2 + size / 8 * 4, b.f32(0));
  fetch(tileK, keys, firstKey);
  auto end = b.loop(
      firstKey, endKey, tileKeys, state,
      [&](Value first, ValueRange carried) { return turn(first, carried); });
  cuda::awaitCopies(b, 0);
  ArrayRef<Value> all(end);
  store(all.slice(0, 2), all.slice(2, 2), all.drop_front(4));
  return finish();
}

/// Tokens with their own pages share no keys, so no tile of rows helps.
bool cuda::takesAttentionMma(const KernelFunction &,
                             const AttentionMemory &in) {
  return in.hasWholeValues() && !in.attention.positions &&
         !in.tokens.isConstant() && !in.queryElement.isF32() &&
         in.queryElement == in.cacheElement && in.size % 16 == 0 &&
         in.size <= 128 && in.group <= kMostGroup &&
         isContiguous(in.query, 8) && isContiguous(in.result, 2);
}

gpu::GPUFuncOp cuda::emitAttentionMma(KernelFunction &of,
                                      const AttentionMemory &in,
                                      const Tuning &tuning) {
  int64_t rows =
      std::max<int64_t>(tuning.prompt.rows, llvm::alignTo(in.group, kWarpRows));
  return MmaAttention(of, in, rows).emit();
}
