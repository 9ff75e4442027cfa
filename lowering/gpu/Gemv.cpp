/// Products of few rows, of floats.
#include "lowering/gpu/Gemv.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Rows of weights that a warp reads side by side at most, and 16-byte loads
/// that a lane has in flight.
static constexpr int64_t kWarpRows = 4, kLoads = 4;
/// Threads of a block, and warps that fill the machine: sixteen on each of an
/// H200's multiprocessors, with 32 KiB in flight on each. Less work is cut into
/// smaller blocks.
static constexpr int64_t kThreads = 128, kWarps = 16 * 132;

//===----------------------------------------------------------------------===//
// All types
//===----------------------------------------------------------------------===//

Gemv::Gemv(Launch &launch, ArrayRef<Work> works, int64_t length)
    : launch(launch), b(launch.b), works(works), m(works[0].rows().constant),
      length(length), warpRows(kWarpRows) {
  int64_t sums = 0;
  for (const Work &work : works)
    sums += work.units * sumsOf(work);
  while (warpRows > 1 && sums / warpRows < kWarps)
    warpRows /= 2;
}

SmallVector<Value> Gemv::dots(const Work &work, ArrayRef<WeightRow> rows) {
  int64_t width = this->width(rows);
  auto count = static_cast<int64_t>(rows.size());
  int64_t turn = kWarp * width, unroll = std::max<int64_t>(1, kLoads / count);
  int64_t main = length - length % (turn * unroll);
  SmallVector<Value> sums(count * m, zero(width));
  Value own = b.mul(b.lane(), width);
  if (main)
    sums = b.loop(b.i32(0), b.i32(main), turn * unroll, sums,
                  [&](Value first, ValueRange carried) {
                    SmallVector<Value> columns;
                    for (int64_t u = 0; u < unroll; ++u)
                      columns.push_back(b.add(b.add(first, own), u * turn));
                    return step(work, rows, width, columns, carried);
                  });
  return b.loop(b.add(own, main), b.i32(length), turn, sums,
                [&](Value column, ValueRange carried) {
                  return step(work, rows, width, column, carried);
                });
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
    SmallVector<Value> loops = work.loops(b, b.i32(0), unit);
    for (const Dot &dot : work.dots) {
      Operand weight = Operand::of(launch, work, dot.w, dot.terms.constant);
      rows.push_back({weight, launch.value(weight.row, loops),
                      launch.value(weight.column, loops)});
    }
  }
  return rows;
}

/// The units of one warp, from `firstUnit` on; those past the last are computed
/// like the last and not stored.
void Gemv::units(const Work &work, Value firstUnit) {
  begin(work);
  SmallVector<Value> indices = unitsFrom(work, firstUnit);
  SmallVector<Value> all = dots(work, rowsOf(work, indices));
  for (Value &sum : all)
    sum = b.warpSum(b.sum(sum));
  int64_t each = sumsOf(work);
  b.when(b.equal(b.lane(), b.i32(0)), [&] {
    for (auto [u, unit] : llvm::enumerate(indices))
      b.when(b.less(b.add(firstUnit, u), b.i32(work.units)), [&] {
        for (int64_t row = 0; row < m; ++row) {
          SmallVector<Value> sums;
          for (int64_t s = 0; s < each; ++s)
            sums.push_back(all[(u * each + s) * m + row]);
          work.store(launch, b.i32(row), unit,
                     work.compute(launch, b.i32(row), unit, sums));
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
      Value warp = b.add(b.mul(block, warps()), b.warp());
      body(works[i], b.mul(warp, unitsOfWarp(works[i])));
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

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

namespace {
class FloatGemv : public Gemv {
public:
  FloatGemv(Launch &launch, ArrayRef<Work> works, const Part *input,
            const Statistics &statistics)
      : Gemv(launch, works, works[0].dots[0].terms.constant), given(input),
        statistics(statistics) {}

private:
  void prepare() override {
    if (given)
      shared = computed(*given, statistics);
  }
  Rows computed(const Part &input, const Statistics &statistics);
  Value loadX(const Work &work, Value row, Value column, int64_t width);
  void begin(const Work &work) override;
  int64_t width(ArrayRef<WeightRow> rows) override;
  Value zero(int64_t width) override { return b.splat(b.f32(0), width); }
  SmallVector<Value> step(const Work &work, ArrayRef<WeightRow> rows,
                          int64_t width, ValueRange columns,
                          ValueRange sums) override;

  const Part *given;
  const Statistics &statistics;
  /// The input, where the block has computed it.
  std::optional<Rows> shared;
  /// Else, of the outputs at hand.
  Operand x;
};
} // namespace

Rows FloatGemv::computed(const Part &input, const Statistics &statistics) {
  Type element = cast<RankedTensorType>(input.stores[0].value.tensor.getType())
                     .getElementType();
  Rows rows = b.shared(element, m * length, length);
  for (int64_t row = 0; row < m; ++row)
    computeRow(launch, input, statistics, b.i32(row),
               [&](ValueRange loops, int64_t, ArrayRef<Value> values) {
                 b.store(values[0], rows, b.i32(row), loops[1]);
               });
  b.barrier();
  return rows;
}

Value FloatGemv::loadX(const Work &work, Value row, Value column,
                       int64_t width) {
  if (shared)
    return b.loadWide(*shared, row, column, width);
  SmallVector<Value> loops = work.loops(b, row, b.i32(0));
  return b.loadWide(x.rows, launch.value(x.row, loops),
                    b.add(column, launch.value(x.column, loops)), width,
                    Access::ReadOnly);
}

void FloatGemv::begin(const Work &work) {
  if (!shared)
    x = Operand::of(launch, work, work.dots[0].x, length);
}

int64_t FloatGemv::width(ArrayRef<WeightRow> rows) {
  int64_t width =
      shared ? std::gcd<int64_t>(length,
                                 128 / shared->element.getIntOrFloatBitWidth())
             : x.width;
  for (const WeightRow &row : rows)
    width = std::min(width, row.weight.width);
  return width;
}

/// All loads come first: what is in flight hides the latency of memory.
SmallVector<Value> FloatGemv::step(const Work &work, ArrayRef<WeightRow> rows,
                                   int64_t width, ValueRange columns,
                                   ValueRange sums) {
  SmallVector<Value> ws, next(sums);
  for (Value column : columns)
    for (const WeightRow &row : rows)
      ws.push_back(b.load(row.weight.rows, row.row, b.add(row.column, column),
                          width, Access::ReadOnly));
  for (auto [i, column] : llvm::enumerate(columns))
    for (int64_t row = 0; row < m; ++row) {
      Value part = loadX(work, b.i32(row), column, width);
      for (size_t w = 0; w < rows.size(); ++w) {
        Value &sum = next[w * m + row];
        sum = b.fma(b.widen(ws[i * rows.size() + w]), part, sum);
      }
    }
  return next;
}

void simt::emitGemv(KernelFunction &function, const Twine &suffix,
                    ArrayRef<Work> works, const Part *input,
                    const Statistics &statistics) {
  bool inBlocks = works[0].dots[0].bits;
  Launch launch(function, suffix, inBlocks ? kBlockGemvThreads : kThreads);
  std::unique_ptr<Gemv> gemv;
  if (inBlocks)
    gemv = makeBlockGemv(launch, works, *input, statistics);
  else
    gemv = std::make_unique<FloatGemv>(launch, works, input, statistics);
  int64_t blocks = gemv->emit();
  launch.finish({function.constant(blocks)});
}
