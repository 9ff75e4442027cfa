#include "lowering/gpu/GemmTile.h"
#include "lowering/kernel/BlockProduct.h"

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

/// Row r of the tile is sum r % sumsOfUnit of unit r / sumsOfUnit.
GemmTile::Source GemmTile::elementW(const Corner &corner, Value row,
                                    Value column) {
  int64_t sums = sumsOfUnit();
  Value unit = b.add(corner.unit, b.div(row, sums)), exists;
  if (units % unitsOfTile())
    restrict(exists, unit, b.i32(units));
  if (!wholeSteps)
    restrict(exists, column, b.i32(weightLength));
  unit = orZero(exists, unit);
  if (!wholeSteps)
    column = orZero(exists, column);
  Value sum = b.rem(row, sums);
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
      Value mine = b.equal(sum, b.i32(s));
      choose(mine, ownRow, launch.value(operand.row, loops));
      choose(mine, ownFirst, launch.value(operand.column, loops));
      weight.base = b.select(mine, operand.rows.base, weight.base);
    }
    Value behind = b.less(b.i32(firstUnit - 1), unit);
    choose(behind, weightRow, ownRow);
    choose(behind, first, ownFirst);
    firstUnit += work.units;
  }
  return {b.address(weight, weightRow, b.add(column, first)), exists};
}

void GemmTile::store(const Corner &corner, ArrayRef<Sum> sums) {
  int64_t each = sumsOfUnit();
  for (size_t i = 0; i < sums.size(); i += each) {
    Value row = b.add(corner.row, sums[i].row);
    Value unit = b.add(corner.unit, b.div(sums[i].column, each));
    Value inside = b.both(b.less(row, corner.rows), b.less(unit, b.i32(units)));
    b.when(inside, [&] {
      SmallVector<Value> products;
      for (const Sum &sum : sums.slice(i, each))
        products.push_back(sum.value);
      branch(b, workUnits, unit, [&](size_t work, Value unit) {
        works[work].store(launch, row, unit, products);
      });
    });
  }
}

void GemmTile::emit() {
  Corner corner;
  corner.unit = b.mul(b.block(0), unitsOfTile());
  corner.row = b.mul(b.block(1), m);
  corner.rows = launch.number(works[0].rows());
  store(corner, multiply(corner));
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
