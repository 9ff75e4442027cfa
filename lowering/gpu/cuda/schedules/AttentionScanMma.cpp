/// The scan of keys and values on tensor cores (mma.sync), for query heads that
/// share a KV head. A warp takes every fourth tile of 16 keys of its block:
///
///   s = q k^T               (heads, keys)
///   m, l, o rescaled;  p = exp2(s - m), rounded to the storage type
///   o^T += v^T p^T          (columns of a head, heads)
///
/// Lanes hold s as kMmaSums says: lane 4g + t has head g (and g + 8 if there
/// are more than eight) and keys 2t, 2t + 1, 2t + 8, 2t + 9. A lane's elements
/// of s are already the ones that it must supply for p^T as right operand of 8
/// heads, so no shuffle is needed, and no product for o has empty rows. Of o^T
/// a lane has columns g, g + 8 of heads 2t, 2t + 1 (and 2t + 8, 2t + 9). It
/// gets by shuffles the factors that rescale them.
///
/// Each warp has room for one tile of keys and one of values, which cp.async
/// fills: the next keys from when s is computed, the next values from when o
/// is. Lanes read what others have copied, so barriers of the warp are around
/// the copies, and no barrier of the block. Sixteen warps of a multiprocessor
/// have 16 to 64 KiB in flight then, with heads of 64.
///
/// Rows of a tile lie 16 bytes further apart than they are long, which spreads
/// the eight rows of an ldmatrix over all banks.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/AttentionSplits.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/kernel/Launches.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Keys of a tile; query heads of a product of o.
static constexpr int64_t kTile = 16, kGroup = 8;
/// Elements between rows of a tile; numbers between rows of what warps save,
/// which spread the columns of four heads over all banks.
static constexpr int64_t kPad = 8, kSavedPad = 4;

/// Static shared memory of a block at most, but for a flag.
static constexpr int64_t kShared = kDeclaredMemory - 16;

/// Query heads of a block: what warps save of them fits beside the tiles, and
/// all parts of a group have about as many.
static int64_t headsOf(const AttentionMemory &in, const ScanTileSizes &sizes) {
  int64_t warps = AttentionSplits::kWarps;
  int64_t tiles = warps * 2 * kTile * (in.size + kPad) * 2;
  int64_t saved = warps * (in.size + kSavedPad + 2) * 4;
  int64_t most = std::min(sizes.heads, (kShared - tiles) / saved);
  return llvm::divideCeil(in.group, llvm::divideCeil(in.group, most));
}

namespace {
class AttentionScanMma : public AttentionSplits {
public:
  AttentionScanMma(KernelFunction &of, const AttentionMemory &in,
                   const Tuning &tuning);

private:
  void prefetch(Value firstKey, Value endKey) override;
  void scan(Value firstKey, Value endKey) override;
  SmallVector<Value> queries();
  /// The warp's tile of keys, or of values, and what a lane names of it for
  /// matrices of 16 x 16.
  enum Tile { Keys, Values };
  Value firstRow(Tile tile);
  Address matrix(Tile tile);
  /// The first key of the warp's first tile.
  Value firstOfWarp(Value firstKey) {
    return b.add(firstKey, b.mul(b.warp(), kTile));
  }
  void fetch(Tile tile, Value first, Value endKey, Which which);
  void await();
  SmallVector<Value> turn(Value first, Value endKey, ValueRange carried);
  SmallVector<Value> products();
  void score(MutableArrayRef<Value> s, Value first, Value endKey);
  void softmax(MutableArrayRef<Value> s, MutableArrayRef<Value> state);
  void addValues(ArrayRef<Value> p, MutableArrayRef<Value> out);
  Value pair(Value low, Value high);
  void save(ValueRange state);
  /// The lane's heads of s, and those whose columns it has.
  Value head(int64_t group);
  Value outHead(int64_t group, int64_t i);

  Type element;
  int64_t groups; // of eight heads
  double unit;    // p is 2^(unit (s - m))
  Rows tiles;     // (warp, keys or values, key)
  SmallVector<Value> q;
};
} // namespace

AttentionScanMma::AttentionScanMma(KernelFunction &of,
                                   const AttentionMemory &in,
                                   const Tuning &tuning)
    : AttentionSplits(of, in, tuning.decode, headsOf(in, tuning.scanTile)),
      element(in.queryElement), groups(llvm::divideCeil(heads, kGroup)),
      unit(1 / std::log(2.0)) {
  if (factor && *factor > 0)
    unit *= *factor;
  int64_t stride = size + kPad;
  tiles = b.shared(element, kWarps * 2 * kTile * stride, stride);
  const ScanTileSizes &sizes = tuning.scanTile;
  // Wider heads have more bytes for each key.
  allocate(size + kSavedPad, kWarps * kTile, kTile,
           {sizes.blocks, sizes.deepBlocks * size / 64, sizes.deepKeys});
  cuda::fitBlocks(b, tuning.scanTile.resident);
}

Value AttentionScanMma::head(int64_t group) {
  return b.add(cuda::kMmaSums.row(b, b.lane()), group * kGroup);
}

Value AttentionScanMma::outHead(int64_t group, int64_t i) {
  return b.add(cuda::kMmaSums.column(b, b.lane()), group * kGroup + i);
}

/// The queries as left operands, four pairs for each 16 columns. Rows past the
/// last head repeat the last head. With eight heads or fewer, rows 8 to 15 do
/// nothing.
SmallVector<Value> AttentionScanMma::queries() {
  SmallVector<Value> q;
  Value t = cuda::kMmaX.column(b, b.lane());
  for (int64_t column = 0; column < size; column += 8)
    for (int64_t group = 0; group < 2; ++group) {
      if (group >= groups) {
        q.push_back(b.i32(0));
        continue;
      }
      Value row = queryOf(b.min(head(group), b.i32(heads - 1)));
      q.push_back(b.bits(
          launch.load(in.query, {token, kvHead, row, b.add(t, column)}, 2)));
    }
  return q;
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

Value AttentionScanMma::firstRow(Tile tile) {
  return b.mul(b.add(b.mul(b.warp(), 2), tile), kTile);
}

Address AttentionScanMma::matrix(Tile tile) {
  Value lane = b.lane();
  Value row = cuda::kLoadW.row(b, lane);
  Value column = b.mul(cuda::kLoadW.column(b, lane), 8);
  return b.opaque(b.address(tiles, b.add(firstRow(tile), row), column));
}

/// Begins to copy a tile, of the keys in `which`, if there is a tile. Keys
/// after the end count as new; zeros are stored for them, and no byte is read.
void AttentionScanMma::fetch(Tile tile, Value first, Value endKey,
                             Which which) {
  const Rows &cache = tile == Keys ? keys : values;
  // Lanes side by side have 16 bytes each of a row.
  int64_t lanes = int64_t(1) << llvm::countr_zero(uint64_t(size / 8));
  Value row = b.div(b.lane(), lanes), column = b.mul(b.rem(b.lane(), lanes), 8);
  Address to = b.address(tiles, b.add(firstRow(tile), row), column);
  bool all = which == Which::All, given = which == Which::Given;
  Value end = all ? endKey : endGiven(endKey);
  Value some = b.less(first, given ? end : endKey);
  if (which == Which::New)
    some = b.both(some, b.less(end, b.add(first, kTile)));
  b.when(some, [&] {
    Value key = b.add(first, row), left = b.sub(endKey, key);
    // A tile is in one page.
    Value keyRow =
        in.page ? b.add(rowOfKey(first, pagesOf()), row) : rowOfKey(key);
    Address from = b.address(cache, keyRow, column);
    auto copy = [&](int64_t down) {
      for (int64_t across = 0; across < size; across += lanes * 8) {
        Operation *copied =
            cuda::copyAsync(b, b.further(to, tiles, down, across),
                            b.further(from, cache, down, across), 16,
                            given ? Value() : b.less(b.i32(down), left));
        if (given)
          copied->setAttr(kGivenAttribute, b.getUnitAttr());
      }
    };
    Value before = b.sub(end, key); // the number of the lane's given keys
    for (int64_t down = 0; down < kTile; down += kWarp / lanes) {
      if (all)
        copy(down);
      else
        b.when(given ? b.less(b.i32(down), before)
                     : b.less(before, b.i32(down + 1)),
               [&] { copy(down); });
    }
  });
}

/// Until all lanes have copied all but the last group.
void AttentionScanMma::await() {
  cuda::awaitCopies(b, 1);
  cuda::warpBarrier(b);
}

//===----------------------------------------------------------------------===//
// The softmax
//===----------------------------------------------------------------------===//

/// q k^T: for every 8 keys, two products of the lane's head among the first
/// eight, and two of its head among the second eight.
SmallVector<Value> AttentionScanMma::products() {
  SmallVector<Value> s(kTile / 8 * 4, b.f32(0));
  Address start = matrix(Keys);
  for (int64_t k = 0; k < size; k += 16) {
    auto right = cuda::loadMatrices(b, b.further(start, tiles, 0, k));
    cuda::mma(b, element, ArrayRef(q).slice(k / 4, 4), right, s);
  }
  return s;
}

/// Turns products into what the softmax takes, but for a factor that `unit`
/// has.
void AttentionScanMma::score(MutableArrayRef<Value> s, Value first,
                             Value endKey) {
  Value own = b.add(first, cuda::kMmaSums.column(b, b.lane()));
  Value left = b.sub(endKey, own), lastKey = b.sub(endKey, b.i32(1));
  for (auto [i, score] : llvm::enumerate(s)) {
    Place at = cuda::kWgmmaSums.ofRegister(i);
    int64_t group = at.row / kGroup, further = at.column;
    if (group >= groups)
      continue;
    Value query = queryOf(b.min(head(group), b.i32(heads - 1)));
    Value key = b.min(b.add(own, further), lastKey);
    Value visible = b.less(b.i32(further), left);
    if (aligns())
      visible = b.both(visible, b.less(b.sub(firstSeen, b.i32(1)), key));
    score = AttentionKernel::score(score, query, token, key, visible);
    if (factor && *factor <= 0)
      score = b.fmul(score, b.f32(*factor));
    score = b.select(visible, score, b.f32(-INFINITY));
  }
}

/// Turns s into p; `state` is the heads' maxima, the lane's part of their sums,
/// then o.
void AttentionScanMma::softmax(MutableArrayRef<Value> s,
                               MutableArrayRef<Value> state) {
  MutableArrayRef<Value> out = state.drop_front(2 * groups);
  auto power = [&](Value x, Value max) {
    return b.exp2(b.fma(x, b.f32(unit), b.fmul(max, b.f32(-unit))));
  };
  for (int64_t group = 0; group < groups; ++group) {
    Value &max = state[group], &sum = state[groups + group];
    SmallVector<Value *> own;
    for (size_t i = 0; i < s.size(); ++i)
      if (int64_t(i % 4 / 2) == group)
        own.push_back(&s[i]);
    Value highest = max;
    for (Value *x : own)
      highest = b.fmax(highest, *x);
    highest = b.warpMax(highest, 4);
    Value old = power(max, highest);
    max = highest;
    sum = b.fmul(sum, old);
    for (Value *x : own) {
      *x = power(*x, highest);
      sum = b.fadd(sum, *x);
    }
    // Lane 4g has that of head g.
    Value lane = b.mul(b.rem(b.lane(), 4), 8);
    Value factors[] = {b.shuffleFrom(old, lane),
                       b.shuffleFrom(old, b.add(lane, 4))};
    for (size_t i = 0; i < out.size(); ++i)
      if (int64_t(i / 4 % groups) == group)
        out[i] = b.fmul(out[i], factors[i % 2]);
  }
}

Value AttentionScanMma::pair(Value low, Value high) {
  return b.bits(b.narrow(b.pack({low, high}), element));
}

/// o^T += v^T p^T.
void AttentionScanMma::addValues(ArrayRef<Value> p,
                                 MutableArrayRef<Value> out) {
  Address start = matrix(Values);
  SmallVector<Value> right;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t i : {0, 4})
      right.push_back(pair(p[group * 2 + i], p[group * 2 + i + 1]));
  for (int64_t column = 0; column < size; column += 16) {
    auto left = cuda::loadMatrices(b, b.further(start, tiles, 0, column),
                                   /*transposed=*/true);
    cuda::mma(b, element, left, right,
              out.slice(column / 16 * groups * 4, groups * 4));
  }
}

//===----------------------------------------------------------------------===//
// The scan
//===----------------------------------------------------------------------===//

/// The tile of keys from `first` on.
SmallVector<Value> AttentionScanMma::turn(Value first, Value endKey,
                                          ValueRange carried) {
  SmallVector<Value> state(carried);
  Value next = b.add(first, kWarps * kTile);
  await(); // for the keys
  SmallVector<Value> s = products();
  cuda::warpBarrier(b);
  fetch(Keys, next, endKey, Which::All);
  cuda::commitCopies(b);
  score(s, first, endKey);
  softmax(s, state);
  await(); // for the values
  addValues(s, MutableArrayRef(state).drop_front(2 * groups));
  cuda::warpBarrier(b);
  fetch(Values, next, endKey, Which::All);
  cuda::commitCopies(b);
  return state;
}

void AttentionScanMma::save(ValueRange state) {
  Value firstRow = b.mul(b.warp(), heads);
  Value g = cuda::kMmaSums.row(b, b.lane());
  auto whenHead = [&](int64_t group, Value head,
                      llvm::function_ref<void()> body) {
    if ((group + 1) * kGroup <= heads)
      return body();
    b.when(b.less(head, b.i32(heads)), body);
  };
  for (int64_t group = 0; group < groups; ++group) {
    Value own = head(group), sum = b.warpSum(state[groups + group], 4);
    Value max = b.fmul(state[group], b.f32(unit));
    whenHead(group, own, [&] {
      b.when(b.equal(b.rem(b.lane(), 4), b.i32(0)), [&] {
        b.store(b.pack({max, sum}), warps.softmax, b.add(firstRow, own),
                b.i32(0));
      });
    });
    for (int64_t i = 0; i < 2; ++i) {
      Value head = outHead(group, i);
      whenHead(group, head, [&] {
        for (int64_t column = 0; column < size; column += 8) {
          int64_t at = (column / 16 * groups + group) * 4 + column % 16 / 4 + i;
          b.store(state[2 * groups + at], warps.out, b.add(firstRow, head),
                  b.add(g, column));
        }
      });
    }
  }
}

void AttentionScanMma::prefetch(Value firstKey, Value endKey) {
  for (Tile tile : {Keys, Values})
    fetch(tile, firstOfWarp(firstKey), endKey, Which::Given);
}

void AttentionScanMma::scan(Value firstKey, Value endKey) {
  Value first = firstOfWarp(firstKey);
  for (Tile tile : {Keys, Values}) {
    fetch(tile, first, endKey, hasGiven() ? Which::New : Which::All);
    cuda::commitCopies(b);
  }
  q = queries();
  SmallVector<Value> state(groups, b.f32(kNone));
  state.append(groups + size / 16 * groups * 4, b.f32(0));
  auto end = b.loop(first, endKey, kWarps * kTile, state,
                    [&](Value first, ValueRange carried) {
                      return turn(first, endKey, carried);
                    });
  cuda::awaitCopies(b, 0);
  save(end);
}

bool cuda::takesAttentionScanMma(const KernelFunction &,
                                 const AttentionMemory &in) {
  return in.hasWholeValues() && in.group > 1 && !in.queryElement.isF32() &&
         in.queryElement == in.cacheElement && in.size % 16 == 0 &&
         in.size <= 128 && in.page % kTile == 0 && isContiguous(in.query, 2);
}

gpu::GPUFuncOp cuda::emitAttentionScanMma(KernelFunction &of,
                                          const AttentionMemory &in,
                                          const Tuning &tuning) {
  return AttentionScanMma(of, in, tuning).emit();
}
