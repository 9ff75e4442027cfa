/// c[m, n] += a[m, k] * b[k, n] of bf16 on AMX, with static sizes: the products
/// of attention for a block of keys.
///
///   pack b: packed[n / 16][k / 32][16 pairs of k][16 n][2]
///   (transpose a, if it is (k, m): turned[m / 16][k / 32][16 m][32 k])
///   for blocks of 32 rows m, of 32 columns n:
///     sums[2][2] = c
///     for k by 32: sums[i][j] += a[m + 16 i ...] * packed[j]
///     c = sums
///
/// To transpose a, two bf16 elements of neighbouring k are moved together as
/// one f32.
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
  Value tiles(int64_t count);
  void pack();
  void turn();
  Value left(Value tile, Value step);
  void block(Value row, int64_t rows, Value column, int64_t columns);

  VectorBuilder &b;
  const Contraction &c;
  int64_t steps;
  Value packed, turned;
};
} // namespace

/// Memory for `count` rows of tiles: (count, steps, 16, 32).
Value AmxOuterProduct::tiles(int64_t count) {
  auto type = MemRefType::get({count, steps, kTile, kStep}, b.getBF16Type());
  return b.create<memref::AllocaOp>(type, b.getI64IntegerAttr(64));
}

void AmxOuterProduct::pack() {
  packed = tiles(c.n() / kTile);
  b.loop(b.index(0), b.index(steps), 1, [&](Value step) {
    b.loop(b.index(0), b.index(kTile), 1, [&](Value pair) {
      Value k = b.add(b.mul(step, kStep), b.mul(pair, 2));
      b.loop(b.index(0), b.index(c.n() / kTile), 1, [&](Value tile) {
        b.store(b.pairedRows(c.b, k, b.mul(tile, kTile), kTile), packed,
                {tile, step, pair, b.index(0)});
      });
    });
  });
}

void AmxOuterProduct::turn() {
  turned = tiles(c.m() / kTile);
  b.loop(b.index(0), b.index(c.m() / kTile), 1, [&](Value tile) {
    b.loop(b.index(0), b.index(steps), 1, [&](Value step) {
      SmallVector<Value> rows;
      for (int64_t i = 0; i < kTile; ++i) {
        Value k = b.add(b.mul(step, kStep), 2 * i);
        rows.push_back(b.create<vector::BitCastOp>(
            b.vectorType(kTile, b.getF32Type()),
            b.pairedRows(c.a, k, b.mul(tile, kTile), kTile)));
      }
      for (auto [i, column] : llvm::enumerate(b.transposed(rows))) {
        Value row = b.create<vector::BitCastOp>(
            b.vectorType(kStep, b.getBF16Type()), column);
        b.store(row, turned, {tile, step, b.index(i), b.index(0)});
      }
    });
  });
}

/// A tile of a, of 16 rows and 32 k.
Value AmxOuterProduct::left(Value row, Value step) {
  auto type = amx::TileType::get({kTile, kStep}, b.getBF16Type());
  Value zero = b.index(0);
  if (turned)
    return b.create<amx::TileLoadOp>(
        type, turned, ValueRange{b.div(row, kTile), step, zero, zero});
  return b.create<amx::TileLoadOp>(type, c.a,
                                   ValueRange{row, b.mul(step, kStep)});
}

void AmxOuterProduct::block(Value row, int64_t rows, Value column,
                            int64_t columns) {
  auto sumType = amx::TileType::get({kTile, kTile}, b.getF32Type());
  auto type = amx::TileType::get({kTile, kStep}, b.getBF16Type());
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
    SmallVector<Value> x, y, next;
    for (int64_t i = 0; i < rows; ++i)
      x.push_back(left(b.add(row, i * kTile), step));
    for (int64_t j = 0; j < columns; ++j)
      y.push_back(b.create<amx::TileLoadOp>(
          type, packed,
          ValueRange{b.add(b.div(column, kTile), j), step, zero, zero}));
    for (auto [i, sum] : llvm::enumerate(carried))
      next.push_back(b.create<amx::TileMulFOp>(sumType, x[i / columns],
                                               y[i % columns], sum));
    return next;
  };
  sums = b.loop(zero, b.index(steps), 1, sums, body);
  for (auto [sum, place] : llvm::zip(sums, at))
    b.create<amx::TileStoreOp>(c.c, place, sum);
}

void AmxOuterProduct::multiply() {
  pack();
  if (c.aTransposed)
    turn();
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
  return c.aType().isBF16() && c.bType().isBF16() && c.m() % kTile == 0 &&
         c.n() % kTile == 0 && c.k() % kStep == 0;
}

void cria::emitAmxOuter(VectorBuilder &b, const Contraction &c) {
  AmxOuterProduct(b, c).multiply();
}
