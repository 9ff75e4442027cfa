/// c[m, n] += sum_k a[m, k] * b[n, k] for many rows m, vectors along m:
///
///   pack a into panels: packed[p][k][lane] = a[p lanes + lane, k]
///   for blocks of R rows n of b, in parallel:
///     for chunks of k:
///       (widen b's rows to f32, where its type is not multiplied as it is)
///       for tiles of V panels:
///         acc[r][v] += splat(b[n + r, k]) * packed[v][k]
///         (prefetch b[n + R + r, k]: the next block's rows)
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

using namespace mlir;
using namespace cria;

namespace {
/// Some rows of b, and a range of k, that are multiplied with all of a.
struct Chunk {
  /// Where the rows are read: row r at `row` + r, element k at k - `base`.
  Value source, row, base; // base is null for 0
  int64_t rows;
  Value first, end; // of k, in steps
  /// (rows, rows of a): the sums, which begin at zero if this is the first
  /// chunk of the rows.
  Value sums;
  bool fromZero;
  /// The first of the rows to prefetch meanwhile; null for none.
  Value nextRow;
};

class PanelProduct {
public:
  PanelProduct(VectorBuilder &b, const Contraction &c, int64_t maxRows);
  void multiply();

private:
  Type packedType() const { return pairs ? c.aType() : b.getF32Type(); }
  void pack();
  void packPanel(Value panel);
  void rowsOfB(Value n, int64_t count, Value nextRow);
  void multiply(const Chunk &chunk);
  Value widenRows(const Chunk &chunk);
  void tile(const Chunk &chunk, Value panel, int64_t vectors);
  SmallVector<Value> steps(const Chunk &chunk, SmallVector<Value> acc,
                           Value panel, int64_t vectors);
  SmallVector<Value> step(const Chunk &chunk, Value k, ValueRange acc,
                          int64_t first, Value panel, int64_t vectors);
  void prefetch(Value nextRow, Value k);
  Value splatB(Value source, Value row, Value k, bool single);
  void flush(Value sums, Value n, int64_t count);

  VectorBuilder &b;
  const Contraction &c;
  int64_t lanes, vectors, blockRows, maxPanels, kSteps;
  bool pairs, widen;
  Value rows, panels, packed;
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
  panels = b.ceilDiv(rows, lanes);
}

/// packed[panel] from `lanes` rows of a; rows past the last are zero.
void PanelProduct::packPanel(Value panel) {
  int64_t step = pairs ? 2 : 1, whole = c.k() - c.k() % step;
  b.loop(b.index(0), b.index(lanes), 1, [&](Value lane) {
    Value row = b.add(b.mul(panel, lanes), lane), column = b.mul(lane, step);
    auto put = [&](Value value, Value k) {
      b.store(value, packed, {panel, b.div(k, step), column});
    };
    Value zero = b.create<arith::ConstantOp>(
        b.getZeroAttr(b.vectorType(step, packedType())));
    auto pairWithZero = [&](Value k) -> Value {
      Value last = b.create<memref::LoadOp>(c.a, ValueRange{row, k});
      return b.create<vector::InsertOp>(last, zero, 0);
    };
    b.when(
        b.less(row, rows),
        [&] {
          b.loop(b.index(0), b.index(whole), step, [&](Value k) {
            put(pairs ? b.load(c.a, {row, k}, step)
                      : b.loadWide(c.a, {row, k}, step),
                k);
          });
          if (whole < c.k())
            put(pairWithZero(b.index(whole)), b.index(whole));
        },
        [&] {
          b.loop(b.index(0), b.index(kSteps * step), step,
                 [&](Value k) { put(zero, k); });
        });
  });
}

void PanelProduct::pack() {
  auto type = MemRefType::get({maxPanels, kSteps, lanes * (pairs ? 2 : 1)},
                              packedType());
  packed = b.create<memref::AllocOp>(type, b.getI64IntegerAttr(64));
  b.parallel(panels, [&](Value panel) { packPanel(panel); });
}

/// b[row, k] in every lane; of bf16 pairs, b[row, 2k] and b[row, 2k + 1]. The
/// last, single element of a row of odd length stands beside a zero.
Value PanelProduct::splatB(Value source, Value row, Value k, bool single) {
  if (!pairs)
    return b.splat(source, {row, k}, lanes);
  SmallVector<Value> at = {row, b.mul(k, 2)};
  Value word;
  if (single) {
    Value element = b.create<memref::LoadOp>(source, at);
    Value bits = b.create<arith::BitcastOp>(b.getI16Type(), element);
    word = b.create<arith::ExtUIOp>(b.getI32Type(), bits);
  } else {
    Value pair = b.create<vector::BitCastOp>(b.vectorType(1, b.getI32Type()),
                                             b.load(source, at, 2));
    word = b.create<vector::ExtractOp>(pair, 0);
  }
  Value words =
      b.create<vector::BroadcastOp>(b.vectorType(lanes, b.getI32Type()), word);
  return b.create<vector::BitCastOp>(b.vectorType(2 * lanes, c.bType()), words);
}

/// Adds the products of one k to the accumulators of index first, first + 1,
/// ...
SmallVector<Value> PanelProduct::step(const Chunk &chunk, Value k,
                                      ValueRange acc, int64_t first,
                                      Value panel, int64_t vectors) {
  SmallVector<Value> next(acc), columns;
  for (int64_t v = 0; v < vectors; ++v)
    columns.push_back(b.load(packed, {b.add(panel, v), k, b.index(0)},
                             lanes * (pairs ? 2 : 1)));
  bool last = pairs && c.k() % 2 && getConstantIntValue(k) == kSteps - 1;
  for (int64_t r = 0; r < chunk.rows; ++r) {
    Value row = b.add(chunk.row, r), at = k;
    if (chunk.base)
      at = b.sub(k, chunk.base);
    Value w = splatB(chunk.source, row, at, last);
    for (int64_t v = 0; v < vectors; ++v) {
      Value &sum = next[first + r * vectors + v];
      // The splat comes last: there it may be folded into the instruction.
      sum = pairs ? b.dotPairs(columns[v], w, sum) : b.fma(columns[v], w, sum);
    }
  }
  return next;
}

/// Asks for the cache lines of the next block's rows that hold element k, so
/// that reading from memory and multiplying overlap.
void PanelProduct::prefetch(Value nextRow, Value k) {
  for (int64_t r = 0; r < blockRows; ++r)
    b.create<memref::PrefetchOp>(
        c.b, ValueRange{b.add(nextRow, r), b.mul(k, pairs ? 2 : 1)},
        /*isWrite=*/false, /*localityHint=*/2, /*isDataCache=*/true);
}

/// The chunk's products added to a tile's accumulators, a cache line of b's
/// rows after the other. A tile too small to hide the latency of its
/// multiplications takes turns between two sets of accumulators.
SmallVector<Value> PanelProduct::steps(const Chunk &chunk,
                                       SmallVector<Value> acc, Value panel,
                                       int64_t vectors) {
  auto sums = static_cast<int64_t>(acc.size());
  int64_t sets = sums < 12 ? 2 : 1;
  int64_t bits = c.bType().getIntOrFloatBitWidth() * (pairs ? 2 : 1);
  int64_t line = 64 * 8 / bits;
  bool odd = pairs && c.k() % 2;
  Value first = chunk.first, end = odd ? b.index(kSteps - 1) : chunk.end;
  auto walk = [&](Value first, Value end, int64_t sets, ValueRange acc) {
    return b.loop(first, end, sets, acc, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried);
      for (int64_t set = 0; set < sets; ++set)
        next = step(chunk, b.add(k, set), next, set * sums, panel, vectors);
      return next;
    });
  };
  if (chunk.nextRow) {
    Value length = b.sub(end, first);
    Value whole = b.add(first, b.mul(b.div(length, line), line));
    acc.resize(sums * sets, b.zero(lanes));
    acc = b.loop(first, whole, line, acc, [&](Value k, ValueRange carried) {
      prefetch(chunk.nextRow, k);
      return walk(k, b.add(k, line), sets, carried);
    });
    for (int64_t i = sums; i < sums * sets; ++i)
      acc[i - sums] = b.create<arith::AddFOp>(acc[i - sums], acc[i]);
    acc.truncate(sums);
    first = whole;
  }
  acc = walk(first, end, 1, acc);
  return odd ? step(chunk, b.index(kSteps - 1), acc, 0, panel, vectors) : acc;
}

/// Panels [panel, panel + vectors) times the chunk.
void PanelProduct::tile(const Chunk &chunk, Value panel, int64_t vectors) {
  auto at = [&](int64_t r, int64_t v) -> SmallVector<Value> {
    return {b.index(r), b.mul(b.add(panel, v), lanes)};
  };
  SmallVector<Value> acc;
  for (int64_t r = 0; r < chunk.rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      acc.push_back(chunk.fromZero ? b.zero(lanes)
                                   : b.load(chunk.sums, at(r, v), lanes));
  acc = steps(chunk, acc, panel, vectors);
  for (int64_t r = 0; r < chunk.rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      b.store(acc[r * vectors + v], chunk.sums, at(r, v));
}

/// The chunk's rows of b as f32.
Value PanelProduct::widenRows(const Chunk &chunk) {
  auto type = MemRefType::get({chunk.rows, kChunk}, b.getF32Type());
  Value wide = b.create<memref::AllocaOp>(type, b.getI64IntegerAttr(64));
  b.loop(b.index(0), b.index(chunk.rows), 1, [&](Value r) {
    b.loop(chunk.first, chunk.end, 1, [&](Value k) {
      Value x =
          b.create<memref::LoadOp>(c.b, ValueRange{b.add(chunk.row, r), k});
      Value y = b.create<arith::ExtFOp>(b.getF32Type(), x);
      Value at = b.sub(k, chunk.first);
      b.create<memref::StoreOp>(y, wide, ValueRange{r, at});
    });
  });
  return wide;
}

/// A chunk whose rows lie in b times all panels.
void PanelProduct::multiply(const Chunk &ofB) {
  Chunk chunk = ofB;
  if (widen) {
    chunk.source = widenRows(ofB);
    chunk.row = b.index(0);
    chunk.base = ofB.first;
  }
  Value done = b.index(0);
  for (int64_t width = vectors; width; width /= 2) {
    Value end = b.mul(b.div(panels, width), width);
    b.loop(done, end, width, [&](Value p) { tile(chunk, p, width); });
    done = end;
  }
}

/// c[m, n + r] = sums[r, m]: a panel's lanes are taken apart, so that the
/// stores of a row of c stand together.
void PanelProduct::flush(Value sums, Value n, int64_t count) {
  auto put = [&](Value sum, Value m, int64_t r) {
    SmallVector<Value> at = {m, b.add(n, r)};
    if (!c.fromZero)
      sum = b.create<arith::AddFOp>(sum, b.create<memref::LoadOp>(c.c, at));
    b.create<memref::StoreOp>(sum, c.c, at);
  };
  Value whole = b.mul(b.div(rows, lanes), lanes);
  b.loop(b.index(0), whole, lanes, [&](Value m) {
    SmallVector<Value> panel;
    for (int64_t r = 0; r < count; ++r)
      panel.push_back(b.load(sums, {b.index(r), m}, lanes));
    for (int64_t lane = 0; lane < lanes; ++lane)
      for (int64_t r = 0; r < count; ++r)
        put(b.create<vector::ExtractOp>(panel[r], lane), b.add(m, lane), r);
  });
  b.loop(whole, rows, 1, [&](Value m) {
    for (int64_t r = 0; r < count; ++r)
      put(b.create<memref::LoadOp>(sums, ValueRange{b.index(r), m}), m, r);
  });
}

/// Rows [n, n + count) of b against all of a.
void PanelProduct::rowsOfB(Value n, int64_t count, Value nextRow) {
  auto type = MemRefType::get({count, maxPanels * lanes}, b.getF32Type());
  Value sums = b.create<memref::AllocaOp>(type, b.getI64IntegerAttr(64));
  Value zero = b.index(0), end = b.index(kSteps);
  auto chunk = [&](Value first, Value last, bool fromZero) {
    multiply({c.b, n, Value(), count, first, last, sums, fromZero, nextRow});
  };
  if (!widen || kSteps <= kChunk) {
    chunk(zero, end, /*fromZero=*/true);
  } else {
    chunk(zero, b.index(kChunk), /*fromZero=*/true);
    b.loop(b.index(kChunk), end, kChunk, [&](Value first) {
      Value last = b.min(b.add(first, kChunk), end);
      chunk(first, last, /*fromZero=*/false);
    });
  }
  flush(sums, n, count);
}

void PanelProduct::multiply() {
  pack();
  int64_t blocks = c.n() / blockRows;
  b.parallel(b.index(blocks), [&](Value block) {
    Value next = b.min(b.add(block, 1), b.index(blocks - 1));
    Value nextRow = b.mul(next, blockRows);
    rowsOfB(b.mul(block, blockRows), blockRows, nextRow);
  });
  if (int64_t left = c.n() % blockRows)
    b.parallel(b.index(1), [&](Value) {
      rowsOfB(b.index(blocks * blockRows), left, Value());
    });
}

void cria::emitPanel(VectorBuilder &b, const Contraction &c, int64_t maxRows) {
  PanelProduct(b, c, maxRows).multiply();
}
