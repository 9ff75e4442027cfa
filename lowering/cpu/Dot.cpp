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
/// One set is enough where one row of a is multiplied by several rows of b at a
/// time (streams): each row of b has an accumulator of its own.
static int64_t invariantSets(const VectorUnit &unit) {
  return unit.registers == 16 && unit.streams > 1 ? 1 : 2;
}

/// The vectors of a row in one turn of the loop, for tiles with more than one
/// result.
static constexpr int64_t kTurn = 4;

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
        fetches(streams && columns > 1), fetchesNext(!streams && columns > 1) {
    for (int64_t r = 0; r < rows; ++r) {
      Value place = c.rowAt(b, b.add(row, r));
      rowsOfA.push_back(c.rowOfA(b, place));
      rowsOfC.push_back(c.rowOfC(b, place));
    }
    bool bf16 = c.aType().isBF16() && c.bType().isBF16();
    pairs = b.unit.dotBf16 && bf16;
    parts = bf16 && !pairs && !b.unit.neon ? 2 : 1;
    width = b.unit.lanes * (pairs ? 2 : parts);
    unroll = rows * columns == 1 ? longTurn() : kTurn / parts;
    int64_t most = std::min<int64_t>(unroll * parts, b.unit.neon ? 8 : 4);
    sets =
        std::clamp<int64_t>(b.unit.registers / (2 * rows * columns), 1, most);
    if (c.invariant) {
      sets = invariantSets(b.unit);
      unroll = llvm::alignTo(unroll, llvm::divideCeil(sets, parts));
    }
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

/// Prefetches elements of b for the next tile, or a later one if rows are
/// short, while this tile reads `vectors` vectors of a row. After the last row
/// the address is outside of b, which does no harm.
void DotTile::fetchNext(const Column &column, Value k, int64_t vectors) {
  int64_t bytes = c.bType().getIntOrFloatBitWidth() / 8;
  int64_t rows = llvm::alignTo(
      llvm::divideCeil(2 * VectorUnit::kBytesAhead, c.k() * bytes), columns);
  for (int64_t at = 0; at < vectors * width * bytes; at += 64)
    b.prefetch(column.product->b, {b.add(column.n, rows), b.add(k, at / bytes)},
               /*level=*/2);
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
    Value at = b.add(k, v * width);
    SmallVector<SmallVector<Value>> ws;
    for (const Column &column : of) {
      if (v == 0 && fetches && vectors == unroll)
        fetchAhead(column, k);
      if (v == 0 && fetchesNext)
        fetchNext(column, k, vectors);
      ws.push_back(load(column.product->b, {column.n}, at));
    }
    for (int64_t r = 0; r < rows; ++r) {
      Value a; // the matrix that `xs` was loaded from
      SmallVector<Value> xs;
      for (int64_t col = 0; col < columns; ++col) {
        if (a != of[col].product->a) {
          a = of[col].product->a;
          xs = load(a, rowsOfA[r], at);
        }
        for (int64_t part = 0; part < parts; ++part) {
          int64_t set = (v * parts + part) % sets;
          Value &sum = next[(set * columns + col) * rows + r];
          sum = product(ws[col][part], xs[part], sum);
        }
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

namespace {
/// Multiplies a few rows of a, four, two or one at a time, so that each loaded
/// weight is used as often.
class FewRows {
public:
  FewRows(VectorBuilder &b, const Contraction &c, bool streams)
      : b(b), c(c), streams(streams && b.unit.streams > 1) {
    int64_t sets = c.invariant ? invariantSets(b.unit) : 1;
    columns = b.unit.registers == 32 ? 4 : 2;
    most = b.unit.registers / 2 / columns / sets;
  }

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
    for (int64_t rows = most; rows; rows /= 2) {
      Value whole = b.mul(b.div(b.sub(end, begin), rows), rows);
      Value next = b.add(begin, whole);
      b.loop(begin, next, rows, [&](Value m) {
        SmallVector<Column> of = columnsOf(b, c, n, columns, apart);
        DotTile(b, of, m, rows, streams).emit();
      });
      begin = next;
    }
  }

  VectorBuilder &b;
  const Contraction &c;
  bool streams; // whether rows of b that are far apart are read together
  // Of a tile: rows of b, and at most rows of a. Half of the registers are
  // accumulators.
  int64_t columns, most;
};
} // namespace

void cria::emitFewDots(VectorBuilder &b, const Contraction &c) {
  b.byRows(
      b.size(c.a, 0), [&] { emitDot(b, c, /*parallel=*/true); },
      [&] { emitDots(b, c, /*parallel=*/true); });
}

void cria::emitSortedDots(VectorBuilder &b, const Contraction &c) {
  auto forParts = [&](int64_t units, auto body) {
    b.parallel(b.mul(c.experts->count, units), [&](Value i) {
      ExpertPart part(b, *c.experts, c.b, b.div(i, units));
      Contraction of = c;
      of.b = part.matrix;
      body(FewRows(b, of, /*streams=*/true), part,
           b.mul(b.rem(i, units), kExpertBlocks));
    });
  };
  FewRows all(b, c, /*streams=*/true);
  forParts(llvm::divideCeil(all.blocks(), kExpertBlocks),
           [&](FewRows few, const ExpertPart &part, Value first) {
             Value end =
                 b.min(b.add(first, kExpertBlocks), b.index(all.blocks()));
             b.loop(first, end, 1, [&](Value block) {
               few.block(part.begin, part.end, block);
             });
           });
  if (all.hasOthers())
    forParts(1, [&](FewRows few, const ExpertPart &part, Value) {
      few.others(part.begin, part.end);
    });
}

/// Calls `body` for the blocks of a product, on all threads if `parallel`.
static void forBlocks(VectorBuilder &b, int64_t blocks, bool parallel,
                      llvm::function_ref<void(Value)> body) {
  if (parallel)
    b.parallel(b.index(blocks), body);
  else
    b.loop(b.index(0), b.index(blocks), 1, body);
}

void cria::emitDot(VectorBuilder &b, const Contraction &c, bool parallel) {
  int64_t columns = b.unit.streams, blocks = c.n() / columns;
  forBlocks(b, blocks, parallel, [&](Value block) {
    emitDotTile(b, columnsOf(b, c, block, columns, /*apart=*/blocks));
  });
  b.loop(b.index(blocks * columns), b.index(c.n()), 1, [&](Value n) {
    emitDotTile(b, Column{&c, n});
  });
}

void cria::emitDots(VectorBuilder &b, const Contraction &c, bool parallel) {
  // Streams fetch what all threads read from memory, and not the blocks of an
  // iteration, which are in a cache.
  FewRows few(b, c, /*streams=*/parallel);
  Value zero = b.index(0), rows = b.size(c.a, 0);
  forBlocks(b, few.blocks(), parallel,
            [&](Value block) { few.block(zero, rows, block); });
  few.others(zero, rows);
}
