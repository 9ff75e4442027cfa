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
///
/// With few rows of a and long rows of b, the time is that of reading b, which
/// is then read as it lies in memory, some rows at a time:
///
///   for blocks of k:
///     for blocks of vectors n: c += the products of all m and of these k
///
/// Pairs of bf16 are multiplied at once if there are enough rows of a that
/// packing b takes little of the time:
///
///   paired[k / 2][n][2] = b[k, n]   (and so a, if it is (k, m))
///   acc[r][v] += splat(a[m + r, k and k + 1]) * paired[k / 2, n + v lanes]
#include "lowering/cpu/Contraction.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <numeric>

using namespace mlir;
using namespace cria;

namespace {
/// A product, maybe of pairs: then k counts pairs, whose elements are adjacent
/// in rows of b, and in rows of a.
struct Product : Contraction {
  bool ofPairs = false;

  int64_t steps() const { return cast<MemRefType>(b.getType()).getDimSize(0); }
};

struct Tile {
  Value row, column;
  int64_t rows, vectors, lanes;
};
} // namespace

/// The least rows of a for which pairs are packed, and the most elements of a
/// packed matrix, which is on the stack.
static constexpr int64_t kLeastPaired = 16, kMostPaired = 128 << 10;

/// The accumulators that keep the multipliers of a CPU busy: its two units
/// begin a sum each cycle, and a sum takes four.
static constexpr int64_t kSums = 8;

/// How many k a tile adds at once. Where it adds to earlier sums, as attention
/// does block by block, all tiles add in the same order, one k after the other:
/// a row's sums then do not depend on the rows in its tile.
static int64_t partsOf(const Product &c, const Tile &tile) {
  int64_t parts = 1;
  while (c.fromZero && 2 * parts * tile.rows * tile.vectors <= kSums &&
         c.steps() % (2 * parts) == 0)
    parts *= 2;
  return parts;
}

/// The place in c of each vector of a tile: row after row.
static SmallVector<std::array<Value, 2>> placesOf(VectorBuilder &b,
                                                  const Tile &tile) {
  SmallVector<std::array<Value, 2>> places;
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t v = 0; v < tile.vectors; ++v)
      places.push_back(
          {b.add(tile.row, r), b.add(tile.column, v * tile.lanes)});
  return places;
}

/// Adds the products of one k to a tile's sums, and appends them to `next`.
static void addProducts(VectorBuilder &b, const Product &c, const Tile &tile,
                        Value k, ValueRange sums, SmallVector<Value> &next) {
  SmallVector<Value> columns;
  for (int64_t v = 0; v < tile.vectors; ++v) {
    Value column = b.add(tile.column, v * tile.lanes);
    columns.push_back(c.ofPairs
                          ? b.load(c.b, {k, b.mul(column, 2)}, 2 * tile.lanes)
                          : b.loadWide(c.b, {k, column}, tile.lanes));
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    SmallVector<Value> at = {b.add(tile.row, r), k};
    if (c.aTransposed)
      std::swap(at[0], at[1]);
    if (c.ofPairs) // each row of the matrix has pairs
      at[1] = b.mul(at[1], 2);
    Value a = c.ofPairs ? b.repeated(c.a, at, 2, 2 * tile.lanes)
                        : b.splat(c.a, at, tile.lanes);
    for (int64_t v = 0; v < tile.vectors; ++v) {
      Value sum = sums[r * tile.vectors + v];
      next.push_back(c.ofPairs ? b.dotPairs(columns[v], a, sum)
                               : b.fma(a, columns[v], sum));
    }
  }
}

static void emitTile(VectorBuilder &b, const Product &c, Tile tile) {
  int64_t parts = partsOf(c, tile), sums = tile.rows * tile.vectors;
  auto places = placesOf(b, tile);
  SmallVector<Value> acc;
  for (int64_t i = 0; i < parts * sums; ++i)
    acc.push_back(c.fromZero || i >= sums ? b.zero(tile.lanes)
                                          : b.load(c.c, places[i], tile.lanes));
  acc = b.loop(b.index(0), b.index(c.steps()), parts, acc,
               [&](Value first, ValueRange all) {
                 SmallVector<Value> next;
                 for (int64_t part = 0; part < parts; ++part)
                   addProducts(b, c, tile, b.add(first, part),
                               all.slice(part * sums, sums), next);
                 return next;
               });
  for (; parts > 1; parts /= 2)
    for (int64_t i = 0; i < parts / 2 * sums; ++i)
      acc[i] = arith::AddFOp::create(b, acc[i], acc[parts / 2 * sums + i]);
  for (int64_t i = 0; i < sums; ++i)
    b.store(acc[i], c.c, places[i]);
}

/// Multiplies all rows of a band of columns.
static void emitBand(VectorBuilder &b, const Product &c, Value column,
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

/// Calls `body(column, vectors, lanes)` for bands of all columns: of `most`
/// vectors, then of one band of fewer, then of one narrower vector.
static void forBands(VectorBuilder &b, const Product &c, int64_t most,
                     function_ref<void(Value, int64_t, int64_t)> body) {
  int64_t lanes = b.unit.lanes, n = c.n(), wide = n - n % (lanes * most);
  if (wide)
    b.loop(b.index(0), b.index(wide), lanes * most,
           [&](Value column) { body(column, most, lanes); });
  int64_t left = (n - wide) / lanes, done = wide + left * lanes;
  if (left)
    body(b.index(wide), left, lanes);
  if (done < n)
    body(b.index(done), 1, n - done);
}

/// The rows of b that are read together.
static constexpr int64_t kRowsOfB = 8;

/// Multiplies a few rows of a, all in one tile of at most `most` vectors.
static void emitInOrder(VectorBuilder &b, const Product &c, int64_t most) {
  int64_t together = std::gcd(c.k(), kRowsOfB),
          bytes = c.bType().getIntOrFloatBitWidth() / 8;
  auto forTiles = [&](function_ref<void(const Tile &)> body) {
    forBands(b, c, most, [&](Value column, int64_t vectors, int64_t lanes) {
      body({b.index(0), column, c.m(), vectors, lanes});
    });
  };
  if (c.fromZero)
    forTiles([&](const Tile &tile) {
      for (const auto &place : placesOf(b, tile))
        b.store(b.zero(tile.lanes), c.c, place);
    });
  b.loop(b.index(0), b.index(c.k()), together, [&](Value first) {
    forTiles([&](const Tile &tile) {
      auto places = placesOf(b, tile);
      SmallVector<Value> sums;
      for (const auto &place : places)
        sums.push_back(b.load(c.c, place, tile.lanes));
      for (int64_t i = 0; i < together; ++i) {
        Value k = b.add(first, i);
        // The rows that are read next. After the last the address is outside of
        // b, which does no harm.
        for (int64_t at = 0; at < tile.vectors * tile.lanes * bytes; at += 64)
          b.prefetch(c.b, {b.add(k, together), b.add(tile.column, at / bytes)},
                     /*level=*/1);
        SmallVector<Value> next;
        addProducts(b, c, tile, k, sums, next);
        sums = std::move(next);
      }
      for (auto [sum, place] : llvm::zip(sums, places))
        b.store(sum, c.c, place);
    });
  });
}

/// Whether the rows of a matrix (K, N) can be packed in pairs.
static bool canPair(VectorBuilder &b, Value matrix) {
  ArrayRef<int64_t> shape = cast<MemRefType>(matrix.getType()).getShape();
  return shape[0] % 2 == 0 && shape[1] % b.unit.lanes == 0 &&
         shape[0] * shape[1] <= kMostPaired;
}

/// Packs pairs of rows of a matrix (K, N): (K / 2, 2 N).
static Value paired(VectorBuilder &b, Value matrix) {
  auto type = cast<MemRefType>(matrix.getType());
  int64_t rows = type.getDimSize(0) / 2, columns = type.getDimSize(1),
          lanes = b.unit.lanes;
  Value packed = b.create<memref::AllocaOp>(
      MemRefType::get({rows, 2 * columns}, type.getElementType()),
      b.getI64IntegerAttr(64));
  b.loop(b.index(0), b.index(rows), 1, [&](Value row) {
    b.loop(b.index(0), b.index(columns), lanes, [&](Value column) {
      b.store(b.pairedRows(matrix, b.mul(row, 2), column, lanes), packed,
              {row, b.mul(column, 2)});
    });
  });
  return packed;
}

void cria::emitOuter(VectorBuilder &b, const Contraction &contraction) {
  Product c{contraction};
  if (!c.m())
    return;
  c.ofPairs = c.hasPairs(b.unit) && c.m() >= kLeastPaired && canPair(b, c.b) &&
              (!c.aTransposed || canPair(b, c.a));
  if (c.ofPairs) {
    c.b = paired(b, c.b);
    if (c.aTransposed)
      c.a = paired(b, c.a);
  }
  // Half of the registers are accumulators, of two vectors or more of all rows.
  int64_t wide = std::min(b.unit.registers / 2 / c.m(), c.n() / b.unit.lanes);
  if (wide >= 2 && wide * c.m() >= kSums)
    return emitInOrder(b, c, wide);
  forBands(b, c, b.unit.registers == 32 ? 4 : 2,
           [&](Value column, int64_t vectors, int64_t lanes) {
             emitBand(b, c, column, vectors, lanes);
           });
}
