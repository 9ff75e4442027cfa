/// c[m, n] += a[m, k] * b[k, n], vectors along n:
///
///   for blocks of rows m, blocks of vectors n:
///     acc[r][v] = c
///     for k: acc[r][v] += splat(a[m + r, k]) * b[k, n + v lanes]
///     c = acc
///
/// Accumulators stay in registers over all of k. Where a tile has few of them,
/// they would wait for one another: then some k are added at once, each to
/// accumulators of its own. The last vector of a row may be narrower: if its
/// width is not that of a register, LLVM splits it.
#include "lowering/cpu/Contraction.h"

using namespace mlir;
using namespace cria;

namespace {
struct Tile {
  Value row, column;
  int64_t rows, vectors, lanes;
};
} // namespace

/// The accumulators that keep the multipliers of a CPU busy: its two units
/// begin a sum each cycle, and a sum takes four.
static constexpr int64_t kSums = 8;

/// How many k a tile adds at once. Where it adds to earlier sums, as attention
/// does block by block, all tiles add in the same order, one k after the other:
/// a row's sums then do not depend on the rows in its tile.
static int64_t partsOf(const Contraction &c, const Tile &tile) {
  int64_t parts = 1;
  while (c.fromZero && 2 * parts * tile.rows * tile.vectors <= kSums &&
         c.k() % (2 * parts) == 0)
    parts *= 2;
  return parts;
}

static void emitTile(VectorBuilder &b, const Contraction &c, Tile tile) {
  auto row = [&](int64_t r) { return b.add(tile.row, r); };
  auto column = [&](int64_t v) { return b.add(tile.column, v * tile.lanes); };
  int64_t parts = partsOf(c, tile), sums = tile.rows * tile.vectors;
  SmallVector<Value> acc;
  for (int64_t i = 0; i < parts * sums; ++i)
    acc.push_back(
        c.fromZero || i >= sums
            ? b.zero(tile.lanes)
            : b.load(c.c, {row(i / tile.vectors), column(i % tile.vectors)},
                     tile.lanes));
  acc = b.loop(
      b.index(0), b.index(c.k()), parts, acc, [&](Value first, ValueRange sum) {
        SmallVector<Value> next;
        for (int64_t part = 0; part < parts; ++part) {
          Value k = b.add(first, part);
          SmallVector<Value> columns;
          for (int64_t v = 0; v < tile.vectors; ++v)
            columns.push_back(b.loadWide(c.b, {k, column(v)}, tile.lanes));
          for (int64_t r = 0; r < tile.rows; ++r) {
            SmallVector<Value> at = {row(r), k};
            if (c.aTransposed)
              std::swap(at[0], at[1]);
            Value a = b.splat(c.a, at, tile.lanes);
            for (Value each : columns)
              next.push_back(b.fma(a, each, sum[next.size()]));
          }
        }
        return next;
      });
  for (; parts > 1; parts /= 2)
    for (int64_t i = 0; i < parts / 2 * sums; ++i)
      acc[i] = arith::AddFOp::create(b, acc[i], acc[parts / 2 * sums + i]);
  for (int64_t i = 0; i < sums; ++i)
    b.store(acc[i], c.c, {row(i / tile.vectors), column(i % tile.vectors)});
}

/// Multiplies all rows of a band of columns.
static void emitBand(VectorBuilder &b, const Contraction &c, Value column,
                     int64_t vectors, int64_t lanes) {
  // At most three quarters of the registers are accumulators. The others hold a
  // row of b and the splat.
  int64_t rows = std::max<int64_t>(1, b.unit.registers * 3 / 4 / vectors);
  int64_t m = c.m(), full = m - m % rows;
  if (full)
    b.loop(b.index(0), b.index(full), rows, [&](Value row) {
      emitTile(b, c, {row, column, rows, vectors, lanes});
    });
  if (m % rows)
    emitTile(b, c, {b.index(full), column, m % rows, vectors, lanes});
}

void cria::emitOuter(VectorBuilder &b, const Contraction &c) {
  int64_t lanes = b.unit.lanes, vectors = b.unit.registers == 32 ? 4 : 2;
  int64_t n = c.n(), done = 0;
  int64_t wide = n - n % (lanes * vectors);
  if (wide)
    b.loop(b.index(0), b.index(wide), lanes * vectors,
           [&](Value column) { emitBand(b, c, column, vectors, lanes); });
  done = wide;
  if (int64_t left = (n - done) / lanes) {
    emitBand(b, c, b.index(done), left, lanes);
    done += left * lanes;
  }
  if (done < n)
    emitBand(b, c, b.index(done), 1, n - done);
}
