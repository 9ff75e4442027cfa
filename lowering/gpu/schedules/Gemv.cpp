#include "lowering/gpu/schedules/Gemv.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

int64_t simt::gemvRows(const Work &work) {
  const Dot &dot = work.dots[0];
  if (!work.isChosen())
    return work.rows().constant;
  auto input = cast<RankedTensorType>(dot.x.tensor.getType());
  int64_t ofRow = dot.bits ? 3 : 2; // places of an input without choices
  return input.getRank() > ofRow ? input.getDimSize(1) : 1;
}

Gemv::Gemv(Launch &launch, ArrayRef<Work> works, const GemvSizes &sizes,
           int64_t length)
    : launch(launch), b(launch.b), works(works),
      m(works[0].isChosen() ? 1 : works[0].rows().constant), length(length),
      warpRows(sizes.warpRows) {
  int64_t sums = 0;
  for (const Work &work : works)
    sums += work.units * sumsOf(work);
  while (warpRows > 1 && sums / warpRows < sizes.warps)
    warpRows /= 2;
}

SmallVector<Value> Gemv::unitsFrom(const Work &work, Value first) {
  SmallVector<Value> units;
  for (int64_t u = 0; u < unitsOfWarp(work); ++u)
    units.push_back(b.min(b.add(first, u), b.i32(work.units - 1)));
  return units;
}

SmallVector<Gemv::WeightRow> Gemv::rowsOf(const Work &work, ValueRange units) {
  SmallVector<WeightRow> rows;
  for (Value unit : units) {
    SmallVector<Value> loops = work.loops(b, row(0), unit);
    for (const Dot &dot : work.dots) {
      Operand weight = Operand::of(launch, work, dot.w, dot.terms.constant);
      Value row = launch.value(weight.row, loops);
      rows.push_back({weight, work.isChosen() ? uniform(row) : row,
                      launch.value(weight.column, loops), &dot, loops});
    }
  }
  return rows;
}

Value Gemv::row(int64_t number) {
  const Work &first = works[0];
  bool isOfBlock = first.isChosen() && first.row && !(first.rows() == Size{1});
  return isOfBlock ? b.block(1) : b.i32(number);
}

/// The units of one warp, from `firstUnit` on; those past the last are computed
/// like the last and not stored.
void Gemv::units(const Work &work, Value firstUnit) {
  SmallVector<Value> indices = unitsFrom(work, firstUnit);
  SmallVector<Value> all = dots(work, rowsOf(work, indices));
  for (Value &sum : all)
    sum = b.warpSum(b.sum(sum));
  int64_t each = sumsOf(work);
  b.when(b.equal(b.lane(), b.i32(0)), [&] {
    for (auto [u, unit] : llvm::enumerate(indices))
      b.when(b.less(b.add(firstUnit, u), b.i32(work.units)),
             [&, u = u, unit = unit] {
               for (int64_t row = 0; row < m; ++row) {
                 SmallVector<Value> sums;
                 for (int64_t s = 0; s < each; ++s)
                   sums.push_back(all[(u * each + s) * m + row]);
                 work.store(launch, this->row(row), unit,
                            work.compute(launch, this->row(row), unit, sums));
               }
             });
  });
}

void Gemv::forEachWork(llvm::function_ref<void(const Work &, Value)> body) {
  SmallVector<int64_t> blocks;
  for (const Work &work : works)
    blocks.push_back(llvm::divideCeil(work.units, unitsOfBlock(work)));
  Value block = b.block(0);
  // LLVM does not know the grid.
  int64_t all = std::accumulate(blocks.begin(), blocks.end(), int64_t(0));
  b.when(b.less(block, b.i32(all)), [&] {
    branch(b, blocks, block, [&](size_t i, Value block) {
      Value number = b.add(b.mul(block, warps()), warp());
      body(works[i], b.mul(number, unitsOfWarp(works[i])));
    });
  });
}

int64_t Gemv::emit() {
  prepare();
  forEachWork([&](const Work &work, Value unit) { units(work, unit); });
  int64_t blocks = 0;
  for (const Work &work : works)
    blocks += llvm::divideCeil(work.units, unitsOfBlock(work));
  return blocks;
}
