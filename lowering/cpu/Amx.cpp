/// c[m, n] += sum_k a[m, k] * b[n, k] of bf16 on AMX, which multiplies tiles of
/// (16 rows, 32 k):
///
///   pack a: packed[panel][k / 32][2 tiles][16 pairs of k][16 rows][2]
///   for groups of up to 256 rows n of b, in parallel; of fewer, down to 32, if
///   a thread has fewer:
///     for slices of k:
///       for panels of 32 rows of a:
///         for blocks of 32 rows of b:
///           sums[2][2] = 0, or those of the slice before
///           for k by 32: sums[i][j] += b[n + 16 i ...] * packed[j]
///             (prefetch the next panel)
///         (after the last slice: c of the panel = sums, transposed)
///
/// The weights b are the left operand and are read in place, so a tile of sums
/// is (16 n, 16 m). If the rows of b are a multiple of 8192 bytes apart, they
/// collide in the cache. Then the first panel copies the slice, and the other
/// panels read the copy. If b is in blocks, whose numbers are as many as the k
/// of a tile, the copy is made before the first panel: each number times its
/// scale, rounded.
///
/// Sizes need not be multiples of 32. Past the last row of a, the last row is
/// repeated, and the sums of the repeated rows are dropped. The last block of b
/// begins at row N - 32, and only its new columns are stored. The last k are
/// copied and padded with zeros, so that nothing after a row is read.
///
/// Rows that are sorted by expert (Experts.cpp) are packed together. A group is
/// then of one part, whose rows are some of the panels.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

/// Rows of a tile, and columns of a tile of sums.
static constexpr int64_t kTile = 16;
/// The k of a tile, the rows of b in a block, and the rows of a in a panel.
static constexpr int64_t kStep = 32;
/// The most blocks of a group: the blocks and a panel fit the L2 cache.
static constexpr int64_t kGroupBlocks = 8;
/// With experts: the groups of each expert's rows, or more, if these are few.
static constexpr int64_t kLeastGroups = 8;
/// The most groups that have buffers of their own, and their blocks.
static constexpr int64_t kMostSlots = 64,
                         kMostBlocks = kMostSlots * kGroupBlocks;
/// The most steps of k that are one slice, and the steps of each slice if there
/// are several.
static constexpr int64_t kWholeSteps = 64, kSliceSteps = 32;
/// Steps of k that a thread packs at a time.
static constexpr int64_t kPackSteps = 16;

namespace {
/// Rows of b that one thread multiplies.
struct Group {
  Value buffers;       // the index of the first block's buffers
  Value first, blocks; // the first block of b, and the number of blocks
};

/// A range of steps of k.
struct Slice {
  Value number, first;
  Value whole, count; // steps without the tail, and with it
};

/// The place from which a block reads b.
enum class Source { InPlace, InPlaceThenCopy, Copy };

class AmxProduct {
public:
  /// A product with at most `maxRows` rows of a, or of each part of a.
  AmxProduct(VectorBuilder &b, const Contraction &c, int64_t maxRows);
  Value pack(Value rows);
  void multiply(Value packed);

private:
  using Tiles = SmallVector<Value, 4>;

  int64_t groups() const { return llvm::divideCeil(blocks, groupBlocks); }
  MemRefType tilesType(ArrayRef<int64_t> shape) const;
  MemRefType sumsType(int64_t blocks, int64_t panels) const;
  Value loadPadded(Value matrix, SmallVector<Value> row, Value k,
                   int64_t count);
  void packTile(Value tile, Value step, int64_t count);
  Value rowOf(const Group &group, Value block);
  void copyTail(const Group &group);
  void widenBlocks(const Group &group, const Slice &slice);
  void allocateForThread();
  void multiplyShared(Value first, Value count);
  void multiplyExperts();
  void multiply(const Group &group);
  void multiply(const Group &group, const Slice &slice);
  void multiplyPanel(const Group &group, const Slice &slice, Value panel,
                     Source source);
  void multiplyBlock(const Group &group, const Slice &slice, Value panel,
                     Value block, int64_t width, Source source);
  SmallVector<Value> sumsAt(const Group &group, Value panel, Value block,
                            Value tile, Value row);
  SmallVector<Value> firstSums(const Slice &slice,
                               ArrayRef<SmallVector<Value>> at);
  SmallVector<Value> step(ValueRange sums, const Tiles &left,
                          const Tiles &right);
  void fetchNextPanel(const Slice &slice, Value panel, Value block, Value step);
  void flushTile(const Group &group, Value panel, Value m, Value n,
                 int64_t columns);
  void flush(const Group &group, Value panel);

  VectorBuilder &b;
  const Contraction &c;
  int64_t wholeSteps, steps, tail, sliceSteps, slices;
  int64_t blocks, groupBlocks, maxPanels;
  bool copies;
  /// The matrix, the rows that it multiplies, and the first place of these rows
  /// and of their panels.
  Value matrix, rows, firstRow, firstPanel;
  /// Packed a, the sums of the groups, the copies of the groups' slices of b,
  /// and the copies of the tails of b.
  Value packed, sums, copied, tails;
  /// A buffer for a tile of c that has fewer than 16 rows.
  Value rest;
};
} // namespace

AmxProduct::AmxProduct(VectorBuilder &b, const Contraction &c, int64_t maxRows)
    : b(b), c(c), wholeSteps(c.k() / kStep),
      steps(llvm::divideCeil(c.k(), kStep)), tail(c.k() % kStep) {
  sliceSteps = steps <= kWholeSteps ? steps : kSliceSteps;
  slices = llvm::divideCeil(steps, sliceSteps);
  blocks = llvm::divideCeil(c.n(), kStep);
  groupBlocks = std::min(kGroupBlocks, blocks);
  if (c.experts)
    groupBlocks =
        std::min<int64_t>(groupBlocks, llvm::divideCeil(blocks, kLeastGroups));
  maxPanels = llvm::divideCeil(maxRows, kStep);
  copies = c.blocks || (c.k() % 4096 == 0 && maxPanels > 1);
  matrix = c.b;
  rows = c.experts ? c.experts->places : b.size(c.a, 0);
  firstRow = firstPanel = b.index(0);
}

MemRefType AmxProduct::tilesType(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> sizes(shape);
  sizes.append({kTile, kStep});
  return MemRefType::get(sizes, b.getBF16Type());
}

/// Sums (32 n, 16 m) for each block and each tile of a panel.
MemRefType AmxProduct::sumsType(int64_t blocks, int64_t panels) const {
  return MemRefType::get({blocks, panels, 2, kStep, kTile}, b.getF32Type());
}

/// The bits of `count` elements of a row from k on, padded with zeros to 32
/// elements. The elements are loaded as integers because LLVM would call a
/// library to move bf16 on CPUs without AVX512-BF16.
Value AmxProduct::loadPadded(Value matrix, SmallVector<Value> row, Value k,
                             int64_t count) {
  Type i16 = b.getI16Type();
  row.push_back(k);
  Value bits = b.create<vector::BitCastOp>(b.vectorType(count, i16),
                                           b.load(matrix, row, count));
  if (count == kStep)
    return bits;
  Value zeros =
      b.create<arith::ConstantOp>(b.getZeroAttr(b.vectorType(kStep, i16)));
  return b.create<vector::InsertStridedSliceOp>(
      bits, zeros, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
}

/// Packs a tile of a: transposes it, with each pair of k as one f32.
void AmxProduct::packTile(Value tile, Value step, int64_t count) {
  SmallVector<Value> pairs;
  Value last = b.sub(rows, b.index(1)), k = b.mul(step, kStep);
  for (int64_t i = 0; i < kTile; ++i) {
    Value row = c.rowAt(b, b.min(b.add(b.mul(tile, kTile), i), last));
    if (c.experts)
      row = b.max(row, b.index(0));
    pairs.push_back(b.create<vector::BitCastOp>(
        b.vectorType(kTile, b.getF32Type()),
        loadPadded(c.a, c.rowOfA(b, row), k, count)));
  }
  SmallVector<Value> turned = b.transposed(pairs);
  for (int64_t i = 0; i < kTile; ++i) {
    Value row = b.create<vector::BitCastOp>(
        b.vectorType(kStep, b.getBF16Type()), turned[i]);
    b.store(row, packed,
            {b.div(step, sliceSteps), b.div(tile, 2), b.rem(step, sliceSteps),
             b.rem(tile, 2), b.index(i), b.index(0)});
  }
}

/// Packs `rows` rows of a, which may be none.
Value AmxProduct::pack(Value rows) {
  this->rows = rows;
  int64_t most = c.experts ? c.experts->maxPlaces() / kStep : maxPanels;
  packed = b.create<memref::AllocOp>(tilesType({slices, most, sliceSteps, 2}),
                                     b.getI64IntegerAttr(64));
  int64_t pieces = llvm::divideCeil(steps, kPackSteps);
  b.parallel(b.mul(b.ceilDiv(rows, kTile), pieces), [&](Value i) {
    Value tile = b.div(i, pieces), first = b.mul(b.rem(i, pieces), kPackSteps);
    Value end = b.add(first, kPackSteps);
    b.loop(first, b.min(end, b.index(wholeSteps)), 1,
           [&](Value step) { packTile(tile, step, kStep); });
    if (tail)
      b.when(b.less(b.index(wholeSteps), end),
             [&] { packTile(tile, b.index(wholeSteps), tail); });
  });
  return packed;
}

/// The row of b at which a block begins.
Value AmxProduct::rowOf(const Group &group, Value block) {
  Value row = b.mul(b.add(group.first, block), kStep);
  return c.n() % kStep ? b.min(row, b.index(c.n() - kStep)) : row;
}

/// tails[block][2 tiles] = the last k of the group's rows.
void AmxProduct::copyTail(const Group &group) {
  b.loop(b.index(0), group.blocks, 1, [&](Value block) {
    Value first = rowOf(group, block);
    b.loop(b.index(0), b.index(kStep), 1, [&](Value i) {
      Value values = b.create<vector::BitCastOp>(
          b.vectorType(kStep, b.getBF16Type()),
          loadPadded(matrix, {b.add(first, i)}, b.index(wholeSteps * kStep),
                     tail));
      b.store(values, tails,
              {block, b.div(i, kTile), b.rem(i, kTile), b.index(0)});
    });
  });
}

/// copied[block][step] = the numbers of the group's rows.
void AmxProduct::widenBlocks(const Group &group, const Slice &slice) {
  b.loop(b.index(0), b.mul(group.blocks, kStep), 1, [&](Value i) {
    Value block = b.div(i, kStep), place = b.rem(i, kStep);
    Value row = b.add(rowOf(group, block), place);
    b.loop(b.index(0), slice.whole, 1, [&](Value step) {
      copyBlock(b, *c.blocks, row, b.add(slice.first, step), copied,
                {b.add(group.buffers, block), step, b.div(place, kTile),
                 b.rem(place, kTile)},
                b.index(0));
    });
  });
}

/// sums[i][j] += left[i] * right[j]
SmallVector<Value> AmxProduct::step(ValueRange sums, const Tiles &left,
                                    const Tiles &right) {
  SmallVector<Value> next;
  for (Value x : left)
    for (Value y : right) {
      Value sum = sums[next.size()];
      next.push_back(b.create<amx::TileMulFOp>(sum.getType(), x, y, sum));
    }
  return next;
}

/// Prefetches lines of the same slice of the next panel. Packed a does not fit
/// the L2 cache. The blocks of a group divide the lines among them.
void AmxProduct::fetchNextPanel(const Slice &slice, Value panel, Value block,
                                Value step) {
  int64_t lines = llvm::divideCeil(2 * kTile, groupBlocks);
  Value zero = b.index(0), next = b.add(b.add(firstPanel, panel), 1);
  Value line = b.mul(b.add(b.mul(block, sliceSteps), step), lines);
  for (int64_t i = 0; i < lines; ++i)
    b.prefetch(
        packed,
        {slice.number, next, zero, zero, zero, b.mul(b.add(line, i), kStep)},
        /*level=*/2);
}

SmallVector<Value> AmxProduct::sumsAt(const Group &group, Value panel,
                                      Value block, Value tile, Value row) {
  Value zero = b.index(0);
  if (slices == 1)
    return {block, zero, tile, row, zero};
  return {b.add(group.buffers, block), panel, tile, row, zero};
}

/// The initial sums: zeros in the first slice, else the sums of the slice
/// before.
SmallVector<Value> AmxProduct::firstSums(const Slice &slice,
                                         ArrayRef<SmallVector<Value>> at) {
  auto type = amx::TileType::get({kTile, kTile}, b.getF32Type());
  auto each = [&](auto first) {
    SmallVector<Value> tiles;
    for (const SmallVector<Value> &position : at)
      tiles.push_back(first(position));
    return tiles;
  };
  auto zero = [&](ValueRange) -> Value {
    return b.create<amx::TileZeroOp>(type);
  };
  if (slices == 1)
    return each(zero);
  auto isFirst = b.create<scf::IfOp>(SmallVector<Type>(at.size(), type),
                                     b.less(slice.number, b.index(1)),
                                     /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(isFirst.thenBlock());
  b.create<scf::YieldOp>(each(zero));
  b.setInsertionPointToStart(isFirst.elseBlock());
  b.create<scf::YieldOp>(each([&](ValueRange position) -> Value {
    return b.create<amx::TileLoadOp>(type, sums, position);
  }));
  return isFirst.getResults();
}

/// A block of b times `width` tiles of a panel.
void AmxProduct::multiplyBlock(const Group &group, const Slice &slice,
                               Value panel, Value block, int64_t width,
                               Source source) {
  auto type = amx::TileType::get({kTile, kStep}, b.getBF16Type());
  Value row = rowOf(group, block), zero = b.index(0);
  auto load = [&](Value memref, ValueRange at) -> Value {
    return b.create<amx::TileLoadOp>(type, memref, at);
  };
  auto copyAt = [&](Value step, int64_t i) -> SmallVector<Value> {
    return {b.add(group.buffers, block), step, b.index(i), zero, zero};
  };
  auto left = [&](Value step, int64_t i) {
    if (source == Source::Copy)
      return load(copied, copyAt(step, i));
    Value k = b.mul(b.add(slice.first, step), kStep);
    return load(matrix, {b.add(row, i * kTile), k});
  };
  auto leftTail = [&](Value, int64_t i) {
    return load(tails, {block, b.index(i), zero, zero});
  };
  auto right = [&](Value step, int64_t j) {
    return load(packed, {slice.number, b.add(firstPanel, panel), step,
                         b.index(j), zero, zero});
  };
  auto walk = [&](Value first, Value end, auto left, ValueRange sums) {
    return b.loop(first, end, 1, sums, [&](Value k, ValueRange carried) {
      Tiles x, y;
      for (int64_t i = 0; i < 2; ++i) {
        x.push_back(left(k, i));
        if (i < width)
          y.push_back(right(k, i));
      }
      if (width == 2 && source != Source::InPlaceThenCopy)
        fetchNextPanel(slice, panel, block, k);
      SmallVector<Value> next = step(carried, x, y);
      if (source == Source::InPlaceThenCopy)
        for (int64_t i = 0; i < 2; ++i)
          b.create<amx::TileStoreOp>(copied, copyAt(k, i), x[i]);
      return next;
    });
  };
  SmallVector<SmallVector<Value>> at;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < width; ++j)
      at.push_back(sumsAt(group, panel, block, b.index(j), b.index(i * kTile)));
  SmallVector<Value> tiles = firstSums(slice, at);
  tiles = walk(zero, slice.whole, left, tiles);
  if (tail)
    tiles = walk(slice.whole, slice.count, leftTail, tiles);
  for (auto [tile, position] : llvm::zip(tiles, at))
    b.create<amx::TileStoreOp>(sums, position, tile);
}

/// Multiplies the group's rows of b with a panel. The second tile of the panel
/// may have no rows.
void AmxProduct::multiplyPanel(const Group &group, const Slice &slice,
                               Value panel, Source source) {
  auto multiplyBlocks = [&](int64_t width) {
    b.loop(b.index(0), group.blocks, 1, [&](Value block) {
      multiplyBlock(group, slice, panel, block, width, source);
    });
  };
  Value second = b.add(b.mul(panel, kStep), kTile);
  if (source == Source::InPlaceThenCopy) // more panels follow: this one is full
    multiplyBlocks(2);
  else
    b.when(
        b.less(second, rows), [&] { multiplyBlocks(2); },
        [&] { multiplyBlocks(1); });
  if (slices == 1)
    return flush(group, panel);
  b.when(b.less(b.index(slices - 2), slice.number),
         [&] { flush(group, panel); });
}

void AmxProduct::multiply(const Group &group, const Slice &slice) {
  Value end = b.ceilDiv(rows, kStep);
  auto panels = [&](int64_t first, Source source) {
    b.loop(b.index(first), end, 1,
           [&](Value panel) { multiplyPanel(group, slice, panel, source); });
  };
  if (!copies)
    return panels(0, Source::InPlace);
  if (c.blocks) {
    widenBlocks(group, slice);
    return panels(0, Source::Copy);
  }
  b.when(
      b.less(b.index(1), end),
      [&] {
        multiplyPanel(group, slice, b.index(0), Source::InPlaceThenCopy);
        panels(1, Source::Copy);
      },
      [&] { panels(0, Source::InPlace); });
}

void AmxProduct::multiply(const Group &group) {
  if (tail)
    copyTail(group);
  auto slice = [&](Value number) {
    Value first = b.mul(number, sliceSteps);
    auto upTo = [&](int64_t end) {
      return b.min(b.index(sliceSteps), b.sub(b.index(end), first));
    };
    multiply(group, {number, first, upTo(wholeSteps), upTo(steps)});
  };
  if (slices == 1)
    return slice(b.index(0));
  b.loop(b.index(0), b.index(slices), 1, slice);
}

/// c[m + i, n + r] = sums[r, i], for a tile of rows of c.
void AmxProduct::flushTile(const Group &group, Value panel, Value m, Value n,
                           int64_t columns) {
  Value block = b.sub(b.div(n, kStep), group.first);
  Value tile = b.div(b.sub(m, b.mul(panel, kStep)), kTile);
  Value first = b.sub(n, rowOf(group, block));
  SmallVector<Value> lines;
  for (int64_t r = 0; r < kTile; ++r) {
    Value line = b.add(first, std::min(r, columns - 1));
    lines.push_back(
        b.load(sums, sumsAt(group, panel, block, tile, line), kTile));
  }
  SmallVector<Value> turned = b.transposed(lines);
  auto put = [&](Value row, Value m) {
    if (columns < kTile)
      row = b.create<vector::ExtractStridedSliceOp>(row, 0, columns, 1);
    SmallVector<Value> at = c.rowOfC(b, c.rowAt(b, b.add(firstRow, m)));
    at.push_back(n);
    if (!c.fromZero)
      row = b.create<arith::AddFOp>(row, b.load(c.c, at, columns));
    b.store(row, c.c, at);
  };
  b.when(
      b.less(b.add(m, kTile - 1), rows),
      [&] {
        for (auto [i, row] : llvm::enumerate(turned))
          put(row, b.add(m, static_cast<int64_t>(i)));
      },
      [&] {
        for (auto [i, row] : llvm::enumerate(turned))
          b.store(row, rest, {b.index(static_cast<int64_t>(i)), b.index(0)});
        b.loop(m, rows, 1, [&](Value row) {
          put(b.load(rest, {b.sub(row, m), b.index(0)}, kTile), row);
        });
      });
}

/// Stores a panel's rows of c. In each row, the group's columns are adjacent.
void AmxProduct::flush(const Group &group, Value panel) {
  Value m = b.mul(panel, kStep), n = b.mul(group.first, kStep);
  Value end =
      b.min(b.mul(b.add(group.first, group.blocks), kStep), b.index(c.n()));
  Value whole = b.mul(b.div(end, kTile), kTile);
  b.loop(m, b.min(b.add(m, kStep), rows), kTile, [&](Value m) {
    b.loop(n, whole, kTile,
           [&](Value n) { flushTile(group, panel, m, n, kTile); });
    if (int64_t rest = c.n() % kTile)
      b.loop(whole, end, kTile,
             [&](Value n) { flushTile(group, panel, m, n, rest); });
  });
}

/// What the threads of the parallel loop here have of their own.
void AmxProduct::allocateForThread() {
  auto scratch = [&](MemRefType type) {
    return b.scratch(type.getShape(), type.getElementType());
  };
  if (slices == 1)
    sums = scratch(sumsType(groupBlocks, 1));
  rest = b.scratch({kTile, kTile}, b.getF32Type());
  if (tail)
    tails = scratch(tilesType({groupBlocks, 2}));
}

/// Multiplies `count` blocks of b from `first` on, which have as many buffers.
void AmxProduct::multiplyShared(Value first, Value count) {
  b.parallelRanges(count, groupBlocks, [&](Value buffers, Value blocks) {
    allocateForThread();
    multiply({buffers, b.add(first, buffers), blocks});
  });
}

void AmxProduct::multiplyExperts() {
  Value all = b.mul(c.experts->count, groups());
  b.parallel(b.index(kMostSlots), [&](Value slot) {
    allocateForThread();
    auto begin = [&](Value i) { return b.div(b.mul(i, all), kMostSlots); };
    b.loop(begin(slot), begin(b.add(slot, 1)), 1, [&](Value i) {
      ExpertPart part(b, *c.experts, c.b, b.div(i, groups()));
      matrix = part.matrix;
      firstRow = part.begin;
      rows = b.sub(part.end, part.begin);
      firstPanel = b.div(firstRow, kStep);
      Value first = b.mul(b.rem(i, groups()), groupBlocks);
      Value left = b.sub(b.index(blocks), first);
      multiply(
          {b.mul(slot, groupBlocks), first, b.min(left, b.index(groupBlocks))});
    });
  });
}

void AmxProduct::multiply(Value a) {
  packed = a;
  int64_t together = c.experts ? kMostSlots * groupBlocks : blocks;
  bool buffered = slices > 1 || copies;
  if (buffered)
    together = std::min(together, kMostBlocks);
  IntegerAttr line = b.getI64IntegerAttr(64);
  if (slices > 1)
    sums = b.create<memref::AllocOp>(sumsType(together, maxPanels), line);
  if (copies)
    copied =
        b.create<memref::AllocOp>(tilesType({together, sliceSteps, 2}), line);
  if (c.experts)
    return multiplyExperts();
  if (together == blocks)
    return multiplyShared(b.index(0), b.index(blocks));
  b.loop(b.index(0), b.index(blocks), together, [&](Value first) {
    multiplyShared(first,
                   b.min(b.index(together), b.sub(b.index(blocks), first)));
  });
}

PackedRows cria::packTiles(VectorBuilder &b, const Contraction &c,
                           int64_t maxRows, Value rows) {
  return {AmxProduct(b, c, maxRows).pack(rows)};
}

void cria::emitTiles(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                     const PackedRows &packed) {
  AmxProduct(b, c, maxRows).multiply(packed[0]);
}
