/// c[m, n] += sum_k a[m, k] * b[n, k] for many rows m, vectors along m:
///
///   pack a into panels: packed[p][k][lane] = a[p lanes + lane, k]
///   for blocks of R rows n of b, in parallel:
///     for chunks of k:
///       (widen b's rows to f32, where its type is not multiplied as it is)
///       for tiles of V panels:
///         acc[r][v] += splat(b[n + r, k]) * packed[v][k]
///     c[m, n + r] = acc[r][m]
///
/// The weights b are read where they lie, each row once per call; only a, the
/// smaller by far, is packed. With bf16 dot products two neighbours of k share
/// a lane. A row of c is gathered in a scratch block (R, rows of a), so that
/// the store to c is the only transposed access.
#include "lowering/cpu/Contraction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"

using namespace mlir;
using namespace cria;

namespace {
class PanelProduct {
public:
  PanelProduct(VectorBuilder &b, const Contraction &c, int64_t maxRows);
  Value pack();
  void multiply(Value packedPanels);

private:
  void packPanel(Value panel, Value packed);
  void rowsOfB(Value n, int64_t count);
  void chunk(Value n, int64_t count, Value first, Value end, bool start);
  Value widenRows(Value n, int64_t count, Value first, Value end);
  void tile(Value panel, int64_t vectors);
  SmallVector<Value> step(Value k, ValueRange acc, Value panel,
                          int64_t vectors);
  Value splatB(Value row, Value k);
  Value lastPair(Value row, Value k);
  void flush(Value n, int64_t count);

  VectorBuilder &b;
  const Contraction &c;
  int64_t lanes, vectors, blockRows, maxPanels, kSteps;
  bool pairs, widen;
  Value rows, panels, packed, scratch;
  // The chunk at hand: rows of b from `source` at (sourceRow, k - sourceK).
  Value source, sourceRow, sourceK, firstK, endK;
  int64_t count = 0;
  bool start = true;
};
} // namespace

/// Columns of widened weights that stay in the first cache.
static constexpr int64_t kChunk = 512;

PanelProduct::PanelProduct(VectorBuilder &b, const Contraction &c,
                           int64_t maxRows)
    : b(b), c(c), lanes(b.unit.lanes) {
  // 6 x 4 of 32 registers, 6 x 2 of 16: the accumulators, a row of panels and
  // the splat fill the file, and loads stay well below multiplications.
  blockRows = std::min<int64_t>(6, c.n());
  vectors = b.unit.registers == 32 ? 4 : 2;
  pairs = b.unit.dotBf16Fast && c.aType().isBF16() && c.bType().isBF16();
  widen = !pairs && !c.bType().isF32();
  kSteps = pairs ? llvm::divideCeil(c.k(), 2) : c.k();
  maxPanels = llvm::divideCeil(maxRows, lanes);
  rows = b.size(c.a, 0);
  panels = b.div(b.add(rows, lanes - 1), lanes);
}

/// packed[panel] from `lanes` rows of a; rows past the last are zero.
void PanelProduct::packPanel(Value panel, Value packed) {
  int64_t step = pairs ? 2 : 1, whole = c.k() - c.k() % step;
  Type element = pairs ? c.aType() : b.getF32Type();
  Value zero =
      b.create<arith::ConstantOp>(cast<TypedAttr>(b.getZeroAttr(element)));
  b.loop(b.index(0), b.index(lanes), 1, [&](Value lane) {
    Value row = b.add(b.mul(panel, lanes), lane);
    auto put = [&](Value k, llvm::function_ref<Value(int64_t)> value) {
      for (int64_t i = 0; i < step; ++i)
        b.create<memref::StoreOp>(
            value(i), packed,
            ValueRange{panel, b.div(k, step), b.add(b.mul(lane, step), i)});
    };
    auto element = [&](Value k) -> Value {
      Value x = b.create<memref::LoadOp>(c.a, ValueRange{row, k});
      if (!pairs && !x.getType().isF32())
        x = b.create<arith::ExtFOp>(b.getF32Type(), x);
      return x;
    };
    b.when(
        b.less(row, rows),
        [&] {
          b.loop(b.index(0), b.index(whole), step, [&](Value k) {
            put(k, [&](int64_t i) { return element(b.add(k, i)); });
          });
          if (whole < c.k())
            put(b.index(whole), [&](int64_t i) {
              return i == 0 ? element(b.index(whole)) : zero;
            });
        },
        [&] {
          b.loop(b.index(0), b.index(kSteps * step), step,
                 [&](Value k) { put(k, [&](int64_t) { return zero; }); });
        });
  });
}

Value PanelProduct::pack() {
  Type element = pairs ? c.aType() : b.getF32Type();
  auto type =
      MemRefType::get({maxPanels, kSteps, lanes * (pairs ? 2 : 1)}, element);
  Value buffer = b.create<memref::AllocOp>(type, b.getI64IntegerAttr(64));
  b.parallel(panels, [&](Value panel) { packPanel(panel, buffer); });
  return buffer;
}

/// b[row, k] in every lane; of bf16 pairs, b[row, 2k] and b[row, 2k + 1].
Value PanelProduct::splatB(Value row, Value k) {
  if (!pairs)
    return b.splat(source, {row, k}, lanes);
  Value pair = b.load(source, {row, b.mul(k, 2)}, 2);
  Value word =
      b.create<vector::BitCastOp>(b.vectorType(1, b.getI32Type()), pair);
  Value scalar = b.create<vector::ExtractOp>(word, 0);
  Value words = b.create<vector::BroadcastOp>(
      b.vectorType(lanes, b.getI32Type()), scalar);
  return b.create<vector::BitCastOp>(b.vectorType(2 * lanes, c.bType()), words);
}

/// The last, single element of a row of odd length, beside a zero.
Value PanelProduct::lastPair(Value row, Value k) {
  Value element =
      b.create<memref::LoadOp>(source, ValueRange{row, b.mul(k, 2)});
  Value bits = b.create<arith::BitcastOp>(b.getI16Type(), element);
  Value word = b.create<arith::ExtUIOp>(b.getI32Type(), bits);
  Value words =
      b.create<vector::BroadcastOp>(b.vectorType(lanes, b.getI32Type()), word);
  return b.create<vector::BitCastOp>(b.vectorType(2 * lanes, c.bType()), words);
}

SmallVector<Value> PanelProduct::step(Value k, ValueRange acc, Value panel,
                                      int64_t vectors) {
  SmallVector<Value> next(acc), columns;
  for (int64_t v = 0; v < vectors; ++v)
    columns.push_back(b.load(packed, {b.add(panel, v), k, b.index(0)},
                             lanes * (pairs ? 2 : 1)));
  bool last = pairs && c.k() % 2 && getConstantIntValue(k) == kSteps - 1;
  for (int64_t r = 0; r < count; ++r) {
    Value row = b.add(sourceRow, r), at = k;
    if (sourceK)
      at = b.create<arith::SubIOp>(k, sourceK);
    Value w = last ? lastPair(row, at) : splatB(row, at);
    for (int64_t v = 0; v < vectors; ++v) {
      Value &sum = next[r * vectors + v];
      sum = pairs ? Value(b.create<x86vector::DotBF16Op>(sum.getType(), sum, w,
                                                         columns[v]))
                  : b.fma(w, columns[v], sum);
    }
  }
  return next;
}

/// Panels [panel, panel + vectors) of the chunk at hand.
void PanelProduct::tile(Value panel, int64_t vectors) {
  auto at = [&](int64_t r, int64_t v) -> SmallVector<Value> {
    return {b.index(r), b.mul(b.add(panel, v), lanes)};
  };
  SmallVector<Value> acc;
  for (int64_t r = 0; r < count; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      acc.push_back(start ? b.zero(lanes) : b.load(scratch, at(r, v), lanes));
  bool odd = pairs && c.k() % 2;
  Value end = odd ? b.index(kSteps - 1) : endK;
  acc = b.loop(firstK, end, 1, acc, [&](Value k, ValueRange carried) {
    return step(k, carried, panel, vectors);
  });
  if (odd)
    acc = step(b.index(kSteps - 1), acc, panel, vectors);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      b.store(acc[r * vectors + v], scratch, at(r, v));
}

/// Rows of b as f32, columns [first, end).
Value PanelProduct::widenRows(Value n, int64_t count, Value first, Value end) {
  auto type = MemRefType::get({count, kChunk}, b.getF32Type());
  Value wide = b.create<memref::AllocaOp>(type, b.getI64IntegerAttr(64));
  b.loop(b.index(0), b.index(count), 1, [&](Value r) {
    b.loop(first, end, 1, [&](Value k) {
      Value x = b.create<memref::LoadOp>(c.b, ValueRange{b.add(n, r), k});
      Value y = b.create<arith::ExtFOp>(b.getF32Type(), x);
      Value at = b.create<arith::SubIOp>(k, first);
      b.create<memref::StoreOp>(y, wide, ValueRange{r, at});
    });
  });
  return wide;
}

void PanelProduct::chunk(Value n, int64_t rowsOfB, Value first, Value end,
                         bool fromZero) {
  source = c.b;
  sourceRow = n;
  sourceK = Value();
  if (widen) {
    source = widenRows(n, rowsOfB, first, end);
    sourceRow = b.index(0);
    sourceK = first;
  }
  firstK = first;
  endK = end;
  count = rowsOfB;
  start = fromZero;
  Value full = b.mul(b.div(panels, vectors), vectors);
  b.loop(b.index(0), full, vectors, [&](Value p) { tile(p, vectors); });
  b.loop(full, panels, 1, [&](Value p) { tile(p, 1); });
}

/// c[m, n + r] = scratch[r, m]: a panel's lanes are taken apart, so that the
/// stores of a row of c stand together.
void PanelProduct::flush(Value n, int64_t count) {
  auto put = [&](Value sum, Value m, int64_t r) {
    SmallVector<Value> at = {m, b.add(n, r)};
    if (!c.fromZero)
      sum = b.create<arith::AddFOp>(sum, b.create<memref::LoadOp>(c.c, at));
    b.create<memref::StoreOp>(sum, c.c, at);
  };
  Value whole = b.mul(b.div(rows, lanes), lanes);
  b.loop(b.index(0), whole, lanes, [&](Value m) {
    SmallVector<Value> sums;
    for (int64_t r = 0; r < count; ++r)
      sums.push_back(b.load(scratch, {b.index(r), m}, lanes));
    for (int64_t lane = 0; lane < lanes; ++lane)
      for (int64_t r = 0; r < count; ++r)
        put(b.create<vector::ExtractOp>(sums[r], lane), b.add(m, lane), r);
  });
  b.loop(whole, rows, 1, [&](Value m) {
    for (int64_t r = 0; r < count; ++r)
      put(b.create<memref::LoadOp>(scratch, ValueRange{b.index(r), m}), m, r);
  });
}

/// Rows [n, n + count) of b against all of a.
void PanelProduct::rowsOfB(Value n, int64_t count) {
  auto type = MemRefType::get({count, maxPanels * lanes}, b.getF32Type());
  scratch = b.create<memref::AllocaOp>(type, b.getI64IntegerAttr(64));
  Value zero = b.index(0), end = b.index(kSteps);
  if (!widen || kSteps <= kChunk) {
    chunk(n, count, zero, end, /*fromZero=*/true);
  } else {
    chunk(n, count, zero, b.index(kChunk), /*fromZero=*/true);
    b.loop(b.index(kChunk), end, kChunk, [&](Value first) {
      Value last = b.create<arith::MinSIOp>(b.add(first, kChunk), end);
      chunk(n, count, first, last, /*fromZero=*/false);
    });
  }
  flush(n, count);
}

void PanelProduct::multiply(Value packedPanels) {
  packed = packedPanels;
  int64_t blocks = c.n() / blockRows;
  b.parallel(b.index(blocks),
             [&](Value block) { rowsOfB(b.mul(block, blockRows), blockRows); });
  if (int64_t left = c.n() % blockRows)
    b.parallel(b.index(1),
               [&](Value) { rowsOfB(b.index(blocks * blockRows), left); });
}

Value cria::emitPanel(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                      Value packed) {
  PanelProduct product(b, c, maxRows);
  if (!packed)
    packed = product.pack();
  product.multiply(packed);
  return packed;
}
