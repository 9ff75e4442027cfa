/// c[m, n] += a[m, k] * b[k, n] of bf16 on AMX, with static sizes: the products
/// of attention for a block of keys, and of recurrences for a chunk of tokens.
///
///   pack b: packed[n / 16][k / 32][16 pairs of k][16 n][2]
///   (pack a, if it is (k, m): [m / 16][k / 32][16 m][16 pairs of k][2])
///   for blocks of 32 rows m, of 32 columns n:
///     sums[2][2] = c
///     for k by 32: sums[i][j] += a[m + 16 i ...] * packed[j]
///     c = sums
///
/// To transpose a, or b if it is (n, k), two elements of neighbouring k are
/// moved together as one f32.
///
/// In parts, a and b are f32 and are both packed, in two parts of bf16. A pair
/// is k and k + 16, whose vectors need no shuffles to become pairs. A step of k
/// has three products. Each shares a factor with the one before, so that no
/// more than eight tiles are in registers.
#include "lowering/cpu/Contraction.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

static constexpr int64_t kTile = 16, kStep = 32;

namespace {
class AmxOuterProduct {
public:
  AmxOuterProduct(VectorBuilder &b, const Contraction &c)
      : b(b), c(c), steps(c.k() / kStep) {}
  void multiply();

private:
  /// A matrix that is multiplied, or its tiles (count, steps, 16, 32), or the
  /// tiles of its high part and of its low part.
  using Parts = SmallVector<Value, 2>;

  Parts split(Value x, Value y);
  Parts pairs(Value matrix, bool alongK, Value first, Value k, Value i);
  Parts pack(Value matrix, int64_t count, bool alongK, bool turned);
  Value load(Value matrix, bool inTiles, Value first, Value step);
  void block(Value row, int64_t rows, Value column, int64_t columns);

  VectorBuilder &b;
  const Contraction &c;
  int64_t steps;
  Parts left, right;
};
} // namespace

/// The parts of numbers x and y, in pairs. Ties are rounded away from zero,
/// which is two instructions and not five: the sums of parts are as near.
AmxOuterProduct::Parts AmxOuterProduct::split(Value x, Value y) {
  Type bits = b.vectorType(kTile, b.getI32Type()),
       floats = b.vectorType(kTile, b.getF32Type()),
       pairs = b.vectorType(kStep, b.getBF16Type());
  auto constant = [&](uint32_t value) {
    return b.create<arith::ConstantOp>(
        DenseElementsAttr::get(cast<ShapedType>(bits), APInt(32, value)));
  };
  Value half = constant(0x8000), mask = constant(0xffff0000),
        width = constant(16);
  auto rounded = [&](Value number) -> Value { // the upper half of the bits
    Value all = b.create<vector::BitCastOp>(bits, number),
          sum = b.create<arith::AddIOp>(all, half);
    return b.create<arith::AndIOp>(sum, mask);
  };
  auto rest = [&](Value number, Value high) -> Value {
    return b.create<arith::SubFOp>(number,
                                   b.create<vector::BitCastOp>(floats, high));
  };
  auto paired = [&](Value first, Value second) -> Value {
    Value low = b.create<arith::ShRUIOp>(first, width);
    return b.create<vector::BitCastOp>(pairs,
                                       b.create<arith::OrIOp>(low, second));
  };
  Value highX = rounded(x), highY = rounded(y);
  return {paired(highX, highY),
          paired(rounded(rest(x, highX)), rounded(rest(y, highY)))};
}

/// 16 pairs of a tile whose first k is `k`: of the row first + i, if rows lie
/// along k, or the pair i of 16 columns from `first` on.
AmxOuterProduct::Parts AmxOuterProduct::pairs(Value matrix, bool alongK,
                                              Value first, Value k, Value i) {
  if (!c.inParts)
    return {alongK ? b.load(matrix, {b.add(first, i), k}, kStep)
                   : b.pairedRows(matrix, b.add(k, b.mul(i, 2)), first, kTile)};
  Value row = alongK ? b.add(first, i) : b.add(k, i),
        column = alongK ? k : first;
  return split(b.load(matrix, {row, column}, kTile),
               alongK ? b.load(matrix, {row, b.add(column, kTile)}, kTile)
                      : b.load(matrix, {b.add(row, kTile), column}, kTile));
}

/// The tiles of a matrix, `count` for each step of k: of pairs as they are, or
/// turned.
AmxOuterProduct::Parts AmxOuterProduct::pack(Value matrix, int64_t count,
                                             bool alongK, bool turned) {
  auto type = MemRefType::get({count, steps, kTile, kStep}, b.getBF16Type());
  Parts packed;
  for (int64_t part = 0; part < (c.inParts ? 2 : 1); ++part)
    packed.push_back(b.create<memref::AllocaOp>(type, b.getI64IntegerAttr(64)));
  auto pairsOf = [&](Value tile, Value step, Value i) {
    return pairs(matrix, alongK, b.mul(tile, kTile), b.mul(step, kStep), i);
  };
  Value zero = b.index(0), end = b.index(count), endOfSteps = b.index(steps);
  if (!turned || c.inParts)
    b.loop(zero, endOfSteps, 1, [&](Value step) {
      b.loop(zero, b.index(kTile), 1, [&](Value i) {
        b.loop(zero, end, 1, [&](Value tile) {
          for (auto [row, tiles] : llvm::zip(pairsOf(tile, step, i), packed))
            b.store(row, tiles, {tile, step, i, zero});
        });
      });
    });
  // Parts are turned where they lie, which is half of the instructions.
  auto turn = [&](Value tiles) {
    b.loop(zero, end, 1, [&](Value tile) {
      b.loop(zero, endOfSteps, 1, [&](Value step) {
        SmallVector<Value> rows;
        for (int64_t i = 0; i < kTile; ++i) {
          Value at = b.index(i);
          Value row = c.inParts ? b.load(tiles, {tile, step, at, zero}, kStep)
                                : pairsOf(tile, step, at).front();
          rows.push_back(b.create<vector::BitCastOp>(
              b.vectorType(kTile, b.getF32Type()), row));
        }
        for (auto [i, column] : llvm::enumerate(b.transposed(rows))) {
          Value row = b.create<vector::BitCastOp>(
              b.vectorType(kStep, b.getBF16Type()), column);
          b.store(row, tiles, {tile, step, b.index(i), zero});
        }
      });
    });
  };
  if (turned)
    llvm::for_each(packed, turn);
  return packed;
}

/// The tile from row or column `first` on.
Value AmxOuterProduct::load(Value matrix, bool inTiles, Value first,
                            Value step) {
  auto type = amx::TileType::get({kTile, kStep}, b.getBF16Type());
  Value zero = b.index(0);
  if (inTiles)
    return b.create<amx::TileLoadOp>(
        type, matrix, ValueRange{b.div(first, kTile), step, zero, zero});
  return b.create<amx::TileLoadOp>(type, matrix,
                                   ValueRange{first, b.mul(step, kStep)});
}

void AmxOuterProduct::block(Value row, int64_t rows, Value column,
                            int64_t columns) {
  auto sumType = amx::TileType::get({kTile, kTile}, b.getF32Type());
  Value zero = b.index(0);
  SmallVector<SmallVector<Value>> at;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      at.push_back({b.add(row, i * kTile), b.add(column, j * kTile)});
  SmallVector<Value> sums;
  for (const SmallVector<Value> &place : at)
    sums.push_back(c.fromZero ? b.create<amx::TileZeroOp>(sumType).getResult()
                              : b.create<amx::TileLoadOp>(sumType, c.c, place));
  auto body = [&](Value step, ValueRange carried) {
    SmallVector<Value> x, y, next(carried);
    auto loadLeft = [&](Value matrix) {
      x.clear();
      for (int64_t i = 0; i < rows; ++i)
        x.push_back(load(matrix, c.aTransposed || c.inParts,
                         b.add(row, i * kTile), step));
    };
    auto loadRight = [&](Value tiles) {
      y.clear();
      for (int64_t j = 0; j < columns; ++j)
        y.push_back(load(tiles, true, b.add(column, j * kTile), step));
    };
    auto add = [&] {
      for (auto [i, sum] : llvm::enumerate(next))
        sum = b.create<amx::TileMulFOp>(sumType, x[i / columns], y[i % columns],
                                        sum);
    };
    loadLeft(left.back());
    loadRight(right.front());
    add();
    if (c.inParts) {
      loadLeft(left.front());
      add();
      loadRight(right.back());
      add();
    }
    return next;
  };
  sums = b.loop(zero, b.index(steps), 1, sums, body);
  for (auto [sum, place] : llvm::zip(sums, at))
    b.create<amx::TileStoreOp>(c.c, place, sum);
}

void AmxOuterProduct::multiply() {
  right = pack(c.b, c.n() / kTile, !c.bOuter, !c.bOuter);
  left = {c.a};
  if (c.aTransposed || c.inParts)
    left = pack(c.a, c.m() / kTile, !c.aTransposed, c.aTransposed);
  // Two tiles at a time, and a single one at the end if the number is odd.
  auto inTwos = [&](int64_t size, auto body) {
    int64_t whole = size - size % kStep;
    if (whole)
      b.loop(b.index(0), b.index(whole), kStep, [&](Value at) { body(at, 2); });
    if (whole < size)
      body(b.index(whole), 1);
  };
  inTwos(c.m(), [&](Value row, int64_t rows) {
    inTwos(c.n(), [&](Value column, int64_t columns) {
      block(row, rows, column, columns);
    });
  });
}

bool cria::fitsAmxOuter(const Contraction &c) {
  auto isOfType = [&](Type type) {
    return c.inParts ? type.isF32() : type.isBF16();
  };
  return isOfType(c.aType()) && isOfType(c.bType()) &&
         cast<MemRefType>(c.a.getType()).isLastDimUnitStride() &&
         !ShapedType::isDynamic(c.m()) && c.m() % kTile == 0 &&
         c.n() % kTile == 0 && c.k() % kStep == 0;
}

void cria::emitAmxOuter(VectorBuilder &b, const Contraction &c) {
  AmxOuterProduct(b, c).multiply();
}
