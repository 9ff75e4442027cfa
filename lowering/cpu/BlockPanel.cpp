/// c[m, n] += sum of blocks b of scales(x[m], b) * scales(w[n], b) *
///                                (x[m, b] . w[n, b])
///
/// for many rows m, a row in each lane:
///
///   pack x: codes[panel][b][step][lane][k of a step], scales[panel][b][lane]
///   for groups of rows n of w, in parallel:
///     copy the group's integers, its scales as f32
///     for V panels, blocks of R rows:
///       for b:
///         sums[r][v] = first[v][b], for steps of k:
///         sums[r][v] += splat(w[n, b, step]) * codes[v][b][step]
///         acc[r][v]  += float(sums[r][v]) * (scale of w * scales[v][b])
///       c[m, n] = acc
///
/// A step is four k if the CPU multiplies bytes. The instruction multiplies
/// unsigned by signed bytes, so an offset is added to w. The sums begin with
/// the negative of what the offset adds, which depends on x alone. Without such
/// an instruction a step is two k of 16 bits; if weights have four bits, a step
/// is four k of bytes, a lane has two sums of 16 bits, and the two are added
/// once for each block. Arm's instruction multiplies signed bytes and needs no
/// offset; with its smmla a step is eight k, and two rows of w, which are
/// adjacent in the copy, meet two lanes. With AMX, 16 rows of a block of w are
/// one tile, and a panel's block is the other; both are signed, and the product
/// is written to memory before it is converted to floats. Sums of integers are
/// exact; the sum of a block of 32 is converted to a float once.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

static constexpr int64_t kNumbers = BlockProduct::kNumbers;
/// The most bytes of a group's copy, so that the copy and the panels stay in
/// the L2 cache.
static constexpr int64_t kGroupBytes = 256 << 10;
/// The most rows of a group. A group has fewer rows if a thread has fewer:
/// threads share units of as many rows as 12 or more.
static constexpr int64_t kMostGroupRows = 48, kUnitRows = 12;
/// With experts, the groups of each expert's rows, or more.
static constexpr int64_t kGroups = 32;
/// The number of blocks that are copied at a time.
static constexpr int64_t kCopied = 8;
/// Rows of a tile.
static constexpr int64_t kTile = 16;

namespace {
/// How a CPU multiplies integers.
struct Integers {
  /// `bits`: of a weight.
  Integers(const VectorUnit &unit, int64_t bits)
      : tiles(unit.amxBytes), rowPairs(unit.mmlaBytes),
        shortSums(!tiles && !unit.dotBytes && bits == 4),
        bytes(tiles || unit.dotBytes || shortSums),
        hasOffset(bytes && !tiles && !unit.neon), step(rowPairs ? 8
                                                       : bytes  ? 4
                                                                : 2),
        steps(kNumbers / step) {}

  bool tiles, rowPairs;
  /// Sums of a block have 16 bits. Each adds 16 products of at most 15 * 128,
  /// less than 32,768 in all.
  bool shortSums;
  bool bytes;
  bool hasOffset; // an offset makes the integers of w unsigned
  int64_t step;   // k that share a lane
  int64_t steps;  // steps of a block
  Type type(OpBuilder &b) const {
    return bytes ? b.getI8Type() : b.getI16Type();
  }
};

class BlockPanelProduct {
public:
  BlockPanelProduct(VectorBuilder &b, const BlockProduct &product,
                    const BlockPanels &packed, bool fromZero,
                    const ExpertRows *experts);
  void multiply();

private:
  Value splat(Value x) {
    return b.create<vector::BroadcastOp>(b.vectorType(lanes, x.getType()), x);
  }
  void copyRow(Value r, Value n);
  void group(Value n, Value count);
  void tile(Value n, Value r, Value count, Value panel, int64_t vectors);
  SmallVector<Value> block(Value r, Value panel, int64_t vectors, Value index,
                           ValueRange acc);
  SmallVector<Value> sumsOf(Value r, Value panel, int64_t vectors, Value index);
  SmallVector<Value> tileOf(Value r, Value panel, Value index);
  SmallVector<Value> sumsOfPairs(Value r, Value panel, int64_t vectors,
                                 Value index);
  Value wordOf(Value row, Value index, int64_t step);
  void store(Value n, Value r, Value count, Value panel, int64_t vectors,
             ValueRange acc);

  Value panelAt(Value panel, int64_t v) {
    return b.add(b.add(firstPanel, panel), v);
  }

  VectorBuilder &b;
  BlockProduct product; // with experts, of one part
  const BlockPanels &packed;
  bool fromZero;
  const ExpertRows *experts;
  Integers integers;
  int64_t lanes, vectors, blockRows, unit, groupRows, blocks;
  /// The rows, their panels, and the first place of both.
  Value rows, panels, firstRow, firstPanel;
  /// Buffers of a group: the integers and the scales of w, a product of tiles,
  /// and a tile of c.
  Value codes, scales, tileSums, sums;
};
} // namespace

/// Rows of a panel past the last row are not written: their sums are dropped.
BlockPanels cria::packBlocks(VectorBuilder &b, const BlockProduct &product,
                             Value rows, int64_t maxRows,
                             const ExpertRows *experts) {
  Integers integers(b.unit, product.bits);
  int64_t lanes = b.unit.lanes, blocks = product.blocks();
  int64_t panels =
      experts ? experts->maxPlaces() / lanes : llvm::divideCeil(maxRows, lanes);
  auto allocate = [&](ArrayRef<int64_t> shape, Type type) -> Value {
    return b.create<memref::AllocOp>(MemRefType::get(shape, type),
                                     b.getI64IntegerAttr(64));
  };
  BlockPanels packed = {
      allocate({panels, blocks, integers.steps, lanes * integers.step},
               integers.type(b)),
      allocate({panels, blocks, lanes}, b.getF32Type()), Value()};
  if (integers.hasOffset)
    packed.first = allocate({panels, blocks, lanes}, b.getI32Type());
  VectorType step = b.vectorType(integers.step, integers.type(b));
  b.parallel(b.ceilDiv(rows, lanes), [&](Value panel) {
    Value begin = b.mul(panel, lanes);
    Value end = b.min(b.index(lanes), b.sub(rows, begin));
    auto pack = [&](Value lane, ArrayRef<Value> row) {
      auto at = [&](std::initializer_list<Value> inner) {
        SmallVector<Value> indices(row);
        indices.append(inner);
        return indices;
      };
      b.loop(b.index(0), b.index(blocks), 1, [&](Value block) {
        for (int64_t i = 0; i < integers.steps; ++i) {
          Value x =
              b.load(product.codes, at({block, b.index(i * integers.step)}),
                     integers.step);
          if (!integers.bytes)
            x = b.create<arith::ExtSIOp>(step, x);
          b.store(x, packed.codes,
                  {panel, block, b.index(i), b.mul(lane, integers.step)});
        }
        Value scale = b.create<memref::LoadOp>(product.scales, at({block}));
        b.create<memref::StoreOp>(
            b.create<arith::ExtFOp>(b.getF32Type(), scale), packed.scales,
            ValueRange{panel, block, lane});
        if (!integers.hasOffset)
          return;
        Value codes = b.create<arith::ExtSIOp>(
            b.vectorType(kNumbers, b.getI16Type()),
            b.load(product.codes, at({block, b.index(0)}), kNumbers));
        // The absolute value of the sum is at most 32 * 128.
        Value sum = b.create<arith::ExtSIOp>(
            b.getI32Type(),
            b.create<vector::ReductionOp>(vector::CombiningKind::ADD, codes));
        Value offset = b.create<arith::ConstantOp>(
            b.getI32IntegerAttr(static_cast<int32_t>(-offsetOf(product))));
        b.create<memref::StoreOp>(b.create<arith::MulIOp>(sum, offset),
                                  packed.first, ValueRange{panel, block, lane});
      });
    };
    bool ofExperts = product.type(product.scales).getRank() == 3;
    b.loop(b.index(0), end, 1, [&](Value lane) {
      Value row = b.add(begin, lane);
      if (!experts)
        return pack(lane, row);
      row = experts->rowAt(b, row);
      b.when(b.less(b.index(-1), row),
             [&] { pack(lane, experts->indices(b, row, ofExperts)); });
    });
  });
  return packed;
}

BlockPanelProduct::BlockPanelProduct(VectorBuilder &b,
                                     const BlockProduct &product,
                                     const BlockPanels &packed, bool fromZero,
                                     const ExpertRows *experts)
    : b(b), product(product), packed(packed), fromZero(fromZero),
      experts(experts), integers(b.unit, product.bits), lanes(b.unit.lanes),
      vectors(2), blockRows(6), blocks(product.blocks()) {
  // 6 x 2 accumulators of 32 registers, or of 16 registers 2 x 2, with sums of
  // 16 bits 6 x 1. An accumulator is a vector of integers and one of floats.
  // Rows and a splat need registers, too.
  bool few = b.unit.registers < 32;
  if (integers.tiles)
    blockRows = kTile;
  else if (few && !integers.shortSums)
    blockRows = 2;
  if (integers.tiles || (few && integers.shortSums))
    vectors = 1;
  int64_t copied =
      blocks * kNumbers * integers.type(b).getIntOrFloatBitWidth() / 8;
  int64_t most = std::clamp(kGroupBytes / copied, int64_t(1), kMostGroupRows);
  unit = llvm::alignTo(kUnitRows, blockRows);
  if (experts) {
    unit = blockRows;
    most =
        std::min<int64_t>(most, llvm::divideCeil(product.columns(), kGroups));
  }
  groupRows = llvm::alignTo(std::min(most, product.columns()), unit);
  rows = b.size(product.out, 0);
  panels = b.ceilDiv(rows, lanes);
  firstRow = firstPanel = b.index(0);
}

/// Copies row n of w to row r of the group.
void BlockPanelProduct::copyRow(Value r, Value n) {
  auto copy = [&](Value block, int64_t count) {
    fetchBlocksAhead(b, product, n, block, count);
    for (int64_t i = 0; i < count; ++i) {
      Value code =
          loadCodes(b, product, n, b.add(block, i), !integers.hasOffset);
      if (!integers.bytes)
        code = b.create<arith::ExtSIOp>(
            b.vectorType(kNumbers, integers.type(b)), code);
      Value at = b.mul(b.add(block, i), kNumbers);
      if (!integers.rowPairs) {
        b.store(code, codes, {r, at});
        continue;
      }
      // codes[r / 2][k / 8][r % 2][8]
      for (int64_t k = 0; k < kNumbers; k += integers.step) {
        Value part = b.create<vector::ExtractStridedSliceOp>(
            code, ArrayRef<int64_t>{k}, ArrayRef<int64_t>{integers.step},
            ArrayRef<int64_t>{1});
        Value place =
            b.add(b.mul(b.add(at, k), 2), b.mul(b.rem(r, 2), integers.step));
        b.store(part, codes, {b.div(r, 2), place});
      }
    }
    b.store(loadScales(b, product, n, block, count), scales, {r, block});
  };
  int64_t whole = blocks - blocks % kCopied;
  b.loop(b.index(0), b.index(whole), kCopied,
         [&](Value block) { copy(block, kCopied); });
  if (whole < blocks)
    copy(b.index(whole), blocks - whole);
}

Value cria::sumsOfTwo(VectorBuilder &b, Value x, Value w) {
  int64_t lanes = cast<VectorType>(x.getType()).getDimSize(0) / 2;
  return b.intrinsic(lanes == 16 ? "llvm.x86.avx512.pmaddw.d.512"
                                 : "llvm.x86.avx2.pmadd.wd",
                     b.vectorType(lanes, b.getI32Type()), {x, w});
}

Value cria::addProducts(VectorBuilder &b, Value sum, Value w, Value x) {
  if (getElementTypeOrSelf(sum.getType()).isInteger(32))
    return b.dotBytes(w, x, sum);
  int64_t lanes = cast<VectorType>(sum.getType()).getDimSize(0) / 2;
  return b.create<arith::AddIOp>(
      sum, b.intrinsic(lanes == 16 ? "llvm.x86.avx512.pmaddubs.w.512"
                                   : "llvm.x86.avx2.pmadd.ub.sw",
                       sum.getType(), {w, x}));
}

/// The integer sums of a block of k, by AMX: 16 rows times a panel.
SmallVector<Value> BlockPanelProduct::tileOf(Value r, Value panel,
                                             Value index) {
  Type i8 = b.getI8Type();
  auto sumsType = amx::TileType::get({kTile, lanes}, b.getI32Type());
  Value w =
      b.create<amx::TileLoadOp>(amx::TileType::get({kTile, kNumbers}, i8),
                                codes, ValueRange{r, b.mul(index, kNumbers)});
  Value x = b.create<amx::TileLoadOp>(
      amx::TileType::get({integers.steps, lanes * integers.step}, i8),
      packed.codes,
      ValueRange{panelAt(panel, 0), index, b.index(0), b.index(0)});
  Value zero = b.create<amx::TileZeroOp>(sumsType);
  b.create<amx::TileStoreOp>(
      tileSums, ValueRange{b.index(0), b.index(0)},
      b.create<amx::TileMulIOp>(sumsType, w, x, zero, false, false));
  SmallVector<Value> rows;
  for (int64_t i = 0; i < kTile; ++i)
    rows.push_back(b.load(tileSums, {b.index(i), b.index(0)}, lanes));
  return rows;
}

/// The integer sums of a block of k, of pairs of rows.
SmallVector<Value> BlockPanelProduct::sumsOfPairs(Value r, Value panel,
                                                  int64_t vectors,
                                                  Value index) {
  int64_t pair = 2 * integers.step;
  Value zero = b.create<arith::ConstantOp>(
      b.getZeroAttr(b.vectorType(lanes, b.getI32Type())));
  SmallVector<Value> sums(blockRows * vectors, zero);
  Value row = b.div(r, 2);
  for (int64_t k = 0; k < integers.steps; ++k) {
    SmallVector<Value> xs; // two lanes of each
    for (int64_t lane = 0; lane < lanes; lane += 2)
      for (int64_t v = 0; v < vectors; ++v)
        xs.push_back(b.load(packed.codes,
                            {panelAt(panel, v), index, b.index(k),
                             b.index(lane * integers.step)},
                            pair));
    for (int64_t i = 0; i < blockRows / 2; ++i) {
      Value at = b.add(b.mul(index, 2 * kNumbers), k * pair);
      Value w = b.load(codes, {b.add(row, i), at}, pair);
      for (auto [j, x] : llvm::enumerate(xs)) {
        Value &sum = sums[2 * i * vectors + j];
        sum = b.multiplyRows(w, x, sum);
      }
    }
  }
  for (int64_t i = 0; i < blockRows; i += 2)
    for (int64_t v = 0; v < vectors; ++v) {
      Value &upper = sums[i * vectors + v],
            &lower = sums[(i + 1) * vectors + v];
      std::tie(upper, lower) = b.swappedHalves(upper, lower);
    }
  return sums;
}

/// The integers of a step of a row of w, in every lane. On Arm four steps are
/// loaded at once, and each is broadcast from its lane.
Value BlockPanelProduct::wordOf(Value row, Value index, int64_t step) {
  int64_t count = b.unit.neon ? 4 : 1, lane = step % count;
  Value at = b.add(b.mul(index, kNumbers), (step - lane) * integers.step);
  Value words = b.create<vector::BitCastOp>(
      b.vectorType(count, b.getI32Type()),
      b.load(codes, {row, at}, count * integers.step));
  if (b.unit.neon)
    return b.create<vector::ShuffleOp>(words, words,
                                       SmallVector<int64_t>(lanes, lane));
  return splat(b.create<vector::ExtractOp>(words, 0));
}

/// The integer sums of a block of k.
SmallVector<Value> BlockPanelProduct::sumsOf(Value r, Value panel,
                                             int64_t vectors, Value index) {
  int64_t width = lanes * integers.step;
  VectorType step = b.vectorType(width, integers.type(b));
  VectorType sumType = integers.shortSums
                           ? b.vectorType(2 * lanes, b.getI16Type())
                           : b.vectorType(lanes, b.getI32Type());
  Value zero = b.create<arith::ConstantOp>(b.getZeroAttr(sumType));
  SmallVector<Value> sums(blockRows * vectors, zero);
  auto firstOf = [&](int64_t i) {
    return b.load(packed.first,
                  {panelAt(panel, i % vectors), index, b.index(0)}, lanes);
  };
  if (integers.hasOffset && !integers.shortSums)
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = firstOf(i);
  for (int64_t k = 0; k < integers.steps; ++k) {
    SmallVector<Value> xs;
    for (int64_t v = 0; v < vectors; ++v)
      xs.push_back(b.load(packed.codes,
                          {panelAt(panel, v), index, b.index(k), b.index(0)},
                          width));
    for (int64_t i = 0; i < blockRows; ++i) {
      Value w =
          b.create<vector::BitCastOp>(step, wordOf(b.add(r, i), index, k));
      for (int64_t v = 0; v < vectors; ++v) {
        Value &sum = sums[i * vectors + v];
        sum = integers.bytes
                  ? addProducts(b, sum, w, xs[v])
                  : b.create<arith::AddIOp>(sum, sumsOfTwo(b, xs[v], w));
      }
    }
  }
  if (integers.shortSums) {
    Value ones = b.create<arith::ConstantOp>(
        DenseElementsAttr::get(sumType, b.getI16IntegerAttr(1)));
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = b.create<arith::AddIOp>(firstOf(i), sumsOfTwo(b, sum, ones));
  }
  return sums;
}

/// Adds a block of k to the accumulators.
SmallVector<Value> BlockPanelProduct::block(Value r, Value panel,
                                            int64_t vectors, Value index,
                                            ValueRange acc) {
  SmallVector<Value> next,
      integerSums = integers.tiles      ? tileOf(r, panel, index)
                    : integers.rowPairs ? sumsOfPairs(r, panel, vectors, index)
                                        : sumsOf(r, panel, vectors, index);
  VectorType floats = b.vectorType(lanes, b.getF32Type());
  for (int64_t i = 0; i < blockRows; ++i) {
    Value scale =
        splat(b.create<memref::LoadOp>(scales, ValueRange{b.add(r, i), index}));
    for (int64_t v = 0; v < vectors; ++v) {
      Value x =
          b.load(packed.scales, {panelAt(panel, v), index, b.index(0)}, lanes);
      int64_t at = i * vectors + v;
      Value sum = b.create<arith::SIToFPOp>(floats, integerSums[at]);
      next.push_back(b.fma(sum, b.create<arith::MulFOp>(scale, x), acc[at]));
    }
  }
  return next;
}

/// Stores a tile to c[m, n + i], without the rows past the last.
void BlockPanelProduct::store(Value n, Value r, Value count, Value panel,
                              int64_t vectors, ValueRange acc) {
  for (int64_t i = 0; i < blockRows; ++i)
    for (int64_t v = 0; v < vectors; ++v)
      b.store(acc[i * vectors + v], sums, {b.index(i), b.index(v * lanes)});
  Value begin = b.mul(panel, lanes);
  Value end = b.min(b.index(vectors * lanes), b.sub(rows, begin));
  Value columns = b.min(b.index(blockRows), b.sub(count, r));
  b.loop(b.index(0), end, 1, [&](Value m) {
    SmallVector<Value> row = {b.add(begin, m)};
    if (experts)
      row = experts->indices(b, experts->rowAt(b, b.add(firstRow, row[0])),
                             /*ofExperts=*/true);
    b.loop(b.index(0), columns, 1, [&](Value i) {
      Value sum = b.create<memref::LoadOp>(sums, ValueRange{i, m});
      SmallVector<Value> at = row;
      at.push_back(b.add(n, b.add(r, i)));
      if (!fromZero)
        sum = b.create<arith::AddFOp>(
            sum, b.create<memref::LoadOp>(product.out, at));
      b.create<memref::StoreOp>(sum, product.out, at);
    });
  });
}

/// Multiplies rows [r, r + R) of the group with some panels.
void BlockPanelProduct::tile(Value n, Value r, Value count, Value panel,
                             int64_t vectors) {
  SmallVector<Value> acc(blockRows * vectors, b.zero(lanes));
  acc = b.loop(b.index(0), b.index(blocks), 1, acc,
               [&](Value index, ValueRange carried) {
                 return block(r, panel, vectors, index, carried);
               });
  store(n, r, count, panel, vectors, acc);
}

/// Multiplies rows [n, n + count) of w with all panels.
void BlockPanelProduct::group(Value n, Value count) {
  int64_t together = integers.rowPairs ? 2 : 1; // rows
  codes = b.scratch({groupRows / together, blocks * kNumbers * together},
                    integers.type(b));
  scales = b.scratch({groupRows, blocks}, b.getF32Type());
  sums = b.scratch({blockRows, vectors * lanes}, b.getF32Type());
  if (integers.tiles)
    tileSums = b.scratch({kTile, lanes}, b.getI32Type());
  // The last block is padded with copies of the last row.
  Value end = b.mul(b.ceilDiv(count, blockRows), blockRows);
  b.loop(b.index(0), end, 1, [&](Value r) {
    copyRow(r, b.add(n, b.min(r, b.sub(count, b.index(1)))));
  });
  Value done = b.index(0);
  for (int64_t width = vectors; width; width /= 2) {
    end = b.mul(b.div(panels, width), width);
    b.loop(done, end, width, [&](Value panel) {
      b.loop(b.index(0), count, blockRows,
             [&](Value r) { tile(n, r, count, panel, width); });
    });
    done = end;
  }
}

void BlockPanelProduct::multiply() {
  int64_t columns = product.columns();
  int64_t groups = llvm::divideCeil(columns, groupRows);
  auto multiplyRows = [&](Value n, Value count) {
    group(n, b.min(count, b.sub(b.index(columns), n)));
  };
  if (!experts)
    return b.parallelRanges(b.index(llvm::divideCeil(columns, unit)),
                            groupRows / unit, [&](Value first, Value units) {
                              multiplyRows(b.mul(first, unit),
                                           b.mul(units, unit));
                            });
  Value matrices = product.weights;
  b.parallel(b.mul(experts->count, groups), [&](Value i) {
    ExpertPart part(b, *experts, matrices, b.div(i, groups));
    product.weights = part.matrix;
    firstRow = part.begin;
    rows = b.sub(part.end, part.begin);
    panels = b.ceilDiv(rows, lanes);
    firstPanel = b.div(firstRow, lanes);
    multiplyRows(b.mul(b.rem(i, groups), groupRows), b.index(groupRows));
  });
}

void cria::emitBlockPanel(VectorBuilder &b, const BlockProduct &product,
                          const BlockPanels &packed, bool fromZero,
                          const ExpertRows *experts) {
  BlockPanelProduct(b, product, packed, fromZero, experts).multiply();
}
