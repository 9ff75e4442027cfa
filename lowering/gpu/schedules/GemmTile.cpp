#include "lowering/gpu/schedules/GemmTile.h"
#include "dialect/Attributes.h"
#include "lowering/entry/Entry.h"
#include "lowering/kernel/BlockProduct.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static int64_t lengthOf(const Dot &dot) {
  int64_t terms = dot.terms.constant;
  return dot.bits ? terms / BlockProduct::kNumbers *
                        BlockProduct::blockBytes(dot.bits)
                  : terms;
}

/// Sums of a thread that are in memory side by side.
static constexpr int64_t kVector = 4;

GemmTile::GemmTile(Launch &launch, ArrayRef<Work> works, const GemmShape &shape,
                   const GemmRows &rows)
    : launch(launch), b(launch.b), works(works),
      k(works[0].dots[0].terms.constant),
      weightLength(lengthOf(works[0].dots[0])), m(shape.m), n(shape.n),
      steps(llvm::divideCeil(k, shape.step)),
      x(Operand::of(launch, works[0], works[0].dots[0].x, k)), width(x.width),
      fixedRows(invariantRows(launch.of.kernel)), rows(rows), shape(shape),
      few(rows.most <= m), wholeSteps(k % shape.step == 0) {
  if (fixedRows) // it is the only kernel
    this->rows.above = 0;
  for (const Work &work : works) {
    workTiles.push_back(llvm::divideCeil(work.units, unitsOfTile()));
    SmallVector<Operand> &own = weights.emplace_back();
    for (const Dot &dot : work.dots) {
      own.push_back(Operand::of(launch, work, dot.w, k));
      if (!dot.bits)
        width = std::min(width, own.back().width);
    }
  }
  room = tiles() < shape.splits.wholeTiles ? shape.blocks / tiles() : 1;
  int64_t most = std::min(room / shape.leastDown, shape.splits.most);
  splits = std::clamp(k / shape.splits.leastTerms, int64_t(1),
                      std::max(most, int64_t(1)));
  if (isFixed())
    room = splits = llvm::divideCeil(steps, llvm::divideCeil(steps, splits));
  if (!few && shape.clusters)
    room *= llvm::divideCeil(rows.most, m);
}

std::optional<int64_t> simt::invariantRows(func::FuncOp kernel) {
  if (!kernel->hasAttr(kInvariantAttribute))
    return std::nullopt;
  return chunkOf(kernel);
}

/// Also asks that `at` is below `end`.
void GemmTile::restrict(Value &exists, Value at, Value end) {
  Value below = b.less(at, end);
  exists = exists ? b.both(exists, below) : below;
}

Value GemmTile::orZero(Value exists, Value at) {
  return exists ? b.select(exists, at, b.i32(0)) : at;
}

Value GemmTile::rowAt(Value place) {
  return shape.groups.order ? b.load(launch.rows(shape.groups.order, 1),
                                     b.i32(0), place, 1, Access::ReadOnly)
                            : place;
}

GemmTile::Guarded GemmTile::elementOf(const Operand &operand, int64_t length,
                                      const Corner &corner, Value row,
                                      Value column) {
  Value at = b.add(corner.row, row), exists;
  restrict(exists, at, corner.rows);
  if (!wholeSteps)
    restrict(exists, column, b.i32(length));
  SmallVector<Value> loops =
      works[0].loops(b, rowAt(orZero(exists, at)), b.i32(0));
  return {b.address(operand.rows, launch.value(operand.row, loops),
                    b.add(wholeSteps ? column : orZero(exists, column),
                          launch.value(operand.column, loops))),
          exists};
}

/// Whether the units of all works fill their tiles.
bool GemmTile::hasWholeTiles() const {
  return llvm::all_of(
      works, [&](const Work &work) { return work.units % unitsOfTile() == 0; });
}

int64_t GemmTile::tiles() const {
  return std::accumulate(workTiles.begin(), workTiles.end(), int64_t(0));
}

/// Sets how many splits the tile has; returns their steps of k. Of many rows
/// they are fewer the more rows there are.
Value GemmTile::setSplits(Corner &corner) {
  Value counted = fixedRows ? b.i32(*fixedRows) : corner.rows;
  Value all = b.i32(steps), down = b.ceilDiv(counted, m);
  Value wanted = b.create<arith::DivUIOp>(b.i32(room), down);
  wanted = b.max(b.min(wanted, b.i32(splits)), b.i32(1));
  Value each = b.create<arith::CeilDivUIOp>(all, wanted);
  corner.splits = b.create<arith::CeilDivUIOp>(all, each);
  return each;
}

/// Sets the steps of k of the block's split, of `each` steps.
void GemmTile::setSteps(Corner &corner, Value each) {
  Value all = b.i32(steps);
  corner.first = splits == 1 ? b.i32(0) : b.mul(corner.split, each);
  corner.end = splits == 1 ? all : b.min(b.add(corner.first, each), all);
}

/// Sets which work the tile belongs to, and where it begins.
void GemmTile::setUnits(Corner &corner) {
  corner.row = b.mul(corner.tileRow, m);
  corner.unit = b.mul(corner.tile, unitsOfTile());
  corner.units = b.i32(works[0].units);
  int64_t before = 0;
  for (const auto &[work, own] : llvm::zip(works.drop_front(), workTiles)) {
    before += own;
    Value reached = b.less(b.i32(before - 1), corner.tile);
    Value unit = b.mul(b.sub(corner.tile, b.i32(before)), unitsOfTile());
    corner.unit = b.select(reached, unit, corner.unit);
    corner.units = b.select(reached, b.i32(work.units), corner.units);
    corner.reached.push_back(reached);
  }
}

/// The tile of a block and its split:
///
///   few rows   block (tile * splits + split, 0)
///   clusters   block (tile * splits + split, tile down)
///   many       block (tile, tile down * splits + split)
///
/// Blocks beyond the splits that there are have nothing to do.
GemmTile::Corner GemmTile::cornerOf(Value x, Value y, Value rows) {
  Corner corner;
  corner.rows = rows;
  corner.tile = x;
  corner.tileRow = few ? b.i32(0) : y;
  Value each;
  if (shape.groups.order) {
    setSteps(corner, each);
    setUnits(corner);
    Rows tiles = launch.rows(shape.groups.tiles, 2);
    corner.row = b.load(tiles, y, b.i32(0), 1, Access::ReadOnly);
    corner.rows = b.load(tiles, y, b.i32(1), 1, Access::ReadOnly);
    corner.exists = b.less(corner.row, corner.rows);
    return corner;
  }
  if (splits > 1 && isFixed()) {
    corner.tile = b.div(x, splits);
    corner.split = b.rem(x, splits);
    corner.splits = b.i32(splits);
    each = b.i32(llvm::divideCeil(steps, splits));
  } else if (splits > 1) {
    each = setSplits(corner);
    corner.tileRow = b.create<arith::DivUIOp>(y, corner.splits);
    corner.split = b.create<arith::RemUIOp>(y, corner.splits);
    corner.exists = b.less(y, b.mul(b.ceilDiv(rows, m), corner.splits));
  }
  setSteps(corner, each);
  setUnits(corner);
  return corner;
}

Value GemmTile::turns(Value rows) {
  Corner corner;
  corner.rows = rows;
  Value pairs = b.ceilDiv(b.mul(b.ceilDiv(rows, m), tiles()), 2);
  if (splits == 1)
    return pairs;
  setSplits(corner);
  return b.mul(pairs, corner.splits);
}

/// Tiles are numbered down first, and tiles 2i and 2i + 1 are a pair:
///
///   3 down, 2 across   (0, 1) (2,   across: 0) (1, 2)
///
/// So the two tiles of nearly every pair have the same weights, and weights are
/// not read again after their products with all rows of the input.
GemmTile::Corner GemmTile::cornerOf(Value turn, Value rows) {
  Corner corner;
  corner.rows = rows;
  Value down = b.ceilDiv(rows, m), pair = turn, each;
  if (splits > 1) {
    each = setSplits(corner);
    pair = b.create<arith::DivUIOp>(turn, corner.splits);
    corner.split = b.create<arith::RemUIOp>(turn, corner.splits);
  }
  corner.ofPair = b.block(1);
  Value first = b.mul(pair, 2), number = b.add(first, corner.ofPair);
  if (tiles() % 2) {
    Value all = b.mul(down, tiles());
    restrict(corner.exists, number, all);
    number = b.min(number, b.sub(all, b.i32(1)));
  }
  corner.tile = b.create<arith::DivUIOp>(number, down);
  corner.tileRow = b.create<arith::RemUIOp>(number, down);
  Value lastRow = b.sub(down, b.i32(1));
  corner.sharesWeights = b.create<arith::CmpIOp>(
      arith::CmpIPredicate::ne, b.create<arith::RemUIOp>(first, down), lastRow);
  setSteps(corner, each);
  setUnits(corner);
  return corner;
}

GemmTile::Guarded GemmTile::elementW(const Corner &corner, const UnitSum &mine,
                                     Value column) {
  Value unit = b.add(corner.unit, mine.unit), exists;
  if (!hasWholeTiles())
    restrict(exists, unit, corner.units);
  if (!wholeSteps)
    restrict(exists, column, b.i32(weightLength));
  unit = orZero(exists, unit);
  if (!wholeSteps)
    column = orZero(exists, column);
  Rows weight = weights[0][0].rows;
  // A type for memory of all sizes: weights may be rows of larger ones.
  auto anySize = MemRefType::get({ShapedType::kDynamic}, weight.element);
  Type size = weight.base.getType();
  bool isOneSize =
      works.size() == 1 && llvm::all_of(weights[0], [&](const Operand &own) {
        return own.rows.base.getType() == size;
      });
  auto baseOf = [&](const Operand &operand) -> Value {
    return isOneSize ? operand.rows.base
                     : b.create<memref::CastOp>(anySize, operand.rows.base);
  };
  weight.base = baseOf(weights[0][0]);
  Value weightRow, first;
  for (auto [i, work] : llvm::enumerate(works)) {
    Value row = shape.groups.order ? rowAt(corner.row) : b.i32(0);
    SmallVector<Value> loops = work.loops(b, row, unit);
    for (auto [s, operand] : llvm::enumerate(weights[i])) {
      Value ownRow = launch.value(operand.row, loops);
      Value ownFirst = launch.value(operand.column, loops);
      if (!weightRow) {
        weightRow = ownRow;
        first = ownFirst;
        continue;
      }
      // Those of later sums and works take the place of earlier ones.
      Value isOwn;
      if (s)
        isOwn = b.equal(mine.sum, b.i32(s));
      if (i)
        isOwn = isOwn ? b.both(corner.reached[i - 1], isOwn)
                      : corner.reached[i - 1];
      weightRow = b.select(isOwn, ownRow, weightRow);
      first = b.select(isOwn, ownFirst, first);
      weight.base = b.select(isOwn, baseOf(operand), weight.base);
    }
  }
  return {b.address(weight, weightRow, b.add(column, first)), exists};
}

void GemmTile::when(Value exists, llvm::function_ref<void()> body) {
  if (exists)
    b.when(exists, body);
  else
    body();
}

/// Reads all before it stores, so that no read waits for another. Sums whose
/// row or unit does not exist are computed at the place of the first of `sums`,
/// which this thread alone stores, and are not stored.
void GemmTile::finish(const Work &work, const Corner &corner,
                      ArrayRef<Sums> sums) {
  Size rows = work.rows();
  bool hasAllRows = rows.isConstant() && rows.constant % m == 0,
       hasAllUnits = work.units % unitsOfTile() == 0;
  auto count = static_cast<int64_t>(sums[0].values[0].size());
  int64_t width = work.width(launch, std::gcd(count, work.units));
  Value units = b.i32(work.units);
  Value firstRow = b.add(corner.row, sums[0].row),
        firstUnit = b.add(corner.unit, sums[0].unit);
  struct Store {
    Value exists;
    llvm::unique_function<void()> store;
  };
  std::vector<Store> stores;
  auto computeVector = [&](const Sums &own, int64_t i) {
    Value row = b.add(corner.row, own.row),
          unit = b.add(b.add(corner.unit, own.unit), i), exists;
    if (!hasAllRows) {
      restrict(exists, row, corner.rows);
      row = b.select(exists, row, firstRow);
    }
    if (!hasAllUnits) {
      restrict(exists, unit, units);
      unit = b.select(b.less(unit, units), unit, firstUnit);
    }
    SmallVector<Value> products;
    for (ArrayRef<Value> values : own.values)
      products.push_back(b.pack(values.slice(i, width)));
    row = rowAt(row);
    auto values = work.compute(launch, row, unit, products, width);
    stores.push_back(
        {exists, [=, &work] { work.store(launch, row, unit, values, width); }});
  };
  Value exists;
  if (!hasAllRows)
    restrict(exists, firstRow, corner.rows);
  if (!hasAllUnits)
    restrict(exists, firstUnit, units);
  when(exists, [&] {
    for (const Sums &own : sums)
      for (int64_t i = 0; i < count; i += width)
        computeVector(own, i);
    for (Store &one : stores)
      when(one.exists, one.store);
  });
}

/// The elements that a unit is computed from, beside its products.
static size_t readsOf(Elements &elements, const Work &work) {
  SmallVector<Element> reads;
  for (const Store &store : work.part.stores)
    elements.leaves(store.value, work.part.box, [&](const Element &leaf) {
      if (!llvm::is_contained(work.sums, leaf) &&
          !llvm::is_contained(reads, leaf))
        reads.push_back(leaf);
    });
  return reads.size();
}

void GemmTile::finishWorks(const Corner &corner, ArrayRef<Sums> sums) {
  // All that q, k and v read at once does not fit registers, nor do the biases
  // that each row's expert has for gate and up. So they are finished in at
  // least two parts, and in as many as a work reads elements for a unit.
  size_t parts = finishedParts();
  if (works.size() > 1 || (shape.groups.order && works[0].sums.size() > 1)) {
    parts = std::max(parts, size_t(2));
    for (const Work &work : works)
      parts = std::max(parts, readsOf(launch.of.elements, work));
  }
  size_t each = llvm::divideCeil(sums.size(), parts);
  branch(b, workTiles, corner.tile, [&](size_t i, Value) {
    for (size_t first = 0; first < sums.size(); first += each)
      finish(works[i], corner,
             sums.slice(first, std::min(each, sums.size() - first)));
  });
}

/// Where a thread's sums of a split begin: its vectors are `threads` rows
/// apart.
Address GemmTile::sumsOfSplit(const Corner &corner, Value split,
                              int64_t count) {
  Value before = b.mul(corner.tileRow, corner.splits);
  Value all = b.add(b.mul(corner.tile, room), b.add(before, split));
  Value row = b.add(b.mul(all, count / kVector * shape.threads), b.thread());
  return b.address(launch.rows(memory.sums, kVector), row, b.i32(0));
}

/// Leaves the block's sums in memory.
void GemmTile::leaveSums(const Corner &corner, ArrayRef<Value> values) {
  Rows rows = launch.rows(memory.sums, kVector);
  auto count = static_cast<int64_t>(values.size());
  Address to = sumsOfSplit(corner, corner.split, count);
  for (int64_t i = 0; i < count; i += kVector)
    b.storeTo(b.pack(values.slice(i, kVector)),
              b.further(to, rows, i / kVector * shape.threads, 0));
}

/// Leaves the block's sums in memory. Whether it is the last of its tile that
/// does.
Value GemmTile::isFinisher(const Corner &corner, ArrayRef<Value> values) {
  leaveSums(corner, values);
  return b.arrivesLast(launch.rows(memory.arrivals, 1),
                       b.add(b.mul(corner.tile, room), corner.tileRow),
                       corner.splits, freeMemory(), [&] { barrier(); });
}

/// The sums of all splits, added up in their order.
SmallVector<Value> GemmTile::merged(const Corner &corner, int64_t count) {
  Rows rows = launch.rows(memory.sums, kVector);
  auto type = VectorType::get({kVector}, rows.element);
  SmallVector<Value> init(count, b.f32(0));
  return b.loop(
      b.i32(0), corner.splits, 1, init, [&](Value split, ValueRange carried) {
        Address from = sumsOfSplit(corner, split, count);
        SmallVector<Value> next(carried);
        for (int64_t i = 0; i < count; i += kVector) {
          int64_t row = i / kVector * shape.threads;
          Value part = b.loadFrom(b.further(from, rows, row, 0), type);
          for (int64_t e = 0; e < kVector; ++e)
            next[i + e] = b.fadd(next[i + e], b.extract(part, e));
        }
        return next;
      });
}

/// Sums [part * size, (part + 1) * size) of the thread's `count`, each added
/// over all splits in split order. All loads are in flight at once.
SmallVector<Value> GemmTile::mergedPart(const Corner &corner, int64_t count,
                                        Value part, int64_t size) {
  Rows rows = launch.rows(memory.sums, kVector);
  auto type = VectorType::get({kVector}, rows.element);
  Value before = b.mul(part, size / kVector * shape.threads * kVector);
  std::vector<SmallVector<Value>> parts(splits);
  for (int64_t split = 0; split < splits; ++split) {
    Address from = b.further(sumsOfSplit(corner, b.i32(split), count), before);
    for (int64_t i = 0; i < size; i += kVector)
      parts[split].push_back(b.loadFrom(
          b.further(from, rows, i / kVector * shape.threads, 0), type));
  }
  SmallVector<Value> sums(size, b.f32(0));
  for (ArrayRef<Value> own : parts)
    for (int64_t i = 0; i < size; ++i)
      sums[i] = b.fadd(sums[i], b.extract(own[i / kVector], i % kVector));
  return sums;
}

/// Block i of a cluster has the sums i, i + splits and so on of each thread.
void GemmTile::finishCluster(
    const Corner &corner, ArrayRef<Sums> sums,
    llvm::function_ref<void()> barrier,
    llvm::function_ref<std::pair<Value, Value>(Value number)> placeOf) {
  SmallVector<Value> values;
  for (const Sums &own : sums)
    for (ArrayRef<Value> each : own.values)
      llvm::append_range(values, each);
  leaveSums(corner, values);
  barrier();
  auto count = static_cast<int64_t>(values.size()),
       places = static_cast<int64_t>(sums.size()), size = count / places;
  for (int64_t first = 0; first < places; first += splits) {
    Value number = b.add(corner.split, first);
    auto finishOne = [&] {
      SmallVector<Value> all = mergedPart(corner, count, number, size);
      Sums own;
      std::tie(own.row, own.unit) = placeOf(number);
      for (size_t begin = 0, s = 0; s < sums[0].values.size(); ++s) {
        size_t each = sums[0].values[s].size();
        own.values.emplace_back(ArrayRef(all).slice(begin, each));
        begin += each;
      }
      finishWorks(corner, own);
    };
    if (first + splits <= places)
      finishOne();
    else
      b.when(b.less(number, b.i32(places)), finishOne);
  }
}

/// The block that arrives last has all sums of its tile; the others are done.
void GemmTile::finishSplits(const Corner &corner, std::vector<Sums> sums) {
  SmallVector<Value> values;
  for (const Sums &own : sums)
    for (ArrayRef<Value> each : own.values)
      llvm::append_range(values, each);
  Value isSplit = b.less(b.i32(1), corner.splits);
  Value finishes = b.choose(
      isSplit, [&] { return isFinisher(corner, values); },
      b.create<arith::ConstantOp>(b.getBoolAttr(true)));
  b.when(finishes, [&] {
    ValueRange all = b.choose(
        isSplit, [&] { return merged(corner, values.size()); },
        [&] { return values; });
    for (Sums &own : sums)
      for (SmallVector<Value> &each : own.values) {
        llvm::copy(all.take_front(each.size()), each.begin());
        all = all.drop_front(each.size());
      }
    finishWorks(corner, sums);
  });
}

void GemmTile::finishTile(const Corner &corner, std::vector<Sums> sums) {
  if (splits == 1)
    finishWorks(corner, sums);
  else
    finishSplits(corner, std::move(sums));
}

void GemmTile::multiplyOne(
    Value rows, llvm::function_ref<std::vector<Sums>(const Corner &)> multiply,
    llvm::function_ref<void(const Corner &)> prefetch) {
  Value x = b.block(0), y = b.block(1);
  Corner corner = cornerOf(x, y, rows);
  if (prefetch)
    prefetch(corner);
  auto multiplyTile = [&] {
    std::vector<Sums> sums = multiply(corner);
    // Computed again: registers are few while products are added up.
    finishTile(splits == 1 ? corner
                           : cornerOf(b.opaque(x), b.opaque(y), b.opaque(rows)),
               std::move(sums));
  };
  when(corner.exists, multiplyTile);
}

/// The grid. It is empty if another kernel handles this number of rows. A
/// persistent grid is (pairs of blocks, 2), whatever the rows.
SmallVector<Value> GemmTile::grid() {
  KernelFunction &of = launch.of;
  Size size = works[0].rows();
  Value first = of.constant(tiles() * (isFixed() ? splits : 1)), second;
  if (shape.groups.order)
    return {first, of.constant(shape.groups.mostTiles)};
  if (shape.persistent) {
    first =
        of.blocks(size, std::numeric_limits<int32_t>::max(), shape.blocks / 2);
    second = of.constant(2);
  } else {
    second = of.blocks(size, m, isFixed() || splits == 1 ? 1 : room);
  }
  Value &some = shape.persistent ? first : second;
  if (!size.isConstant() && rows.most != kAnyRows)
    some = of.blocksWhere(size, rows.most, /*beyond=*/false, some);
  if (!size.isConstant() && (rows.above || splits > 1))
    some = of.blocksWhere(size, rows.above, /*beyond=*/true, some);
  return {first, second};
}

void GemmTile::emit(const Splits &memory) {
  this->memory = memory;
  multiplyTiles(launch.number(works[0].rows()));
  launch.finish(grid(), launchedBytes());
}
