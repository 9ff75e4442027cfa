/// c[m, n] += sum_k a[m, k] * b[n, k] for many rows m, vectors along m:
///
///   pack a: packed[slice of k][V panels][k][v][lane] = a[..., k]
///   for groups of rows n of b, in parallel:
///     for slices of k:
///       copy the group's rows of b, as f32; pairs of bf16 are read in place,
///       but those of blocks are copied, widened
///       for V panels:
///         for blocks of R rows:
///           acc[r][v] += splat(copy[r, k]) * packed[k][v]
///           (prefetch the rows' next slice, and the next panels)
///     c[m, n + r] = sums[r, m]
///
/// The weights b are read in place, each row once per call. Only a, which is
/// much smaller, is packed. A slice of all panels stays in the L2 cache while a
/// group is computed; V panels of the slice stay in the L1 cache. The sums of a
/// group are collected in a scratch block (rows of b, rows of a), which is
/// transposed to c at the end.
///
/// If the L3 cache is as fast as the multiplications (VectorUnit::blockForL2 is
/// false), a group is one block, and a slice is all of k. Weights are then
/// copied only if they must be widened. With bf16 dot products, two neighbours
/// of k share a lane; such a pair is called a step. With Arm's bfmmla a step is
/// four k, and an instruction multiplies two rows of b by two lanes.
///
/// Rows that are sorted by expert (Experts.cpp) are packed together. A group is
/// then of one part, whose rows are some of the panels:
///
///   for parts of rows, groups of rows n of the part's expert, in parallel: ...
///
/// If the last rows of a part fill at most half of the lanes, or a quarter,
/// their panel is folded where pairs are multiplied: a vector has two steps of
/// each row, or four, side by side, and a splat has as many steps of a row of
/// b. There are half as many vectors, or a quarter, and neighbouring lanes are
/// added at the end. V is three then, and the panels that are left are one tile
/// with the folded one, which alone has too few multiplications for what it
/// loads.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace cria;

/// The most steps of a slice: for up to a thousand rows of a, a slice stays in
/// the L2 cache.
static constexpr int64_t kBlockedSlice = 256;
/// Bytes of a slice of V panels that stay in the L1 cache.
static constexpr int64_t kPanelBytes = 32 << 10;
/// The most columns of a block of widened weights, so that the block stays in
/// the L1 cache.
static constexpr int64_t kWidenedSlice = 512;
/// The most rows of a group, of more than one block. A group has fewer rows if
/// there would otherwise be more than kMostSums sums, which would not stay in
/// the L2 cache, or if a thread has fewer: threads share units of kUnitBlocks
/// blocks.
static constexpr int64_t kMostGroupRows = 96;
static constexpr int64_t kMostSums = 64 << 10;
static constexpr int64_t kUnitBlocks = 2;
/// With experts, the groups of each expert's rows, or more.
static constexpr int64_t kGroups = 32;
/// The steps of each row that a vector of a panel may have; more than one in a
/// folded panel.
static constexpr int64_t kMostFold = 4, kFolds[] = {1, 2, kMostFold};
/// If a has more elements, the product is blocked for the L2 cache.
static constexpr int64_t kMostInPlace = 256 << 10;

namespace {
/// A block of rows of b times some panels of a, in one slice of k.
struct Tile {
  /// (rows, steps): row r of the block is row `row` + r, and the slice begins
  /// at step `first`.
  Value weights, row, first;
  int64_t rows;
  /// (rows of b, rows of a): row r of the block is `sumsRow` + r.
  Value sums, sumsRow;
  /// The slice of k: its index, and its number of steps.
  Value slice, length;
  Value panel;
  /// The panels, and the steps of a vector of the last one, more than one if it
  /// is folded.
  int64_t width, fold;
  /// The first rows of this group and of the next one. `nextRow` is null if
  /// there is no next group, and then nothing is prefetched.
  Value groupRow, nextRow;

  /// The panels that are not folded.
  int64_t unfolded() const { return width - (fold > 1); }
};

class PanelProduct {
public:
  /// A product with `minRows` to `maxRows` rows of a, or of each part of a.
  PanelProduct(VectorBuilder &b, const Contraction &c, int64_t minRows,
               int64_t maxRows, bool blocked);
  Value pack(Value rows);
  void multiply(Value packed);

private:
  Type packedType() const { return pairs ? c.aType() : b.getF32Type(); }
  int64_t stepsOfLine() const;
  Value lengthOf(Value slice);
  SmallVector<Value> placeOf(Value slice, Value panel, int64_t v, Value k);
  SmallVector<Value> rowOfLane(Value panel, Value lane);
  Value wholeSteps(Value slice);
  void packSteps(Value panel, Value slice, Value first, int64_t fold);
  void packSlice(Value panel, Value slice, int64_t fold);
  Value foldOf(Value panel);
  void forGroups(int64_t groups, llvm::function_ref<void(Value)> body);
  void group(Value n, Value count, int64_t rowsOfBlock, Value nextRow);
  void clear(Value sums, Value count);
  void copyRows(Value copy, Value n, Value count, Value slice, Value length);
  void tile(const Tile &t);
  SmallVector<Value> steps(const Tile &t, SmallVector<Value> acc);
  SmallVector<Value> step(const Tile &t, Value k, ValueRange acc,
                          int64_t first);
  SmallVector<Value> stepOfPairs(const Tile &t, Value k, ValueRange acc,
                                 int64_t first);
  void swapHalves(SmallVector<Value> &acc, int64_t vectors);
  void fetchRows(const Tile &t, Value k);
  void fetchPanels(const Tile &t, Value k, int64_t steps);
  Value splatB(const Tile &t, int64_t r, Value k, int64_t fold);
  void flush(Value sums, Value n, Value count, int64_t rowsOfBlock);

  VectorBuilder &b;
  const Contraction &c;
  int64_t lanes;
  bool pairs, rowPairs, copies;
  int64_t stepSize, vectors, together, blockRows, groupRows, kSteps, kSlice,
      slices;
  /// `stepSize`: the k of a step. `width`: elements of a panel in one step.
  /// `maxPanels`: the most panels, a multiple of `vectors`.
  int64_t width, maxPanels, leastTiles;
  /// Whether panels may be folded.
  bool folds;
  /// The matrix, the rows that it multiplies, their panels, those that are not
  /// folded, the steps of a vector of the last one, and the first place of
  /// these rows and of these panels.
  Value matrix, rows, panels, unfolded, lastFold, firstRow, firstPanel;
  Value packed;
};
} // namespace

PanelProduct::PanelProduct(VectorBuilder &b, const Contraction &c,
                           int64_t minRows, int64_t maxRows, bool blocked)
    : b(b), c(c), lanes(b.unit.lanes), pairs(c.hasPairs(b.unit)),
      rowPairs(pairs && b.unit.mmlaBf16 && c.n() % 2 == 0 && c.k() % 4 == 0),
      copies(c.blocks || (!pairs && (blocked || !c.bType().isF32()))) {
  // 8 x 2 accumulators of 32 registers, 8 x 3 with folded panels, 6 x 4 on Arm,
  // whose registers are short, or 6 x 2 of 16. The accumulators, a row of
  // panels and the splat fit the registers, and there are far fewer loads than
  // multiplications.
  bool wide = b.unit.registers == 32 && !b.unit.neon;
  blockRows = std::min<int64_t>(wide ? 8 : 6, c.n());
  folds = c.experts && !c.invariant && pairs && !rowPairs &&
          c.k() % (2 * kMostFold) == 0;
  vectors = b.unit.neon ? 4 : folds ? 3 : 2;
  stepSize = rowPairs ? 4 : pairs ? 2 : 1;
  width = lanes * stepSize;
  kSteps = llvm::divideCeil(c.k(), stepSize);
  maxPanels = llvm::alignTo(llvm::divideCeil(maxRows, lanes), vectors);
  together = blocked ? vectors : 1;
  leastTiles = llvm::divideCeil(minRows, lanes * vectors);
  groupRows = blockRows;
  kSlice = kSteps;
  if (copies)
    kSlice = std::min(kSteps, kWidenedSlice);
  if (blocked) {
    int64_t fits = kPanelBytes / (4 * vectors * lanes);
    if (c.k() % stepSize == 0) // else there is one slice (see `wholeSteps`)
      kSlice = std::min({kSteps, kBlockedSlice, fits});
    int64_t most = std::min(kMostGroupRows, kMostSums / (maxPanels * lanes));
    int64_t share = c.experts ? llvm::divideCeil(c.n(), kGroups) : c.n();
    most = std::max(most / blockRows, int64_t(1)) * blockRows;
    groupRows = std::min<int64_t>(most, llvm::alignTo(share, blockRows));
  }
  // The rows of c that an expert has are far apart, and its sums are stored in
  // whole cache lines.
  if (c.experts && !copies && lanes % blockRows == 0 && c.n() % lanes == 0)
    groupRows = lanes;
  // Slices are about even, since a slice prefetches as much of the next one as
  // it has itself. They begin at cache lines.
  int64_t line = stepsOfLine();
  int64_t even = llvm::divideCeil(kSteps, llvm::divideCeil(kSteps, kSlice));
  if (even < kSteps)
    kSlice = std::min<int64_t>(kSlice, llvm::alignTo(even, line));
  slices = llvm::divideCeil(kSteps, kSlice);
  matrix = c.b;
  rows = c.experts ? c.experts->places : b.size(c.a, 0);
  panels = unfolded = b.ceilDiv(rows, lanes);
  firstRow = firstPanel = b.index(0);
}

/// The steps of a cache line of b, or of one of its blocks.
int64_t PanelProduct::stepsOfLine() const {
  if (c.blocks)
    return BlockProduct::kNumbers / stepSize;
  return 512 / (c.bType().getIntOrFloatBitWidth() * stepSize);
}

/// The steps of a slice: the last one may have fewer.
Value PanelProduct::lengthOf(Value slice) {
  if (kSteps % kSlice == 0)
    return b.index(kSlice);
  return b.min(b.index(kSlice), b.sub(b.index(kSteps), b.mul(slice, kSlice)));
}

/// The steps of a slice, without a last one of a single element.
Value PanelProduct::wholeSteps(Value slice) {
  return c.k() % stepSize ? b.index(kSteps - 1) : lengthOf(slice);
}

/// The place in packed a where step k of a slice of panel + v begins. The
/// panels of a tile are adjacent, in one group of panels.
SmallVector<Value> PanelProduct::placeOf(Value slice, Value panel, int64_t v,
                                         Value k) {
  if (together == 1)
    return {slice, b.add(panel, v), k, b.index(0)};
  Value first = b.mul(b.rem(panel, together), width);
  return {slice, b.div(panel, together), k, b.add(first, v * width)};
}

/// The indices of the row of a in a lane of a panel. A lane without a row gets
/// another one, and its sums are dropped.
SmallVector<Value> PanelProduct::rowOfLane(Value panel, Value lane) {
  Value place = b.add(b.mul(panel, lanes), lane);
  if (!c.experts)
    place = b.min(place, b.sub(rows, b.index(1)));
  Value row = c.rowAt(b, place);
  return c.rowOfA(b, c.experts ? b.max(row, b.index(0)) : row);
}

/// Packs a panel's slice from step `first` on, `fold` steps at a time. In a row
/// of odd length the last element is paired with a zero.
void PanelProduct::packSteps(Value panel, Value slice, Value first,
                             int64_t fold) {
  int64_t step = stepSize * fold;
  b.loop(b.index(0), b.index(lanes / fold), 1, [&](Value lane) {
    SmallVector<Value> from = rowOfLane(panel, lane);
    auto put = [&](Value k, llvm::function_ref<Value(ArrayRef<Value>)> load) {
      SmallVector<Value> at = placeOf(slice, panel, 0, b.div(k, fold));
      SmallVector<Value> source = from;
      at.back() = b.add(at.back(), b.mul(lane, step));
      source.push_back(b.mul(b.add(b.mul(slice, kSlice), k), stepSize));
      b.store(load(source), packed, at);
    };
    b.loop(first, wholeSteps(slice), fold, [&](Value k) {
      put(k, [&](ArrayRef<Value> at) {
        return pairs ? b.load(c.a, at, step) : b.loadWide(c.a, at, step);
      });
    });
    if (c.k() % stepSize) // pairs have one slice, and are not folded
      put(b.index(kSteps - 1), [&](ArrayRef<Value> at) -> Value {
        Value zero = b.create<arith::ConstantOp>(
            b.getZeroAttr(b.vectorType(step, packedType())));
        return b.create<vector::InsertOp>(b.create<memref::LoadOp>(c.a, at),
                                          zero, 0);
      });
  });
}

/// Packs a panel's slice. With experts, whose rows are packed once for each
/// expert that a token chose, a square of rows and steps at a time. Elsewhere
/// packing takes little time, and the code of squares would be longer.
void PanelProduct::packSlice(Value panel, Value slice, int64_t fold) {
  if (!c.experts)
    return packSteps(panel, slice, b.index(0), fold);
  int64_t rows = lanes / fold;
  SmallVector<SmallVector<Value>> from;
  for (int64_t row = 0; row < rows; ++row)
    from.push_back(rowOfLane(panel, b.index(row)));
  // The elements of a lane move as one number; in a folded panel, the elements
  // of two neighbouring lanes do.
  unsigned bits = packedType().getIntOrFloatBitWidth() * stepSize * fold;
  Type number = pairs ? b.getIntegerType(bits) : packedType();
  auto as = [&](Value vector, int64_t count, Type element) {
    return b.create<vector::BitCastOp>(b.vectorType(count, element), vector);
  };
  Value whole = wholeSteps(slice), squares = b.mul(b.div(whole, lanes), lanes);
  b.loop(b.index(0), squares, lanes, [&](Value k) {
    Value column = b.mul(b.add(b.mul(slice, kSlice), k), stepSize);
    SmallVector<Value> vectors;
    for (SmallVector<Value> at : from) {
      at.push_back(column);
      vectors.push_back(
          as(pairs ? b.load(c.a, at, width) : b.loadWide(c.a, at, width), rows,
             number));
    }
    Value first = b.div(k, fold);
    for (auto [i, vector] : llvm::enumerate(b.transposed(vectors)))
      b.store(as(vector, width, packedType()), packed,
              placeOf(slice, panel, 0, b.add(first, static_cast<int64_t>(i))));
  });
  if (c.k() % (lanes * stepSize))
    packSteps(panel, slice, squares, fold);
}

/// The steps that a vector of a packed panel has of each row.
Value PanelProduct::foldOf(Value panel) {
  Value fold = b.index(1);
  for (int64_t each : ArrayRef(kFolds).drop_front()) {
    Value row = c.rowAt(b, b.add(b.mul(panel, lanes), lanes / each));
    fold =
        b.create<arith::SelectOp>(b.less(row, b.index(0)), b.index(each), fold);
  }
  return fold;
}

/// Packs `rows` rows of a, which may be none.
Value PanelProduct::pack(Value rows) {
  this->rows = rows;
  int64_t most = c.experts ? c.experts->maxPlaces() / lanes : maxPanels;
  auto type = MemRefType::get(
      {slices, most / together, kSlice, together * width}, packedType());
  packed = b.create<memref::AllocOp>(type, b.getI64IntegerAttr(64));
  b.parallel(b.ceilDiv(rows, lanes), [&](Value panel) {
    auto packSlices = [&](int64_t fold) {
      b.loop(b.index(0), b.index(slices), 1,
             [&](Value slice) { packSlice(panel, slice, fold); });
    };
    if (!folds)
      return packSlices(1);
    Value fold = foldOf(panel);
    for (int64_t each : kFolds)
      b.when(b.equal(fold, b.index(each)), [&] { packSlices(each); });
  });
  return packed;
}

/// Step k of row r of the block's weights in every lane, or `fold` steps from k
/// on, side by side. In a row of odd length the last element is paired with a
/// zero.
Value PanelProduct::splatB(const Tile &t, int64_t r, Value k, int64_t fold) {
  SmallVector<Value> at = {b.add(t.row, r), b.add(t.first, k)};
  if (!pairs)
    return b.splat(t.weights, at, lanes);
  at.back() = b.mul(at.back(), 2);
  bool isSingle = c.k() % 2 && getConstantIntValue(k) == kSteps - 1;
  if (!isSingle)
    return b.repeated(t.weights, at, 2 * fold, width);
  Value element = b.create<memref::LoadOp>(t.weights, at);
  Value bits = b.create<arith::BitcastOp>(b.getI16Type(), element);
  Value word = b.create<arith::ExtUIOp>(b.getI32Type(), bits);
  Value words =
      b.create<vector::BroadcastOp>(b.vectorType(lanes, b.getI32Type()), word);
  return b.create<vector::BitCastOp>(b.vectorType(width, c.bType()), words);
}

/// `multiplyRows` adds to sums of two rows by two lanes. This makes them of the
/// sums of rows, and back.
void PanelProduct::swapHalves(SmallVector<Value> &acc, int64_t vectors) {
  for (size_t i = 0; i < acc.size(); i += 2 * vectors)
    for (int64_t v = 0; v < vectors; ++v) {
      Value &upper = acc[i + v], &lower = acc[i + vectors + v];
      std::tie(upper, lower) = b.swappedHalves(upper, lower);
    }
}

/// Adds the products of one step of pairs of rows.
SmallVector<Value> PanelProduct::stepOfPairs(const Tile &t, Value k,
                                             ValueRange acc, int64_t first) {
  SmallVector<Value> next(acc), columns; // two lanes of each
  for (int64_t lane = 0; lane < lanes; lane += 2)
    for (int64_t v = 0; v < t.unfolded(); ++v) {
      SmallVector<Value> at =
          placeOf(t.slice, b.add(firstPanel, t.panel), v, k);
      at.back() = b.add(at.back(), lane * stepSize);
      columns.push_back(b.load(packed, at, 2 * stepSize));
    }
  Value at = b.add(t.first, k);
  for (int64_t r = 0; r < t.rows; r += 2) {
    auto row = [&](int64_t i) {
      return b.load(t.weights, {b.add(t.row, r + i), b.mul(at, stepSize)},
                    stepSize);
    };
    SmallVector<int64_t> both(2 * stepSize);
    std::iota(both.begin(), both.end(), 0);
    Value w = b.create<vector::ShuffleOp>(row(0), row(1), both);
    for (auto [i, column] : llvm::enumerate(columns)) {
      Value &sum = next[first + r * t.unfolded() + i];
      sum = b.multiplyRows(w, column, sum);
    }
  }
  return next;
}

/// Adds the products of a period's steps, from step k on, to the accumulators
/// with the indices first, first + 1, ...
SmallVector<Value> PanelProduct::step(const Tile &t, Value k, ValueRange acc,
                                      int64_t first) {
  if (rowPairs)
    return stepOfPairs(t, k, acc, first);
  SmallVector<Value> next(acc);
  // Panels [begin, end) of the tile, whose vectors have `fold` steps.
  auto add = [&](Value k, int64_t begin, int64_t end, int64_t fold) {
    SmallVector<Value> columns;
    for (int64_t v = begin; v < end; ++v)
      columns.push_back(b.load(
          packed,
          placeOf(t.slice, b.add(firstPanel, t.panel), v, b.div(k, fold)),
          width));
    for (int64_t r = 0; r < t.rows && !columns.empty(); ++r) {
      Value w = splatB(t, r, k, fold);
      for (auto [i, column] : llvm::enumerate(columns)) {
        Value &sum = next[first + r * t.width + begin + i];
        // The splat is the last factor: there LLVM can fold it into the
        // instruction.
        sum = pairs ? b.dotPairs(column, w, sum) : b.fma(column, w, sum);
      }
    }
  };
  for (int64_t i = 0; i < t.fold; ++i)
    add(b.add(k, i), 0, t.unfolded(), 1);
  if (t.fold > 1)
    add(k, t.width - 1, t.width, t.fold);
  return next;
}

/// Prefetches the elements of the block's rows that are read next, so that
/// memory reads and multiplications overlap: the next slice, or, after the last
/// slice, the first slice of the next group. The tiles of a block divide the
/// rows among them.
void PanelProduct::fetchRows(const Tile &t, Value k) {
  Value row = t.nextRow, column = k;
  if (slices > 1) {
    Value more = b.less(t.slice, b.index(slices - 1));
    Value next = b.mul(b.add(t.slice, 1), kSlice);
    row = b.create<arith::SelectOp>(more, t.groupRow, row);
    next = b.create<arith::SelectOp>(more, next, b.index(0));
    column = b.add(next, k);
  }
  row = b.add(row, t.sumsRow);
  int64_t share = llvm::divideCeil(t.rows, leastTiles);
  for (int64_t i = 0; i < share; ++i) {
    Value r = b.index(i);
    if (share < t.rows)
      r = b.min(b.add(b.mul(b.div(t.panel, vectors), share), i),
                b.index(t.rows - 1));
    Value at = b.add(row, r), first = b.mul(column, stepSize);
    SmallVector<Value> line = {at, first};
    if (c.blocks)
      line = {at, b.div(first, BlockProduct::kNumbers), b.index(0)};
    b.prefetch(matrix, line, /*level=*/2);
  }
}

/// Prefetches lines of the panels after the tile's panels, which may only be in
/// the L3 cache. The blocks of a group divide these lines among them. One call
/// prefetches the share of `steps` steps.
void PanelProduct::fetchPanels(const Tile &t, Value k, int64_t steps) {
  int64_t blocks = groupRows / blockRows, elements = steps * together * width;
  int64_t line = 512 / packedType().getIntOrFloatBitWidth();
  int64_t lines = llvm::divideCeil(elements, blocks * line);
  Value call = b.add(b.mul(b.div(t.sumsRow, blockRows), kSlice / steps),
                     b.div(k, steps));
  Value next = b.add(b.div(t.panel, together), 1);
  for (int64_t i = 0; i < lines; ++i) {
    Value at = b.mul(b.add(b.mul(call, lines), i), line);
    b.prefetch(packed, {t.slice, next, b.index(0), at}, /*level=*/2);
  }
}

/// Adds the slice's products to a tile's accumulators, one cache line of b's
/// rows after the other. A tile with few accumulators alternates between two
/// sets of them, to hide the latency of the multiplications. It does not if the
/// sums of a row must not depend on the number of rows.
SmallVector<Value> PanelProduct::steps(const Tile &t, SmallVector<Value> acc) {
  auto sums = static_cast<int64_t>(acc.size());
  int64_t sets = sums < 12 && !c.invariant ? 2 : 1;
  int64_t line = stepsOfLine();
  bool odd = pairs && c.k() % 2;
  Value first = b.index(0), end = odd ? b.index(kSteps - 1) : t.length;
  auto walk = [&](Value first, Value end, int64_t sets, ValueRange acc) {
    int64_t count = sets * t.fold;
    return b.loop(first, end, count, acc, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried);
      for (int64_t set = 0; set < sets; ++set)
        next = step(t, b.add(k, set * t.fold), next, set * sums);
      return next;
    });
  };
  if (t.nextRow) {
    Value whole = b.mul(b.div(end, line), line);
    acc.resize(sums * sets, b.zero(lanes));
    acc = b.loop(first, whole, line, acc, [&](Value k, ValueRange carried) {
      fetchRows(t, k);
      if (together > 1)
        fetchPanels(t, k, line);
      return walk(k, b.add(k, line), sets, carried);
    });
    for (int64_t i = sums; i < sums * sets; ++i)
      acc[i - sums] = b.create<arith::AddFOp>(acc[i - sums], acc[i]);
    acc.truncate(sums);
    first = whole;
  }
  acc = walk(first, end, 1, acc);
  return odd ? step(t, b.index(kSteps - 1), acc, 0) : acc;
}

/// Computes a tile. Adds the tile to the sums, or, if one slice is all of k,
/// sets the sums.
void PanelProduct::tile(const Tile &t) {
  auto at = [&](int64_t r, int64_t v) -> SmallVector<Value> {
    return {b.add(t.sumsRow, r), b.mul(b.add(t.panel, v), lanes)};
  };
  SmallVector<Value> acc;
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t v = 0; v < t.width; ++v)
      acc.push_back(slices == 1 ? b.zero(lanes)
                                : b.load(t.sums, at(r, v), lanes));
  if (rowPairs)
    swapHalves(acc, t.unfolded());
  acc = steps(t, acc);
  if (rowPairs)
    swapHalves(acc, t.unfolded());
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t v = 0; v < t.width; ++v) {
      Value sum = acc[r * t.width + v];
      // With folded panels all of k is one slice: these sums are whole.
      for (int64_t fold = v < t.unfolded() ? 1 : t.fold; fold > 1; fold /= 2) {
        auto halves = b.create<vector::DeinterleaveOp>(sum);
        sum = b.create<arith::AddFOp>(halves.getRes1(), halves.getRes2());
      }
      b.store(sum, t.sums, at(r, v));
    }
}

/// Sets the sums to zero, including those of the rows that pad the last block.
void PanelProduct::clear(Value sums, Value count) {
  Value end = b.mul(b.ceilDiv(count, blockRows), blockRows);
  b.loop(b.index(0), end, 1, [&](Value r) {
    b.loop(b.index(0), panels, 1, [&](Value panel) {
      b.store(b.zero(lanes), sums, {r, b.mul(panel, lanes)});
    });
  });
}

/// Copies the slice of rows [n, n + count) of b, as f32 or as pairs. The last
/// block is padded with copies of b's last row.
void PanelProduct::copyRows(Value copy, Value n, Value count, Value slice,
                            Value length) {
  Value first = b.mul(slice, kSlice);
  Value end = b.mul(b.ceilDiv(count, blockRows), blockRows);
  b.loop(b.index(0), end, 1, [&](Value r) {
    Value row = b.add(n, r);
    if (c.n() % blockRows)
      row = b.min(row, b.index(c.n() - 1));
    if (c.blocks) {
      Value end = b.div(b.mul(length, stepSize), BlockProduct::kNumbers);
      Value block = b.div(b.mul(first, stepSize), BlockProduct::kNumbers);
      return b.loop(b.index(0), end, 1, [&](Value i) {
        copyBlock(b, *c.blocks, row, b.add(block, i), copy, {r},
                  b.mul(i, BlockProduct::kNumbers));
      });
    }
    b.loop(b.index(0), length, 1, [&](Value k) {
      Value x =
          b.create<memref::LoadOp>(matrix, ValueRange{row, b.add(first, k)});
      if (!x.getType().isF32())
        x = b.create<arith::ExtFOp>(b.getF32Type(), x);
      b.create<memref::StoreOp>(x, copy, ValueRange{r, k});
    });
  });
}

/// c[m, n + r] = sums[r, m]. Where a block's rows divide the lanes, squares of
/// sums are transposed and stored as vectors; elsewhere each sum is stored
/// alone.
void PanelProduct::flush(Value sums, Value n, Value count,
                         int64_t rowsOfBlock) {
  auto placeOf = [&](Value m) {
    return c.rowOfC(b, c.rowAt(b, b.add(firstRow, m)));
  };
  // Stores a sum of row r of b, or a vector of the sums of rows from r on.
  auto put = [&](Value sum, SmallVector<Value> at, Value r) {
    at.push_back(b.add(n, r));
    auto vector = dyn_cast<VectorType>(sum.getType());
    if (!c.fromZero) {
      Value old = vector ? b.load(c.c, at, vector.getDimSize(0))
                         : b.create<memref::LoadOp>(c.c, at).getResult();
      sum = b.create<arith::AddFOp>(sum, old);
    }
    if (vector)
      b.store(sum, c.c, at);
    else
      b.create<memref::StoreOp>(sum, c.c, at);
  };
  auto putEach = [&](Value first, Value firstM, Value endM) {
    b.loop(firstM, endM, 1, [&](Value m) {
      SmallVector<Value> at = placeOf(m);
      b.loop(first, count, 1, [&](Value r) {
        put(b.create<memref::LoadOp>(sums, ValueRange{r, m}), at, r);
      });
    });
  };
  // With experts the last panel of each part has lanes without a row.
  auto ifRow = [&](Value m, llvm::function_ref<void(Value)> body) {
    if (!c.experts)
      return body(m);
    b.when(b.less(m, rows), [&] { body(m); });
  };
  auto putBlock = [&](Value m, Value first) {
    SmallVector<Value> panel;
    for (int64_t r = 0; r < rowsOfBlock; ++r)
      panel.push_back(b.load(sums, {b.add(first, r), m}, lanes));
    if (llvm::isPowerOf2_64(rowsOfBlock) && lanes % rowsOfBlock == 0) {
      for (int64_t lane = 0; lane < lanes; lane += rowsOfBlock) {
        auto square = llvm::map_to_vector(panel, [&](Value row) -> Value {
          return b.create<vector::ExtractStridedSliceOp>(
              row, ArrayRef{lane}, ArrayRef{rowsOfBlock}, ArrayRef<int64_t>{1});
        });
        for (auto [i, sums] : llvm::enumerate(b.transposed(square)))
          ifRow(b.add(m, lane + static_cast<int64_t>(i)),
                [&, sums = sums](Value m) { put(sums, placeOf(m), first); });
      }
      return;
    }
    for (int64_t lane = 0; lane < lanes; ++lane)
      ifRow(b.add(m, lane), [&](Value m) {
        SmallVector<Value> at = placeOf(m);
        for (int64_t r = 0; r < rowsOfBlock; ++r)
          put(b.create<vector::ExtractOp>(panel[r], lane), at, b.add(first, r));
      });
  };
  Value blocks = b.mul(b.div(count, rowsOfBlock), rowsOfBlock);
  Value whole = c.experts ? rows : b.mul(b.div(rows, lanes), lanes);
  b.loop(b.index(0), whole, lanes, [&](Value m) {
    b.loop(b.index(0), blocks, rowsOfBlock, [&](Value r) { putBlock(m, r); });
  });
  putEach(blocks, b.index(0), whole);
  if (!c.experts)
    putEach(b.index(0), whole, rows);
}

/// Multiplies the rows [n, n + count) of b with all of a.
void PanelProduct::group(Value n, Value count, int64_t rowsOfBlock,
                         Value nextRow) {
  auto scratch = [&](int64_t columns, Type element) {
    return b.scratch({groupRows, columns}, element);
  };
  Value sums = scratch(maxPanels * lanes, b.getF32Type());
  // The row stride of the copy is not a power of two, so that rows do not share
  // cache sets.
  int64_t line = 512 / packedType().getIntOrFloatBitWidth();
  Value copy =
      copies ? scratch(kSlice * stepSize + line, packedType()) : Value();
  if (slices > 1)
    clear(sums, count);
  b.loop(b.index(0), b.index(slices), 1, [&](Value slice) {
    Value length = lengthOf(slice), done = b.index(0);
    if (copies)
      copyRows(copy, n, count, slice, length);
    auto tiles = [&](Value panel, int64_t width, int64_t fold) {
      b.loop(b.index(0), count, rowsOfBlock, [&](Value r) {
        tile({copies ? copy : matrix, copies ? r : b.add(n, r),
              copies ? b.index(0) : b.mul(slice, kSlice), rowsOfBlock, sums, r,
              slice, length, panel, width, fold, n, nextRow});
      });
    };
    for (int64_t width = vectors; width; width = folds ? 0 : width / 2) {
      Value end = b.mul(b.div(unfolded, width), width);
      b.loop(done, end, width,
             [&](Value panel) { tiles(panel, width, /*fold=*/1); });
      done = end;
    }
    if (!folds)
      return;
    // The panels that are left are one tile, with the folded one.
    Value left = b.sub(panels, done);
    for (int64_t width = 1; width <= vectors; ++width)
      b.when(b.equal(left, b.index(width)), [&] {
        for (int64_t fold : kFolds)
          if (width < vectors || fold > 1)
            b.when(b.equal(lastFold, b.index(fold)),
                   [&] { tiles(done, width, fold); });
      });
  });
  flush(sums, n, count,
        c.experts && rowsOfBlock == blockRows ? groupRows : rowsOfBlock);
}

/// Runs `body` for each group of rows of b, in parallel. With experts, each
/// part has its own b, and `body` runs for the groups of each.
void PanelProduct::forGroups(int64_t groups,
                             llvm::function_ref<void(Value)> body) {
  if (!c.experts)
    return b.parallel(b.index(groups), body);
  b.parallel(b.mul(c.experts->count, groups), [&](Value i) {
    ExpertPart part(b, *c.experts, c.b, b.div(i, groups));
    matrix = part.matrix;
    firstRow = part.begin;
    rows = b.sub(part.end, part.begin);
    panels = unfolded = b.ceilDiv(rows, lanes);
    firstPanel = b.div(firstRow, lanes);
    if (folds) {
      lastFold = foldOf(b.sub(b.add(firstPanel, panels), b.index(1)));
      Value isFolded = b.less(b.index(1), lastFold);
      unfolded = b.create<arith::SelectOp>(isFolded, b.sub(panels, b.index(1)),
                                           panels);
    }
    body(b.rem(i, groups));
  });
}

void PanelProduct::multiply(Value a) {
  packed = a;
  // The last group may have fewer rows. Copies of weights are padded to whole
  // blocks; where weights are read in place, rows that fill no block are a
  // group of their own.
  int64_t left = copies ? 0 : c.n() % blockRows, end = c.n() - left;
  // Multiplies `rows` rows of b from n on, or those up to the end.
  auto multiplyRows = [&](Value n, Value rows, int64_t multiple) {
    if (end % multiple)
      rows = b.min(rows, b.sub(b.index(end), n));
    int64_t last = (end - 1) / multiple * multiple;
    group(n, rows, blockRows, b.min(b.add(n, rows), b.index(last)));
  };
  int64_t unit = kUnitBlocks * blockRows;
  if (!c.experts && groupRows >= unit)
    b.parallelRanges(b.index(llvm::divideCeil(end, unit)), groupRows / unit,
                     [&](Value first, Value units) {
                       multiplyRows(b.mul(first, unit), b.mul(units, unit),
                                    unit);
                     });
  else
    forGroups(llvm::divideCeil(end, groupRows), [&](Value group) {
      multiplyRows(b.mul(group, groupRows), b.index(groupRows), groupRows);
    });
  if (left)
    forGroups(
        1, [&](Value) { group(b.index(end), b.index(left), left, Value()); });
}

/// The most rows of a, of at most `maxRows`, that fit the L2 cache without
/// blocking; all if blocking gains nothing.
static int64_t mostUnblocked(const VectorUnit &unit, const Contraction &c,
                             int64_t maxRows) {
  if (!unit.blockForL2)
    return maxRows;
  int64_t fit = std::max(kMostInPlace / c.k(), int64_t(1));
  return std::min<int64_t>(llvm::alignTo(fit, unit.lanes), maxRows);
}

PackedRows cria::packPanels(VectorBuilder &b, const Contraction &c,
                            int64_t maxRows, Value rows) {
  auto pack = [&](int64_t minRows, int64_t maxRows, bool blocked, Value rows) {
    return PanelProduct(b, c, minRows, maxRows, blocked).pack(rows);
  };
  int64_t few = mostUnblocked(b.unit, c, maxRows);
  if (few == maxRows)
    return {pack(1, few, /*blocked=*/false, rows)};
  Value isMany = b.less(b.index(few), rows), none = b.index(0);
  Value fewRows = b.create<arith::SelectOp>(isMany, none, rows),
        manyRows = b.create<arith::SelectOp>(isMany, rows, none);
  return {pack(1, few, /*blocked=*/false, fewRows),
          pack(few + 1, maxRows, /*blocked=*/true, manyRows)};
}

void cria::emitPanel(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                     const PackedRows &packed) {
  int64_t few = mostUnblocked(b.unit, c, maxRows);
  auto emitFew = [&] {
    PanelProduct(b, c, 1, few, /*blocked=*/false).multiply(packed[0]);
  };
  if (few == maxRows)
    return emitFew();
  b.when(
      b.less(b.index(few), b.size(c.a, 0)),
      [&] {
        PanelProduct(b, c, few + 1, maxRows, /*blocked=*/true)
            .multiply(packed[1]);
      },
      emitFew);
}

int64_t cria::mostPanelRows(const VectorUnit &unit, const Contraction &c,
                            int64_t maxRows) {
  return mostUnblocked(unit, c, llvm::alignTo(maxRows, unit.lanes));
}
