#include "lowering/gpu/cuda/schedules/MmaTile.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Elements of 16 bits that one instruction stores.
static constexpr int64_t kTogether = 8;

int64_t MmaTile::together() const {
  return std::min(kTogether, across() * 2 / sumsOfUnit());
}

GemmTile::UnitSum MmaTile::unitOf(Value row) {
  int64_t each = sumsOfUnit();
  Value group = b.div(row, groupRows()), own = b.rem(row, groupRows());
  Value product = b.div(own, 8), t = b.div(b.rem(own, 8), 2);
  Value unit = b.add(b.mul(group, 4 * together()), b.mul(t, together()));
  unit = b.add(unit, b.mul(b.div(product, each), 2));
  return {b.add(unit, b.rem(own, 2)), b.rem(product, each)};
}

std::pair<Value, Value> MmaTile::firstPlace() {
  // Computed again: registers are scarce while the products are summed.
  Value thread = b.opaque(b.thread());
  Value lane = b.rem(thread, kWarp), warp = b.div(thread, kWarp);
  Value firstRow = b.add(this->firstRow(warp), b.div(lane, 4));
  Value firstUnit = b.add(b.div(firstColumn(warp), sumsOfUnit()),
                          b.mul(b.rem(lane, 4), together()));
  return {firstRow, firstUnit};
}

std::pair<Value, Value> MmaTile::placeOf(Value number) {
  auto [firstRow, firstUnit] = firstPlace();
  int64_t side = across() / (groupRows() / 8);
  return {b.add(firstRow, b.mul(b.div(number, side), 8)),
          b.add(firstUnit, b.mul(b.rem(number, side), 4 * together()))};
}

std::vector<GemmTile::Sums> MmaTile::sumsOf(ValueRange sums) {
  auto [firstRow, firstUnit] = firstPlace();
  int64_t each = sumsOfUnit(), products = groupRows() / 8;
  std::vector<Sums> result;
  for (int64_t i = 0; i < down() * 2; ++i)
    for (int64_t j = 0; j < across(); j += products) {
      Sums &own = result.emplace_back();
      own.row = b.add(firstRow, i * 8);
      own.unit = b.add(firstUnit, j / products * 4 * together());
      own.values.resize(each);
      for (int64_t p = 0; p < products; ++p)
        for (int64_t s = 0; s < 2; ++s)
          own.values[p % each].push_back(
              sums[(i / 2 * across() + j + p) * 4 + i % 2 * 2 + s]);
    }
  return result;
}
