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
/// Several rows of a share the loads of b. If b is in blocks, some of its rows
/// are widened first, to a copy that stays in a cache. With experts these are
/// rows of one expert, wherever they are in a. If the sums of a row must not
/// depend on the number of rows (`cria.invariant`), each result has one
/// accumulator in all tiles, so the elements of k are always added in the same
/// order.
#include "lowering/cpu/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace cria;

/// The most bytes of a tile's rows of a, which stay in the L1 cache beside a
/// few rows of b.
static constexpr int64_t kRowBytes = 32 << 10;
/// The most bytes of a group's rows of b, which stay in the L2 cache.
static constexpr int64_t kGroupBytes = 256 << 10;
/// The least bytes of b that are fetched ahead if one tile has all rows: more
/// than memory delivers to a core in the time of one load. What is fetched much
/// earlier displaces the rows of a from the L1 cache.
static constexpr int64_t kNearBytes = 8 << 10;
/// The least number of groups for the threads, unless each is one block.
/// Threads also share the experts, so these need no such number.
static constexpr int64_t kLeastGroups = 64;
/// The vectors of a row in one turn of the loop, for tiles with more than one
/// result; half as many for tiles with 16 results, whose turns have enough
/// work.
static constexpr int64_t kTurn = 4;

/// The f32 vectors that one load becomes: two if bf16 is widened, those in even
/// and in odd places.
static int64_t partsOf(const VectorUnit &unit, const Contraction &c) {
  bool bf16 = c.aType().isBF16() && c.bType().isBF16();
  return bf16 && !c.hasPairs(unit) && !unit.neon ? 2 : 1;
}

namespace {
/// What a tile prefetches while it reads its rows of b.
struct Fetch {
  bool none = false;
  /// How many rows later the elements are. Null: in the tile's own rows, some
  /// turns later; after a row's end they are in the next row of a stream.
  Value rows = {};
  /// If set, in which turns of the loop: those with turn & mask == `first` or
  /// `second`.
  Value mask = {}, first = {}, second = {};
};

/// A tile of dot products: rows of a, from m on, with columns of c, which are
/// rows of b. Products of several columns have operands of the same types and
/// sizes.
class DotTile {
public:
  /// The tile's rows of a begin at `row`. Rows at or after `end` do not exist:
  /// the tile computes row `end` - 1 in their place.
  DotTile(VectorBuilder &b, ArrayRef<Column> of, Value row, Value end,
          int64_t rows, const Fetch &fetch)
      : b(b), c(*of[0].product), of(of), fetch(fetch), rows(rows),
        columns(static_cast<int64_t>(of.size())) {
    for (int64_t r = 0; r < rows; ++r) {
      Value at = b.add(row, r);
      if (r > rows / 2)
        at = b.min(at, b.sub(end, b.index(1)));
      Value place = c.rowAt(b, at);
      rowsOfA.push_back(c.rowOfA(b, place));
      rowsOfC.push_back(c.rowOfC(b, place));
    }
    pairs = c.hasPairs(b.unit);
    parts = partsOf(b.unit, c);
    width = b.unit.lanes * (pairs ? 2 : parts);
    unroll = rows * columns == 1 ? longTurn() : kTurn / parts;
    if (rows * columns >= 16)
      unroll = std::max<int64_t>(unroll / 2, 1);
    int64_t most = std::min<int64_t>(unroll * parts, b.unit.neon ? 8 : 4);
    sets =
        std::clamp<int64_t>(b.unit.registers / (2 * rows * columns), 1, most);
    if (c.invariant)
      sets = 1;
  }
  void emit();

  // The steps of `emit`: `zeros` makes the accumulators, `add` adds the
  // products of k in [begin, end), whole turns, and `finish` adds those after
  // the whole turns and stores the results in c.
  SmallVector<Value> zeros();
  SmallVector<Value> add(ValueRange acc, Value begin, Value end);
  void finish(SmallVector<Value> acc);
  /// The elements of k in one turn of the loop, and in all whole turns.
  int64_t turn() const { return width * unroll; }
  int64_t wholeTurns() const { return c.k() - c.k() % turn(); }

private:
  int64_t longTurn() const;
  SmallVector<Value> load(Value memref, ArrayRef<Value> row, Value k);
  void fetchBlocks(Value k, int64_t vectors);
  SmallVector<Value> step(Value k, ValueRange acc, int64_t vectors);
  void fetchRows(Value k, int64_t vectors);
  Value product(Value x, Value y, Value acc);
  Value tail(Value sum, int64_t row, const Column &column);

  VectorBuilder &b;
  const Contraction &c;
  ArrayRef<Column> of;
  Fetch fetch;
  SmallVector<SmallVector<Value>> rowsOfA, rowsOfC; // the indices of each
  int64_t rows, columns;
  bool pairs;
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

/// Prefetches elements for later, while the tile reads `vectors` vectors of
/// each row of b. After the last row the address is outside of b, which does no
/// harm.
void DotTile::fetchRows(Value k, int64_t vectors) {
  if (fetch.none || (!fetch.rows && vectors < unroll))
    return;
  int64_t bytes = c.bType().getIntOrFloatBitWidth() / 8;
  int64_t ahead = fetch.rows ? 0 : VectorUnit::kBytesAhead;
  auto fetchAll = [&] {
    if (c.blocks)
      return fetchBlocks(k, vectors);
    for (const Column &column : of)
      for (int64_t at = 0; at < vectors * width * bytes; at += 64)
        b.prefetch(column.product->b,
                   {fetch.rows ? b.add(column.n, fetch.rows) : column.n,
                    b.add(k, (ahead + at) / bytes)},
                   /*level=*/fetch.rows ? 2 : 1);
  };
  if (!fetch.mask)
    return fetchAll();
  Value turn = b.create<arith::AndIOp>(b.div(k, this->turn()), fetch.mask);
  b.when(b.create<arith::OrIOp>(b.equal(turn, fetch.first),
                                b.equal(turn, fetch.second)),
         fetchAll);
}

/// Prefetches the blocks from k on of the rows that are `fetch.rows` after the
/// columns' rows.
void DotTile::fetchBlocks(Value k, int64_t vectors) {
  constexpr int64_t numbers = 2 * BlockProduct::kNumbers; // about a line
  for (const Column &column : of)
    for (int64_t at = 0; at < vectors * width; at += numbers)
      b.prefetch(c.b,
                 {b.add(column.n, fetch.rows),
                  b.div(b.add(k, at), BlockProduct::kNumbers), b.index(0)},
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
  fetchRows(k, vectors);
  for (int64_t v = 0; v < vectors; ++v) {
    Value at = b.add(k, v * width);
    SmallVector<SmallVector<Value>> ws;
    for (const Column &column : of)
      ws.push_back(column.copy ? load(column.copy, {column.copied}, at)
                               : load(column.product->b, {column.n}, at));
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

SmallVector<Value> DotTile::zeros() {
  return SmallVector<Value>(rows * columns * sets, b.zero(b.unit.lanes));
}

SmallVector<Value> DotTile::add(ValueRange acc, Value begin, Value end) {
  return b.loop(begin, end, turn(), acc, [&](Value k, ValueRange carried) {
    return step(k, carried, unroll);
  });
}

void DotTile::finish(SmallVector<Value> acc) {
  int64_t sums = rows * columns, main = wholeTurns();
  if (int64_t left = (c.k() - main) / width)
    acc = step(b.index(main), acc, left);
  for (int64_t i = sums; i < sums * sets; ++i)
    acc[i % sums] = b.create<arith::AddFOp>(acc[i % sums], acc[i]);
  acc.truncate(sums);
  SmallVector<Value> results;
  if (sums == 1 && !c.invariant)
    results.push_back(b.create<vector::ReductionOp>(
        vector::CombiningKind::ADD, acc[0], arith::FastMathFlags::reassoc));
  else
    results = b.sums(acc);
  auto placeOf = [&](size_t i) {
    SmallVector<Value> at = rowsOfC[i % rows];
    at.push_back(of[i / rows].n);
    return at;
  };
  // All of c is read before it is written, because a row may be there twice.
  for (auto [i, sum] : llvm::enumerate(results)) {
    const Column &column = of[i / rows];
    if (c.k() % width)
      sum = tail(sum, static_cast<int64_t>(i) % rows, column);
    if (!c.fromZero)
      sum = b.create<arith::AddFOp>(
          sum, b.create<memref::LoadOp>(column.product->c, placeOf(i)));
  }
  for (auto [i, sum] : llvm::enumerate(results))
    b.create<memref::StoreOp>(sum, of[i / rows].product->c, placeOf(i));
}

void DotTile::emit() {
  SmallVector<Value> acc = zeros();
  if (wholeTurns())
    acc = add(acc, b.index(0), b.index(wholeTurns()));
  finish(acc);
}

/// A tile of the first row of a.
static void emitRow(VectorBuilder &b, ArrayRef<Column> columns, bool fetches) {
  Fetch fetch;
  fetch.none = !fetches;
  DotTile(b, columns, b.index(0), b.index(1), /*rows=*/1, fetch).emit();
}

void cria::emitDotTile(VectorBuilder &b, ArrayRef<Column> columns) {
  emitRow(b, columns, /*fetches=*/columns.size() > 1);
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
/// Multiplies some rows of a, eight, four, two or one at a time, so that each
/// loaded weight is used as often. A last tile that rows do not fill computes
/// the last row more than once. Blocks of columns are adjacent rows of b, or
/// far ones (`streams`). Groups of blocks stay in the L2 cache while all rows
/// are multiplied, and the next group is fetched; if one tile has all rows, the
/// next blocks are:
///
///   for groups of blocks, in parallel:
///     widen the group's rows of b, if b has blocks of numbers
///     for tiles of rows:
///       for slices of k, if a tile's rows would not stay in the L1 cache:
///         for blocks of the group: add the products to the tile's sums
class FewRows {
public:
  FewRows(VectorBuilder &b, const Contraction &c, bool streams)
      : b(b), c(c), streams(streams && b.unit.streams > 1 && !c.blocks) {
    auto bytesOf = [&](Type element) {
      return c.k() * element.getIntOrFloatBitWidth() / 8;
    };
    columns = b.unit.registers == 16 || c.hasPairs(b.unit) ? 2 : 4;
    most = b.unit.registers / 2 / columns;
    blocks = c.n() / columns;
    int64_t fit = kGroupBytes / (columns * bytesOf(c.bType()));
    int64_t share = c.experts ? fit : blocks / kLeastGroups;
    together = std::clamp<int64_t>(std::min(fit, share), 1, kExpertBlocks);
    slices = this->streams || together == 1
                 ? 1
                 : llvm::divideCeil(most * bytesOf(c.aType()), kRowBytes);
  }

  int64_t groups() const { return llvm::divideCeil(blocks, together); }
  /// Makes the room for widened rows here, and not in each group.
  void makeCopy() { room = allocate(together * columns); }
  /// A group of blocks of columns of the rows [begin, end).
  void group(Value begin, Value end, Value number) {
    Value first = b.mul(number, together), last = b.add(first, together);
    if (blocks % together)
      last = b.min(last, b.index(blocks));
    multiply(begin, end, first, last, columns);
  }
  /// Whether columns are left, which fill no block.
  bool hasOthers() const { return c.n() % columns; }
  void others(Value begin, Value end) {
    multiply(begin, end, b.index(blocks * columns), b.index(c.n()), 1);
  }

private:
  void multiply(Value begin, Value end, Value first, Value last,
                int64_t columns);
  Value allocate(int64_t rows);
  Value widen(Value first, Value end, int64_t most);
  int64_t blocksOfTile(int64_t rows) const;
  Fetch fetchOf(Value tile, Value tiles, int64_t columnsOfTile);
  /// Calls a function for each tile of some rows, with the tile's first block.
  using ForTiles =
      llvm::function_ref<void(llvm::function_ref<void(DotTile &, Value)>)>;
  void inSlices(Value sums, ForTiles forTiles);

  VectorBuilder &b;
  const Contraction &c;
  bool streams; // whether rows of b that are far apart are read together
  // Of a tile: rows of b, and at most rows of a. Half of the registers are
  // accumulators.
  int64_t columns, most;
  // `blocks`: how many blocks the columns make. `together`: the most blocks of
  // a group. `slices`: into how many slices k is cut.
  int64_t blocks, together, slices;
  Value room; // for widened rows; null: each group makes its own
};
} // namespace

/// The blocks of a tile: with fewer rows more, so that there are as many
/// accumulators, if two operands of each leave registers for them.
int64_t FewRows::blocksOfTile(int64_t rows) const {
  bool fits = b.unit.registers == 32 && partsOf(b.unit, c) == 1;
  return fits ? std::gcd(std::gcd(blocks, together), most / rows) : 1;
}

/// If one tile has all rows, it fetches the columns of the next tile. Otherwise
/// the tiles divide the turns in which the next group is fetched: each has
/// every nth of them, where n is the next power of two. Streams fetch their own
/// rows, in the first tile.
Fetch FewRows::fetchOf(Value tile, Value tiles, int64_t columnsOfTile) {
  Fetch fetch;
  fetch.first = fetch.second = tile;
  if (streams) {
    fetch.mask = b.index(0);
    return fetch;
  }
  Value group = b.index(together * columns);
  int64_t bytes = c.k() * c.bType().getIntOrFloatBitWidth() / 8;
  int64_t near =
      llvm::alignTo(llvm::divideCeil(kNearBytes, bytes), columnsOfTile);
  // Rows of the group that are in blocks are in a cache already.
  fetch.rows = c.blocks ? group
                        : b.create<arith::SelectOp>(b.equal(tiles, b.index(1)),
                                                    b.index(near), group);
  fetch.second = b.add(tile, tiles);
  fetch.mask = b.sub(tiles, b.index(1));
  for (int64_t shift : {1, 2, 4, 8})
    fetch.mask = b.create<arith::OrIOp>(
        fetch.mask, b.create<arith::ShRUIOp>(fetch.mask, b.index(shift)));
  return fetch;
}

Value FewRows::allocate(int64_t rows) {
  return b.create<memref::AllocaOp>(MemRefType::get({rows, c.k()}, c.bType()),
                                    b.getI64IntegerAttr(64));
}

/// The rows [first, end) of b, at most `most`, as numbers.
Value FewRows::widen(Value first, Value end, int64_t most) {
  Value copy = room ? room : allocate(most);
  b.loop(first, end, 1, [&](Value row) {
    b.loop(b.index(0), b.index(c.blocks->blocks()), 1, [&](Value block) {
      copyBlock(b, *c.blocks, row, block, copy, {b.sub(row, first)},
                b.mul(block, BlockProduct::kNumbers));
    });
  });
  return copy;
}

void FewRows::multiply(Value begin, Value end, Value first, Value last,
                       int64_t columns) {
  Value copy, firstRow = b.mul(first, columns);
  if (c.blocks)
    copy = widen(firstRow, b.mul(last, columns),
                 columns == 1 ? c.n() % this->columns : together * columns);
  Value tiles = b.ceilDiv(b.sub(end, begin), most), sums;
  if (slices > 1 && columns > 1)
    sums = b.create<memref::AllocaOp>(
        MemRefType::get({together, b.unit.registers / 2, b.unit.lanes},
                        b.getF32Type()),
        b.getI64IntegerAttr(64));
  Value now = begin, done = b.index(0); // rows and tiles
  for (int64_t rows = most; rows; rows /= 2) {
    // Of what is left, at most half of a tile is left again.
    Value count = b.div(b.add(b.sub(end, now), (rows - 1) / 2), rows);
    Value next = b.min(b.add(now, b.mul(count, rows)), end);
    b.loop(now, next, rows, [&](Value m) {
      int64_t step = columns > 1 ? blocksOfTile(rows) : 1;
      Fetch fetch = fetchOf(b.add(done, b.div(b.sub(m, now), rows)), tiles,
                            step * columns);
      fetch.none = columns == 1;
      auto forTiles = [&](llvm::function_ref<void(DotTile &, Value)> body) {
        b.loop(first, last, step, [&](Value number) {
          SmallVector<Column> of;
          bool far = streams && columns > 1;
          for (int64_t i = 0; i < step; ++i) {
            Value n = b.add(number, i);
            of.append(columnsOf(b, c, far ? n : b.mul(n, columns), columns,
                                /*apart=*/far ? blocks : 1));
          }
          for (Column &column : of)
            if (copy) {
              column.copy = copy;
              column.copied = b.sub(column.n, firstRow);
            }
          DotTile tile(b, of, m, end, rows, fetch);
          body(tile, b.sub(number, first));
        });
      };
      if (sums)
        inSlices(sums, forTiles);
      else
        forTiles([](DotTile &tile, Value) { tile.emit(); });
    });
    now = next;
    done = b.add(done, count);
  }
}

/// Computes tiles one slice of k after the other. In between their sums are in
/// `sums` (blocks, accumulators, lanes).
void FewRows::inSlices(Value sums, ForTiles forTiles) {
  auto at = [&](Value place, size_t i) -> SmallVector<Value> {
    return {place, b.index(static_cast<int64_t>(i)), b.index(0)};
  };
  auto put = [&](ValueRange acc, Value place) {
    for (auto [i, sum] : llvm::enumerate(acc))
      b.store(sum, sums, at(place, i));
  };
  auto get = [&](DotTile &tile, Value place) {
    SmallVector<Value> acc = tile.zeros();
    for (auto [i, sum] : llvm::enumerate(acc))
      sum = b.load(sums, at(place, i), b.unit.lanes);
    return acc;
  };
  int64_t turn = 0, whole = 0;
  forTiles([&](DotTile &tile, Value place) {
    turn = tile.turn();
    whole = tile.wholeTurns();
    put(tile.zeros(), place);
  });
  int64_t slice = llvm::alignTo(llvm::divideCeil(c.k(), slices), turn);
  b.loop(b.index(0), b.index(whole), slice, [&](Value k) {
    Value end = b.min(b.add(k, slice), b.index(whole));
    forTiles([&](DotTile &tile, Value place) {
      put(tile.add(get(tile, place), k, end), place);
    });
  });
  forTiles([&](DotTile &tile, Value place) { tile.finish(get(tile, place)); });
}

void cria::emitFewDots(VectorBuilder &b, const Contraction &c) {
  if (c.blocks)
    return b.when(b.less(b.index(0), b.size(c.a, 0)),
                  [&] { emitDots(b, c, /*parallel=*/true); });
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
      body(FewRows(b, of, /*streams=*/true), part, b.rem(i, units));
    });
  };
  FewRows all(b, c, /*streams=*/true);
  forParts(all.groups(),
           [&](FewRows few, const ExpertPart &part, Value number) {
             few.group(part.begin, part.end, number);
           });
  if (all.hasOthers())
    forParts(1, [&](FewRows few, const ExpertPart &part, Value) {
      few.others(part.begin, part.end);
    });
}

/// Calls `body` for blocks of a product, on all threads if `parallel`.
static void forBlocks(VectorBuilder &b, int64_t blocks, bool parallel,
                      llvm::function_ref<void(Value)> body) {
  if (parallel)
    b.parallel(b.index(blocks), body);
  else
    b.loop(b.index(0), b.index(blocks), 1, body);
}

int64_t cria::columnsOfDot(const VectorUnit &unit, Type weights) {
  return unit.lanes == 16 && weights.isF16()
             ? std::max<int64_t>(unit.streams, 4)
             : unit.streams;
}

void cria::emitDot(VectorBuilder &b, const Contraction &c, bool parallel) {
  // An invariant product has one set of accumulators, and one column would wait
  // for its sum.
  bool far = b.unit.streams > 1;
  int64_t most = columnsOfDot(b.unit, c.bType());
  int64_t columns = c.invariant ? std::max<int64_t>(most, 2) : most;
  int64_t blocks = c.n() / columns;
  forBlocks(b, blocks, parallel, [&](Value block) {
    Value n = far ? block : b.mul(block, columns);
    emitRow(b, columnsOf(b, c, n, columns, /*apart=*/far ? blocks : 1),
            /*fetches=*/most > 1);
  });
  b.loop(b.index(blocks * columns), b.index(c.n()), 1, [&](Value n) {
    emitDotTile(b, Column{&c, n});
  });
}

void cria::emitDots(VectorBuilder &b, const Contraction &c, bool parallel) {
  // Streams fetch what all threads read from memory, and not the blocks of an
  // iteration, which are in a cache.
  FewRows few(b, c, /*streams=*/parallel);
  if (c.blocks && !parallel)
    few.makeCopy();
  Value zero = b.index(0), rows = b.size(c.a, 0);
  forBlocks(b, few.groups(), parallel,
            [&](Value group) { few.group(zero, rows, group); });
  if (few.hasOthers())
    few.others(zero, rows);
}
