/// c[m, n] += sum_k a[m, k] * b[n, k], vectors along k: nothing is packed, both
/// operands are read as they lie.
///
///   for rows n of b (R at a time), rows m of a (T at a time):
///     acc[r][t] += b[n + r, k ...] * a[m + t, k ...]
///     c[m + t, n + r] = sum of acc[r][t]
///
/// One row of a (decode) is bound by the memory b streams from. There, one row
/// of b at a time reads a single sequential stream, the fastest pattern where
/// rows lie one behind the other; several rows of a share the loads of b.
#include "lowering/cpu/Contraction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

namespace {
/// A tile of dot products.
class DotTile {
public:
  DotTile(VectorBuilder &b, const Contraction &c, Value row, Value column,
          int64_t rows, int64_t columns)
      : b(b), c(c), m(row), n(column), rows(rows), columns(columns) {
    pairs = b.unit.dotBf16 && c.aType().isBF16() && c.bType().isBF16();
    width = b.unit.lanes * (pairs ? 2 : 1);
    unroll = rows * columns == 1 ? 4 : 1;
  }
  void emit();

private:
  SmallVector<Value> step(Value k, ValueRange acc, int64_t first);
  Value product(Value x, Value y, Value acc);
  Value tail(Value sum, int64_t row, int64_t column);

  VectorBuilder &b;
  const Contraction &c;
  Value m, n;
  int64_t rows, columns, width, unroll;
  bool pairs;
};
} // namespace

Value DotTile::product(Value x, Value y, Value acc) {
  return pairs ? b.dotPairs(x, y, acc) : b.fma(x, y, acc);
}

/// Adds the products of one vector of k to accumulators first, first+1, ...
SmallVector<Value> DotTile::step(Value k, ValueRange acc, int64_t first) {
  SmallVector<Value> next(acc);
  auto load = [&](Value memref, Value row) {
    return pairs ? b.load(memref, {row, k}, width)
                 : b.loadWide(memref, {row, k}, width);
  };
  SmallVector<Value> xs;
  for (int64_t r = 0; r < rows; ++r)
    xs.push_back(load(c.a, b.add(m, r)));
  for (int64_t col = 0; col < columns; ++col) {
    Value w = load(c.b, b.add(n, col));
    for (int64_t r = 0; r < rows; ++r) {
      Value &sum = next[first + col * rows + r];
      sum = product(w, xs[r], sum);
    }
  }
  return next;
}

/// Adds the last k % width products of one result to its sum.
Value DotTile::tail(Value sum, int64_t row, int64_t column) {
  int64_t left = c.k() % width;
  Value k = b.index(c.k() - left);
  Value x = b.loadWide(c.a, {b.add(m, row), k}, left);
  Value w = b.loadWide(c.b, {b.add(n, column), k}, left);
  Value products = b.create<arith::MulFOp>(x, w);
  return b.create<vector::ReductionOp>(vector::CombiningKind::ADD, products,
                                       sum, arith::FastMathFlags::reassoc);
}

void DotTile::emit() {
  int64_t sums = rows * columns, stride = width * unroll;
  int64_t main = c.k() - c.k() % stride, whole = c.k() - c.k() % width;
  SmallVector<Value> acc(sums * unroll, b.zero(b.unit.lanes));
  if (main)
    acc = b.loop(b.index(0), b.index(main), stride, acc,
                 [&](Value k, ValueRange carried) {
                   SmallVector<Value> next(carried);
                   for (int64_t u = 0; u < unroll; ++u)
                     next = step(b.add(k, u * width), next, u * sums);
                   return next;
                 });
  for (int64_t k = main; k < whole; k += width)
    acc = step(b.index(k), acc, 0);
  for (int64_t i = 0; i < sums; ++i) {
    Value vector = acc[i];
    for (int64_t u = 1; u < unroll; ++u)
      vector = b.create<arith::AddFOp>(vector, acc[u * sums + i]);
    Value sum = b.create<vector::ReductionOp>(
        vector::CombiningKind::ADD, vector, arith::FastMathFlags::reassoc);
    int64_t row = i % rows, column = i / rows;
    if (c.k() % width)
      sum = tail(sum, row, column);
    SmallVector<Value> at = {b.add(m, row), b.add(n, column)};
    if (!c.fromZero)
      sum = b.create<arith::AddFOp>(sum, b.create<memref::LoadOp>(c.c, at));
    b.create<memref::StoreOp>(sum, c.c, at);
  }
}

/// All rows of a, or its only one, against `columns` rows of b.
static void emitColumns(VectorBuilder &b, const Contraction &c, bool oneRow,
                        Value n, int64_t columns) {
  auto tile = [&](Value m, int64_t rows) {
    DotTile(b, c, m, n, rows, columns).emit();
  };
  if (oneRow)
    return tile(b.index(0), 1);
  Value rows = b.size(c.a, 0);
  Value full = b.mul(b.div(rows, 4), 4);
  b.loop(b.index(0), full, 4, [&](Value m) { tile(m, 4); });
  b.loop(full, rows, 1, [&](Value m) { tile(m, 1); });
}

void cria::emitDot(VectorBuilder &b, const Contraction &c, bool oneRow,
                   bool parallel) {
  int64_t columns = oneRow ? 1 : 4, blocks = c.n() / columns;
  auto body = [&](Value block) {
    emitColumns(b, c, oneRow, b.mul(block, columns), columns);
  };
  if (parallel)
    b.parallel(b.index(blocks), body);
  else
    b.loop(b.index(0), b.index(blocks), 1, body);
  b.loop(b.index(blocks * columns), b.index(c.n()), 1,
         [&](Value n) { emitColumns(b, c, oneRow, n, 1); });
}
