#include "lowering/gpu/GemmTile.h"
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

GemmTile::GemmTile(Launch &launch, ArrayRef<Work> works, int64_t m, int64_t n,
                   int64_t step)
    : launch(launch), b(launch.b), works(works),
      k(works[0].dots[0].terms.constant),
      weightLength(lengthOf(works[0].dots[0])), m(m), n(n),
      x(Operand::of(launch, works[0], works[0].dots[0].x, k)), width(x.width),
      wholeSteps(k % step == 0) {
  for (const Work &work : works) {
    workTiles.push_back(llvm::divideCeil(work.units, unitsOfTile()));
    SmallVector<Operand> &own = weights.emplace_back();
    for (const Dot &dot : work.dots) {
      own.push_back(Operand::of(launch, work, dot.w, k));
      width = std::min(width, own.back().width);
    }
  }
}

/// Also asks that `at` is below `end`.
void GemmTile::restrict(Value &exists, Value at, Value end) {
  Value below = b.less(at, end);
  exists = exists ? b.both(exists, below) : below;
}

Value GemmTile::orZero(Value exists, Value at) {
  return exists ? b.select(exists, at, b.i32(0)) : at;
}

GemmTile::Source GemmTile::elementOf(const Operand &operand, int64_t length,
                                     const Corner &corner, Value row,
                                     Value column) {
  Value at = b.add(corner.row, row), exists;
  restrict(exists, at, corner.rows);
  if (!wholeSteps)
    restrict(exists, column, b.i32(length));
  SmallVector<Value> loops(works[0].part.box.size());
  if (works[0].row)
    loops[*works[0].row] = orZero(exists, at);
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

int64_t GemmTile::blocks() const {
  return std::accumulate(workTiles.begin(), workTiles.end(), int64_t(0));
}

GemmTile::Corner GemmTile::cornerOf() {
  Corner corner;
  corner.unit = b.mul(b.block(0), unitsOfTile());
  corner.units = b.i32(works[0].units);
  corner.row = b.mul(b.block(1), m);
  corner.rows = launch.number(works[0].rows());
  int64_t tiles = 0;
  for (const auto &[work, own] : llvm::zip(works.drop_front(), workTiles)) {
    tiles += own;
    Value reached = b.less(b.i32(tiles - 1), b.block(0));
    Value unit = b.mul(b.sub(b.block(0), b.i32(tiles)), unitsOfTile());
    corner.unit = b.select(reached, unit, corner.unit);
    corner.units = b.select(reached, b.i32(work.units), corner.units);
    corner.reached.push_back(reached);
  }
  return corner;
}

GemmTile::Source GemmTile::elementW(const Corner &corner, Value row,
                                    Value column) {
  UnitSum mine = unitOf(row);
  Value unit = b.add(corner.unit, mine.unit), exists;
  if (!hasWholeTiles())
    restrict(exists, unit, corner.units);
  if (!wholeSteps)
    restrict(exists, column, b.i32(weightLength));
  unit = orZero(exists, unit);
  if (!wholeSteps)
    column = orZero(exists, column);
  // A type for memory of all sizes.
  Rows weight = weights[0][0].rows;
  auto anySize = MemRefType::get({ShapedType::kDynamic}, weight.element);
  auto baseOf = [&](const Operand &operand) -> Value {
    return works.size() == 1
               ? operand.rows.base
               : b.create<memref::CastOp>(anySize, operand.rows.base);
  };
  weight.base = baseOf(weights[0][0]);
  Value weightRow, first;
  for (auto [i, work] : llvm::enumerate(works)) {
    SmallVector<Value> loops = work.loops(b, b.i32(0), unit);
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

/// Calls `body` for vectors of a work's units: the row and the first unit, of
/// all rows and units, their products, and how many units they are.
void GemmTile::forEachVector(const Work &work, const Corner &corner,
                             ArrayRef<Sums> sums, VectorBody body) {
  auto count = static_cast<int64_t>(sums[0].values[0].size());
  int64_t width = work.width(launch, std::gcd(count, work.units));
  for (const Sums &own : sums)
    for (int64_t i = 0; i < count; i += width) {
      SmallVector<Value> products;
      for (ArrayRef<Value> values : own.values)
        products.push_back(b.pack(values.slice(i, width)));
      body(b.add(corner.row, own.row), b.add(b.add(corner.unit, own.unit), i),
           products, width);
    }
}

/// Whether all of the tile's rows and units exist; null where all tiles are so.
Value GemmTile::isWhole(const Work &work, const Corner &corner) {
  Value whole;
  Size rows = work.rows();
  if (!rows.isConstant() || rows.constant % m)
    restrict(whole, b.add(corner.row, m - 1), corner.rows);
  if (work.units % unitsOfTile())
    restrict(whole, b.add(corner.unit, unitsOfTile() - 1), b.i32(work.units));
  return whole;
}

/// A whole tile: reads all before it stores, so that no read waits for another.
void GemmTile::finishWhole(const Work &work, const Corner &corner,
                           ArrayRef<Sums> sums) {
  SmallVector<llvm::unique_function<void()>> stores;
  forEachVector(work, corner, sums,
                [&](Value row, Value unit, ValueRange products, int64_t width) {
                  auto values =
                      work.compute(launch, row, unit, products, width);
                  stores.push_back([=, this, &work] {
                    work.store(launch, row, unit, values, width);
                  });
                });
  for (auto &store : stores)
    store();
}

/// Computes and stores what exists.
void GemmTile::finish(const Work &work, const Corner &corner,
                      ArrayRef<Sums> sums) {
  forEachVector(work, corner, sums,
                [&](Value row, Value unit, ValueRange products, int64_t width) {
                  Value exists = b.less(row, corner.rows);
                  if (work.units % unitsOfTile())
                    restrict(exists, unit, b.i32(work.units));
                  b.when(exists, [&] {
                    work.store(launch, row, unit,
                               work.compute(launch, row, unit, products, width),
                               width);
                  });
                });
}

void GemmTile::finishAny(const Work &work, const Corner &corner,
                         ArrayRef<Sums> sums) {
  Value whole = isWhole(work, corner);
  if (!whole)
    return finishWhole(work, corner, sums);
  b.when(
      whole, [&] { finishWhole(work, corner, sums); },
      [&] { finish(work, corner, sums); });
}

void GemmTile::emit() {
  Corner corner = cornerOf();
  std::vector<Sums> sums = multiply(corner);
  branch(b, workTiles, b.block(0),
         [&](size_t i, Value) { finishAny(works[i], corner, sums); });
}

void simt::emitGemm(KernelFunction &function, const Twine &suffix,
                    ArrayRef<Work> works) {
  Launch launch(function, suffix, kGemmThreads);
  auto element = [](const Element &element) {
    return cast<RankedTensorType>(element.tensor.getType()).getElementType();
  };
  const Dot &dot = works[0].dots[0];
  std::unique_ptr<GemmTile> tile;
  if (dot.bits)
    tile = makeBlockGemm(launch, works);
  else if (takesMma(element(dot.x), element(dot.w), dot.terms.constant))
    tile = makeMmaGemm(launch, works);
  else
    tile = makeFmaGemm(launch, works);
  tile->emit();
  launch.finish({function.constant(tile->blocks()),
                 function.blocks(works[0].rows(), tile->rowsOfTile())});
}
