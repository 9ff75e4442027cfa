#include "lowering/gpu/GemmTile.h"
#include "lowering/kernel/BlockProduct.h"

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
    units += work.units;
    workUnits.push_back(work.units);
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

GemmTile::Source GemmTile::elementW(const Corner &corner, Value row,
                                    Value column) {
  UnitSum mine = unitOf(row);
  Value unit = b.add(corner.unit, mine.unit), exists;
  if (units % unitsOfTile())
    restrict(exists, unit, b.i32(units));
  if (!wholeSteps)
    restrict(exists, column, b.i32(weightLength));
  unit = orZero(exists, unit);
  if (!wholeSteps)
    column = orZero(exists, column);
  Rows weight = weights[0][0].rows;
  Value weightRow, first;
  int64_t firstUnit = 0;
  auto choose = [&](Value condition, Value &chosen, Value other) {
    chosen = chosen ? b.select(condition, other, chosen) : other;
  };
  for (const auto &[work, operands] : llvm::zip(works, weights)) {
    SmallVector<Value> loops =
        work.loops(b, b.i32(0), b.sub(unit, b.i32(firstUnit)));
    Value ownRow, ownFirst;
    for (auto [s, operand] : llvm::enumerate(operands)) {
      Value isOwn = b.equal(mine.sum, b.i32(s));
      choose(isOwn, ownRow, launch.value(operand.row, loops));
      choose(isOwn, ownFirst, launch.value(operand.column, loops));
      weight.base = b.select(isOwn, operand.rows.base, weight.base);
    }
    Value behind = b.less(b.i32(firstUnit - 1), unit);
    choose(behind, weightRow, ownRow);
    choose(behind, first, ownFirst);
    firstUnit += work.units;
  }
  return {b.address(weight, weightRow, b.add(column, first)), exists};
}

int64_t GemmTile::unitWidth(int64_t most) {
  for (const Work &work : works)
    most = work.width(launch, std::gcd(most, work.units));
  return most;
}

/// Calls `body` for vectors of units: the row and the first unit, of all rows
/// and units, and their products.
void GemmTile::forEachVector(
    const Corner &corner, ArrayRef<Sums> sums,
    llvm::function_ref<void(Value row, Value unit, ValueRange products)> body) {
  auto count = static_cast<int64_t>(sums[0].values[0].size());
  int64_t width = unitWidth(count);
  for (const Sums &own : sums)
    for (int64_t i = 0; i < count; i += width) {
      SmallVector<Value> products;
      for (ArrayRef<Value> values : own.values)
        products.push_back(b.pack(values.slice(i, width)));
      body(b.add(corner.row, own.row), b.add(b.add(corner.unit, own.unit), i),
           products);
    }
}

/// Whether all of the tile's rows and units exist; null where all tiles are so.
Value GemmTile::isWhole(const Corner &corner) {
  Value whole;
  Size rows = works[0].rows();
  if (!rows.isConstant() || rows.constant % m)
    restrict(whole, b.add(corner.row, m - 1), corner.rows);
  if (units % unitsOfTile())
    restrict(whole, b.add(corner.unit, unitsOfTile() - 1), b.i32(units));
  return whole;
}

/// A whole tile: reads all before it stores, so that no read waits for another.
void GemmTile::finishWhole(const Corner &corner, ArrayRef<Sums> sums) {
  if (works.size() > 1)
    return finish(corner, sums);
  SmallVector<llvm::unique_function<void()>> stores;
  forEachVector(corner, sums, [&](Value row, Value unit, ValueRange products) {
    int64_t width = unitWidth(sums[0].values[0].size());
    auto values = works[0].compute(launch, row, unit, products, width);
    stores.push_back(
        [=, this] { works[0].store(launch, row, unit, values, width); });
  });
  for (auto &store : stores)
    store();
}

/// Computes and stores what exists.
void GemmTile::finish(const Corner &corner, ArrayRef<Sums> sums) {
  int64_t width = unitWidth(sums[0].values[0].size());
  forEachVector(corner, sums, [&](Value row, Value unit, ValueRange products) {
    Value exists = b.less(row, corner.rows);
    if (units % unitsOfTile())
      restrict(exists, unit, b.i32(units));
    b.when(exists, [&] {
      branch(b, workUnits, unit, [&](size_t i, Value unit) {
        works[i].store(launch, row, unit,
                       works[i].compute(launch, row, unit, products, width),
                       width);
      });
    });
  });
}

void GemmTile::emit() {
  Corner corner;
  corner.unit = b.mul(b.block(0), unitsOfTile());
  corner.row = b.mul(b.block(1), m);
  corner.rows = launch.number(works[0].rows());
  std::vector<Sums> sums = multiply(corner);
  Value whole = isWhole(corner);
  if (!whole)
    return finishWhole(corner, sums);
  b.when(
      whole, [&] { finishWhole(corner, sums); }, [&] { finish(corner, sums); });
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
