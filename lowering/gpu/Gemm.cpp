#include "lowering/gpu/GemmTile.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;

GemmTile::GemmTile(Launch &launch, const Output &output, Rows x, int64_t k,
                   int64_t m, int64_t n)
    : launch(launch), b(launch.b), output(output), x(x), k(k), m(m), n(n) {
  width = accessWidth(x.element, k);
  for (Operation *product : output.products) {
    weights.push_back(launch.rows(weightOf(product)));
    width = std::min(width, accessWidth(weights.back().element, k));
  }
}

GemmTile::Element GemmTile::elementX(const Corner &corner, Value row,
                                     Value column) {
  Value at = b.add(corner.row, row);
  Value exists = b.both(b.less(at, corner.rows), b.less(column, b.i32(k)));
  Value zero = b.i32(0);
  return {
      b.address(x, b.select(exists, at, zero), b.select(exists, column, zero)),
      exists};
}

/// Row r of the tile is sum r % unitSums of unit r / unitSums.
GemmTile::Element GemmTile::elementW(const Corner &corner, Value row,
                                     Value column) {
  int64_t sums = output.unitSums();
  auto products = static_cast<int64_t>(weights.size());
  Value unit = b.add(corner.unit, b.div(row, sums));
  Value exists =
      b.both(b.less(unit, b.i32(output.units())), b.less(column, b.i32(k)));
  Value zero = b.i32(0);
  unit = b.select(exists, unit, zero);
  column = b.select(exists, column, zero);
  Value sum = b.rem(row, sums), weightRow = output.column(b, unit, 0);
  Rows weight = weights[0];
  for (int64_t s = 1; s < sums; ++s) {
    Value mine = b.equal(sum, b.i32(s));
    weightRow = b.select(mine, output.column(b, unit, s / products), weightRow);
    weight.base = b.select(mine, weights[s % products].base, weight.base);
  }
  return {b.address(weight, weightRow, column), exists};
}

void GemmTile::store(const Corner &corner, ArrayRef<Sum> sums) {
  int64_t each = output.unitSums();
  auto products = static_cast<int64_t>(weights.size());
  for (size_t i = 0; i < sums.size(); i += each) {
    Value row = b.add(corner.row, sums[i].row);
    Value unit = b.add(corner.unit, b.div(sums[i].column, each));
    Value inside =
        b.both(b.less(row, corner.rows), b.less(unit, b.i32(output.units())));
    b.when(inside, [&] {
      storeUnit(launch, output, row, unit, [&](int64_t c, int64_t p) {
        return sums[i + c * products + p].value;
      });
    });
  }
}

void GemmTile::emit() {
  Corner corner;
  corner.unit = b.mul(b.block(0), unitsOfTile());
  corner.row = b.mul(b.block(1), m);
  corner.rows = launch.extent(output.products[0]->getOperand(0));
  store(corner, multiply(corner));
}

Steps cuda::emitGemm(const Target &target, const KernelSpec &spec,
                     const Place *normalized) {
  Steps steps;
  auto type = cast<RankedTensorType>(spec.input.getType());
  int64_t k = type.getDimSize(1);
  for (auto [i, output] : llvm::enumerate(spec.outputs)) {
    std::string name = target.name;
    if (i)
      name += "_" + std::to_string(i);
    Launch launch(spec.loc, target.module, name, kGemmThreads, target.places);
    Rows x = normalized ? launch.rows(*normalized, type.getElementType(), k)
                        : launch.rows(spec.input);
    auto weight =
        cast<RankedTensorType>(weightOf(output.products[0]).getType());
    bool mma = takesMma(type.getElementType(), weight.getElementType(), k);
    auto tile = mma ? makeMmaGemm(launch, output, x, k)
                    : makeFmaGemm(launch, output, x, k);
    tile->emit();
    int64_t blocks = llvm::divideCeil(output.units(), tile->unitsOfTile());
    Value rows = spec.norm ? spec.norm->getOperand(0) : spec.input;
    steps.push_back(
        launch.finish({{blocks, {}}, launch.gridOf(rows, tile->rowsOfTile())}));
  }
  return steps;
}
