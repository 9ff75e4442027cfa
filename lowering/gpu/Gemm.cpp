#include "lowering/gpu/GemmTile.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;

GemmTile::GemmTile(Launch &launch, const Work &work, int64_t m, int64_t n)
    : launch(launch), b(launch.b), work(work), k(work.dots[0].terms.constant),
      m(m), n(n), x(Operand::of(launch, work, work.dots[0].x, k)),
      width(x.width) {
  for (const Dot &dot : work.dots) {
    weights.push_back(Operand::of(launch, work, dot.w, k));
    width = std::min(width, weights.back().width);
  }
}

GemmTile::Source GemmTile::elementX(const Corner &corner, Value row,
                                    Value column) {
  Value at = b.add(corner.row, row);
  Value exists = b.both(b.less(at, corner.rows), b.less(column, b.i32(k)));
  Value zero = b.i32(0);
  SmallVector<Value> loops(work.part.box.size());
  if (work.row)
    loops[*work.row] = b.select(exists, at, zero);
  return {b.address(x.rows, launch.value(x.row, loops),
                    b.add(b.select(exists, column, zero),
                          launch.value(x.column, loops))),
          exists};
}

/// Row r of the tile is sum r % sumsOfUnit of unit r / sumsOfUnit.
GemmTile::Source GemmTile::elementW(const Corner &corner, Value row,
                                    Value column) {
  int64_t sums = sumsOfUnit();
  Value unit = b.add(corner.unit, b.div(row, sums));
  Value exists =
      b.both(b.less(unit, b.i32(work.units)), b.less(column, b.i32(k)));
  Value zero = b.i32(0);
  SmallVector<Value> loops = work.loops(b, zero, b.select(exists, unit, zero));
  column = b.select(exists, column, zero);
  Value sum = b.rem(row, sums);
  Rows weight = weights[0].rows;
  Value weightRow = launch.value(weights[0].row, loops),
        first = launch.value(weights[0].column, loops);
  for (int64_t s = 1; s < sums; ++s) {
    Value mine = b.equal(sum, b.i32(s));
    weightRow = b.select(mine, launch.value(weights[s].row, loops), weightRow);
    first = b.select(mine, launch.value(weights[s].column, loops), first);
    weight.base = b.select(mine, weights[s].rows.base, weight.base);
  }
  return {b.address(weight, weightRow, b.add(column, first)), exists};
}

void GemmTile::store(const Corner &corner, ArrayRef<Sum> sums) {
  int64_t each = sumsOfUnit();
  for (size_t i = 0; i < sums.size(); i += each) {
    Value row = b.add(corner.row, sums[i].row);
    Value unit = b.add(corner.unit, b.div(sums[i].column, each));
    Value inside =
        b.both(b.less(row, corner.rows), b.less(unit, b.i32(work.units)));
    b.when(inside, [&] {
      SmallVector<Value> products;
      for (const Sum &sum : sums.slice(i, each))
        products.push_back(sum.value);
      work.store(launch, row, unit, products);
    });
  }
}

void GemmTile::emit() {
  Corner corner;
  corner.unit = b.mul(b.block(0), unitsOfTile());
  corner.row = b.mul(b.block(1), m);
  corner.rows = launch.number(work.rows());
  store(corner, multiply(corner));
}

void cuda::emitGemm(KernelFunction &function, const Twine &suffix,
                    const Work &work) {
  Launch launch(function, suffix, kGemmThreads);
  auto element = [](const Element &element) {
    return cast<RankedTensorType>(element.tensor.getType()).getElementType();
  };
  const Dot &dot = work.dots[0];
  bool mma = takesMma(element(dot.x), element(dot.w), dot.terms.constant);
  auto tile = mma ? makeMmaGemm(launch, work) : makeFmaGemm(launch, work);
  tile->emit();
  int64_t blocks = llvm::divideCeil(work.units, tile->unitsOfTile());
  launch.finish({function.constant(blocks),
                 function.blocks(work.rows(), tile->rowsOfTile())});
}
