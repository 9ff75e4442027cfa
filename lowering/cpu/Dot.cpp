/// c[m, n] += sum_k a[m, k] * b[n, k], vectors along k. Nothing is packed: both
/// operands are read in place.
///
///   for rows n of b (R at a time), rows m of a (T at a time):
///     acc[r][t] += b[n + r, k ...] * a[m + t, k ...]
///     c[m + t, n + r] = sum of acc[r][t]
///
/// With one row of a (decode), the time is that of reading b from memory. The
/// fastest order of reading depends on the CPU (VectorUnit::streams): one row
/// of b after the other, or S rows at a time that are far apart. Each of the S
/// rows is then the next row of a stream, and is prefetched:
///
///   for i in N / S, in parallel: rows i, i + N / S, i + 2 N / S, ...
///
/// Rows may also be of several products, of different experts (Experts.cpp).
///
/// Several rows of a share the loads of b. With experts these are rows of one
/// expert, wherever they are in a. If the sums of a row must not depend on the
/// number of rows (`cria.invariant`), all tiles have the same number of sets of
/// accumulators, so an element of k is always added to the same set, in the
/// same turn.
#include "lowering/cpu/Contraction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

/// The sets of accumulators of an invariant tile: enough to hide the latency of
/// the multiplications of one row, and few enough for tiles of several rows.
static constexpr int64_t kInvariantSets = 2;
/// The vectors of a row in one turn of the loop, for tiles with more than one
/// result.
static constexpr int64_t kInvariantTurn = 4;

namespace {
/// A tile of dot products: rows of a, from m on, with columns of c, which are
/// rows of b. Products of several columns have operands of the same types and
/// sizes.
class DotTile {
public:
  DotTile(VectorBuilder &b, ArrayRef<Column> of, Value row, int64_t rows,
          bool streams)
      : b(b), c(*of[0].product), of(of), rows(rows),
        columns(static_cast<int64_t>(of.size())),
        fetches(streams && columns > 1),
        fetchesNext(c.invariant && !streams && columns > 1) {
    for (int64_t r = 0; r < rows; ++r) {
      Value place = c.rowAt(b, b.add(row, r));
      rowsOfA.push_back(c.rowOfA(b, place));
      rowsOfC.push_back(c.rowOfC(b, place));
    }
    bool bf16 = c.aType().isBF16() && c.bType().isBF16();
    pairs = b.unit.dotBf16 && bf16;
    parts = bf16 && !pairs && !b.unit.neon ? 2 : 1;
    width = b.unit.lanes * (pairs ? 2 : parts);
    if (c.invariant) {
      sets = kInvariantSets;
      unroll = rows * columns == 1 ? longTurn() : kInvariantTurn / parts;
      unroll = llvm::alignTo(unroll, sets / parts);
      return;
    }
    unroll = rows * columns == 1 ? longTurn() : fetches ? 4 / parts : 1;
    sets = std::clamp<int64_t>(
        b.unit.registers / (2 * rows * columns), 1,
        std::min<int64_t>(unroll * parts, b.unit.neon ? 8 : 4));
  }
  void emit();

private:
  int64_t longTurn() const;
  SmallVector<Value> load(Value memref, ArrayRef<Value> row, Value k);
  SmallVector<Value> step(Value k, ValueRange acc, int64_t vectors);
  void fetchAhead(const Column &column, Value k);
  void fetchNext(const Column &column, Value k, int64_t vectors);
  Value product(Value x, Value y, Value acc);
  Value tail(Value sum, int64_t row, const Column &column);

  VectorBuilder &b;
  const Contraction &c;
  ArrayRef<Column> of;
  SmallVector<SmallVector<Value>> rowsOfA, rowsOfC; // the indices of each
  int64_t rows, columns;
  /// `fetches`: the tile prefetches the next elements of its own rows.
  /// `fetchesNext`: it prefetches the rows of the next tile.
  bool fetches, fetchesNext, pairs;
  // `width`: the elements that are loaded at once. `parts`: the vectors that
  // they become, two if f32 is made of bf16 in even and in odd places.
  // `unroll`: the loads of a row in one turn of the loop. `sets`: the
  // accumulators of a result, between which the vectors alternate.
  int64_t width, parts, unroll, sets;
};
} // namespace

/// The vectors of a row in one turn of the loop, if nothing is prefetched.
/// Turns are long, because the end of a short loop is often predicted wrongly,
/// and the loads of the next row then wait.
int64_t DotTile::longTurn() const {
  int64_t most = 64 / parts;
  int64_t vectors = std::max<int64_t>(c.k() / width, 1);
  return vectors / llvm::divideCeil(vectors, most);
}

Value DotTile::product(Value x, Value y, Value acc) {
  return pairs ? b.dotPairs(x, y, acc) : b.fma(x, y, acc);
}

/// Prefetches the cache lines of a row that the loop reads some turns later.
/// After the row's end these are lines of the stream's next row.
void DotTile::fetchAhead(const Column &column, Value k) {
  int64_t bytes = c.bType().getIntOrFloatBitWidth() / 8;
  for (int64_t at = 0; at < unroll * width * bytes; at += 64)
    b.prefetch(column.product->b,
               {column.n, b.add(k, (VectorUnit::kBytesAhead + at) / bytes)},
               /*level=*/1);
}

/// Prefetches elements of b for the next tile, while this tile reads `vectors`
/// vectors of a row. After the last row the address is outside of b, which does
/// no harm.
void DotTile::fetchNext(const Column &column, Value k, int64_t vectors) {
  int64_t bytes = c.bType().getIntOrFloatBitWidth() / 8;
  for (int64_t at = 0; at < vectors * width * bytes; at += 64)
    b.prefetch(column.product->b,
               {b.add(column.n, columns), b.add(k, at / bytes)}, /*level=*/2);
}

/// The vectors of the elements of a row from k on.
SmallVector<Value> DotTile::load(Value memref, ArrayRef<Value> row, Value k) {
  SmallVector<Value> at(row);
  at.push_back(k);
  if (parts == 2)
    return llvm::to_vector(b.loadHalves(memref, at));
  return {pairs ? b.load(memref, at, width) : b.loadWide(memref, at, width)};
}

/// Adds the products of some loads of k to the accumulators.
SmallVector<Value> DotTile::step(Value k, ValueRange acc, int64_t vectors) {
  SmallVector<Value> next(acc);
  for (int64_t v = 0; v < vectors; ++v) {
    Value at = b.add(k, v * width), a; // the rows that xs are of
    SmallVector<Value> xs;
    for (int64_t col = 0; col < columns; ++col) {
      const Column &column = of[col];
      if (v == 0 && fetches && vectors == unroll)
        fetchAhead(column, k);
      if (v == 0 && fetchesNext)
        fetchNext(column, k, vectors);
      if (a != column.product->a) {
        a = column.product->a;
        xs.clear();
        for (int64_t r = 0; r < rows; ++r)
          llvm::append_range(xs, load(a, rowsOfA[r], at));
      }
      SmallVector<Value> ws = load(column.product->b, {column.n}, at);
      for (int64_t i = 0; i < rows * parts; ++i) {
        int64_t r = i / parts, part = i % parts,
                set = (v * parts + part) % sets;
        Value &sum = next[(set * columns + col) * rows + r];
        sum = product(ws[part], xs[i], sum);
      }
    }
  }
  return next;
}

/// Adds the last k % width products of one result to its sum.
Value DotTile::tail(Value sum, int64_t row, const Column &column) {
  int64_t left = c.k() % width;
  Value k = b.index(c.k() - left);
  SmallVector<Value> at = rowsOfA[row];
  at.push_back(k);
  Value x = b.loadWide(column.product->a, at, left);
  Value w = b.loadWide(column.product->b, {column.n, k}, left);
  Value products = b.create<arith::MulFOp>(x, w);
  return b.create<vector::ReductionOp>(vector::CombiningKind::ADD, products,
                                       sum, arith::FastMathFlags::reassoc);
}

void DotTile::emit() {
  int64_t sums = rows * columns, stride = width * unroll;
  int64_t main = c.k() - c.k() % stride, whole = c.k() - c.k() % width;
  SmallVector<Value> acc(sums * sets, b.zero(b.unit.lanes));
  if (main)
    acc = b.loop(
        b.index(0), b.index(main), stride, acc,
        [&](Value k, ValueRange carried) { return step(k, carried, unroll); });
  if (int64_t left = (whole - main) / width)
    acc = step(b.index(main), acc, left);
  for (int64_t i = 0; i < sums; ++i) {
    Value vector = acc[i];
    for (int64_t set = 1; set < sets; ++set)
      vector = b.create<arith::AddFOp>(vector, acc[set * sums + i]);
    Value sum = b.create<vector::ReductionOp>(
        vector::CombiningKind::ADD, vector, arith::FastMathFlags::reassoc);
    int64_t row = i % rows;
    const Column &column = of[i / rows];
    if (c.k() % width)
      sum = tail(sum, row, column);
    SmallVector<Value> at = rowsOfC[row];
    at.push_back(column.n);
    Value out = column.product->c;
    if (!c.fromZero)
      sum = b.create<arith::AddFOp>(sum, b.create<memref::LoadOp>(out, at));
    b.create<memref::StoreOp>(sum, out, at);
  }
}

void cria::emitDotTile(VectorBuilder &b, ArrayRef<Column> columns) {
  DotTile(b, columns, b.index(0), /*rows=*/1, /*streams=*/true).emit();
}

/// `count` columns of c that are `apart` columns apart.
static SmallVector<Column> columnsOf(VectorBuilder &b, const Contraction &c,
                                     Value n, int64_t count, int64_t apart) {
  SmallVector<Column> columns;
  for (int64_t i = 0; i < count; ++i)
    columns.push_back({&c, b.add(n, i * apart)});
  return columns;
}

/// Multiplies all rows of a with `columns` rows of b that are `apart` rows
/// apart.
static void emitColumns(VectorBuilder &b, const Contraction &c, bool oneRow,
                        Value n, int64_t columns, int64_t apart) {
  if (oneRow)
    return emitDotTile(b, columnsOf(b, c, n, columns, apart));
  auto tile = [&](Value m, int64_t rows) {
    SmallVector<Column> of = columnsOf(b, c, n, columns, apart);
    DotTile(b, of, m, rows, /*streams=*/false).emit();
  };
  Value rows = b.size(c.a, 0);
  Value full = b.mul(b.div(rows, 4), 4);
  b.loop(b.index(0), full, 4, [&](Value m) { tile(m, 4); });
  b.loop(full, rows, 1, [&](Value m) { tile(m, 1); });
}

namespace {
/// Multiplies a few rows of a, two at a time, so that each loaded weight is
/// used twice.
class RowPairs {
public:
  RowPairs(VectorBuilder &b, const Contraction &c)
      : b(b), c(c), columns(b.unit.registers == 32 ? 4 : 2),
        streams(b.unit.streams > 1) {}

  /// How many blocks of columns there are.
  int64_t blocks() const { return c.n() / columns; }
  /// A block of columns of the rows [begin, end).
  void block(Value begin, Value end, Value number) {
    if (streams)
      multiply(begin, end, number, columns, /*apart=*/blocks());
    else
      multiply(begin, end, b.mul(number, columns), columns, /*apart=*/1);
  }
  /// Whether columns are left, which fill no block.
  bool hasOthers() const { return c.n() % columns; }
  void others(Value begin, Value end) {
    b.loop(b.index(blocks() * columns), b.index(c.n()), 1,
           [&](Value n) { multiply(begin, end, n, 1, 1); });
  }

private:
  void multiply(Value begin, Value end, Value n, int64_t columns,
                int64_t apart) {
    auto tile = [&](Value m, int64_t rows) {
      SmallVector<Column> of = columnsOf(b, c, n, columns, apart);
      DotTile(b, of, m, rows, streams).emit();
    };
    Value count = b.sub(end, begin);
    Value pairs = b.add(begin, b.mul(b.div(count, 2), 2));
    b.loop(begin, pairs, 2, [&](Value m) { tile(m, 2); });
    b.loop(pairs, end, 1, [&](Value m) { tile(m, 1); });
  }

  VectorBuilder &b;
  const Contraction &c;
  int64_t columns; // of a tile: 16 accumulators of 32 registers, or 8 of 16
  bool streams;
};
} // namespace

void cria::emitFewDots(VectorBuilder &b, const Contraction &c) {
  Value rows = b.size(c.a, 0), zero = b.index(0);
  b.byRows(
      rows, [&] { emitDot(b, c, /*oneRow=*/true, /*parallel=*/true); },
      [&] {
        RowPairs pairs(b, c);
        b.parallel(b.index(pairs.blocks()),
                   [&](Value block) { pairs.block(zero, rows, block); });
        pairs.others(zero, rows);
      });
}

void cria::emitSortedDots(VectorBuilder &b, const Contraction &c) {
  auto forParts = [&](int64_t units, auto body) {
    b.parallel(b.mul(c.experts->count, units), [&](Value i) {
      ExpertPart part(b, *c.experts, c.b, b.div(i, units));
      Contraction of = c;
      of.b = part.matrix;
      body(RowPairs(b, of), part, b.mul(b.rem(i, units), kExpertBlocks));
    });
  };
  RowPairs all(b, c);
  forParts(llvm::divideCeil(all.blocks(), kExpertBlocks),
           [&](RowPairs pairs, const ExpertPart &part, Value first) {
             Value end =
                 b.min(b.add(first, kExpertBlocks), b.index(all.blocks()));
             b.loop(first, end, 1, [&](Value block) {
               pairs.block(part.begin, part.end, block);
             });
           });
  if (all.hasOthers())
    forParts(1, [&](RowPairs pairs, const ExpertPart &part, Value) {
      pairs.others(part.begin, part.end);
    });
}

void cria::emitDot(VectorBuilder &b, const Contraction &c, bool oneRow,
                   bool parallel) {
  int64_t columns = oneRow ? b.unit.streams : 4, blocks = c.n() / columns;
  auto body = [&](Value block) {
    if (oneRow)
      emitColumns(b, c, oneRow, block, columns, /*apart=*/blocks);
    else
      emitColumns(b, c, oneRow, b.mul(block, columns), columns, /*apart=*/1);
  };
  if (parallel)
    b.parallel(b.index(blocks), body);
  else
    b.loop(b.index(0), b.index(blocks), 1, body);
  b.loop(b.index(blocks * columns), b.index(c.n()), 1,
         [&](Value n) { emitColumns(b, c, oneRow, n, 1, 1); });
}
