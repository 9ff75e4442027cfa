/// Products of a few rows m of an input with rows n of weights:
///
///   (compute the input's rows into shared memory)
///   for the block's outputs, each warp:
///     some units of weight rows: sums[r][m] += w[r, k ...] * x[m, k ...],
///     lanes side by side along k, 16 bytes each, four loads at once
///     add up over lanes; lane 0 computes and stores the units
///
/// Each weight is read once. Bandwidth needs bytes in flight: latency times
/// bandwidth, 23 KiB a multiprocessor on an H200 (4.3 TB/s, 0.7 us).
#include "lowering/gpu/Parts.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 128;
/// Rows of weights that a warp reads side by side at most, and 16-byte loads
/// that a lane has in flight.
static constexpr int64_t kWarpRows = 4, kLoads = 4;
/// Blocks that fill the machine: four on each of an H200's multiprocessors,
/// with 32 KiB in flight on each. Less work is cut into smaller blocks.
static constexpr int64_t kBlocks = 4 * 132;

namespace {
class Gemv {
public:
  Gemv(Launch &launch, ArrayRef<Work> works, const Part *input,
       const Statistics &statistics)
      : launch(launch), b(launch.b), works(works) {
    m = works[0].rows().constant;
    k = works[0].dots[0].terms.constant;
    if (input)
      shared = computed(*input, statistics);
    int64_t sums = 0;
    for (const Work &work : works)
      sums += work.units * sumsOf(work);
    while (warpRows > 1 && sums / (warpRows * (kThreads / kWarp)) < kBlocks)
      warpRows /= 2;
  }

  /// Builds all outputs; returns the blocks they take.
  int64_t emit();

private:
  /// Rows of weights that a warp multiplies: an operand, and the row.
  struct WeightRow {
    Operand weight;
    Value row, column;
  };
  Rows computed(const Part &input, const Statistics &statistics);
  Value loadX(const Work &work, Value row, Value column, int64_t width);
  void units(const Work &work, Value firstUnit, int64_t count);
  SmallVector<Value> dots(const Work &work, ArrayRef<WeightRow> rows);
  SmallVector<Value> step(const Work &work, ArrayRef<WeightRow> rows,
                          int64_t width, ValueRange columns, ValueRange sums);
  static int64_t sumsOf(const Work &work) {
    return static_cast<int64_t>(work.sums.size());
  }
  int64_t unitsOfWarp(const Work &work) const {
    return std::max<int64_t>(1, warpRows / sumsOf(work));
  }
  int64_t unitsOfBlock(const Work &work) const {
    return unitsOfWarp(work) * (kThreads / kWarp);
  }

  Launch &launch;
  KernelBuilder &b;
  ArrayRef<Work> works;
  int64_t m, k, warpRows = kWarpRows;
  /// The input, where the block has computed it.
  std::optional<Rows> shared;
  /// Else, of the outputs at hand.
  Operand x;
};
} // namespace

Rows Gemv::computed(const Part &input, const Statistics &statistics) {
  Type element = cast<RankedTensorType>(input.stores[0].value.tensor.getType())
                     .getElementType();
  Rows rows = b.shared(element, m * k, k);
  for (int64_t row = 0; row < m; ++row)
    computeRow(launch, input, statistics, b.i32(row),
               [&](ValueRange loops, int64_t, ArrayRef<Value> values) {
                 b.store(values[0], rows, b.i32(row), loops[1]);
               });
  b.barrier();
  return rows;
}

Value Gemv::loadX(const Work &work, Value row, Value column, int64_t width) {
  if (shared)
    return b.loadWide(*shared, row, column, width);
  SmallVector<Value> loops = work.loops(b, row, b.i32(0));
  return b.loadWide(x.rows, launch.value(x.row, loops),
                    b.add(column, launch.value(x.column, loops)), width,
                    Access::ReadOnly);
}

/// Adds the products at some columns of k, each `width` wide, to the sums. All
/// loads come first: what is in flight hides the latency of memory.
SmallVector<Value> Gemv::step(const Work &work, ArrayRef<WeightRow> rows,
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

/// Sums over k of each weight row with each row of x, in all lanes.
SmallVector<Value> Gemv::dots(const Work &work, ArrayRef<WeightRow> rows) {
  int64_t width = rows[0].weight.width;
  for (const WeightRow &row : rows)
    width = std::min(width, row.weight.width);
  if (shared)
    width = std::min(
        width,
        std::gcd<int64_t>(k, 128 / shared->element.getIntOrFloatBitWidth()));
  else
    width = std::min(width, x.width);
  auto count = static_cast<int64_t>(rows.size());
  int64_t turn = kWarp * width, unroll = std::max<int64_t>(1, kLoads / count);
  int64_t main = k - k % (turn * unroll);
  SmallVector<Value> sums(count * m, b.splat(b.f32(0), width));
  Value own = b.mul(b.lane(), width);
  if (main)
    sums = b.loop(b.i32(0), b.i32(main), turn * unroll, sums,
                  [&](Value first, ValueRange carried) {
                    SmallVector<Value> columns;
                    for (int64_t u = 0; u < unroll; ++u)
                      columns.push_back(b.add(b.add(first, own), u * turn));
                    return step(work, rows, width, columns, carried);
                  });
  sums = b.loop(b.add(own, main), b.i32(k), turn, sums,
                [&](Value column, ValueRange carried) {
                  return step(work, rows, width, column, carried);
                });
  for (Value &sum : sums)
    sum = b.warpSum(b.sum(sum));
  return sums;
}

/// `count` units of one warp, from `firstUnit` on; those past the last are
/// computed like the last and not stored.
void Gemv::units(const Work &work, Value firstUnit, int64_t count) {
  if (!shared)
    x = Operand::of(launch, work, work.dots[0].x, k);
  SmallVector<WeightRow> rows;
  SmallVector<Value> indices;
  for (int64_t u = 0; u < count; ++u) {
    indices.push_back(b.min(b.add(firstUnit, u), b.i32(work.units - 1)));
    SmallVector<Value> loops = work.loops(b, b.i32(0), indices[u]);
    for (const Dot &dot : work.dots) {
      Operand weight = Operand::of(launch, work, dot.w, k);
      rows.push_back({weight, launch.value(weight.row, loops),
                      launch.value(weight.column, loops)});
    }
  }
  SmallVector<Value> all = dots(work, rows);
  int64_t each = sumsOf(work);
  b.when(b.equal(b.lane(), b.i32(0)), [&] {
    for (int64_t u = 0; u < count; ++u)
      b.when(b.less(b.add(firstUnit, u), b.i32(work.units)), [&] {
        for (int64_t row = 0; row < m; ++row) {
          SmallVector<Value> sums;
          for (int64_t s = 0; s < each; ++s)
            sums.push_back(all[(u * each + s) * m + row]);
          work.store(launch, b.i32(row), indices[u], sums);
        }
      });
  });
}

int64_t Gemv::emit() {
  SmallVector<int64_t> blocks;
  for (const Work &work : works)
    blocks.push_back(llvm::divideCeil(work.units, unitsOfBlock(work)));
  int64_t all = std::accumulate(blocks.begin(), blocks.end(), int64_t(0));
  Value block = b.block(0);
  // LLVM does not know the grid.
  b.when(b.less(block, b.i32(all)), [&] {
    branch(b, blocks, block, [&](size_t i, Value block) {
      int64_t count = unitsOfWarp(works[i]);
      Value warp = b.add(b.mul(block, kThreads / kWarp), b.warp());
      units(works[i], b.mul(warp, count), count);
    });
  });
  return all;
}

void simt::emitGemv(KernelFunction &function, const Twine &suffix,
                    ArrayRef<Work> works, const Part *input,
                    const Statistics &statistics) {
  Launch launch(function, suffix, kThreads);
  int64_t blocks = Gemv(launch, works, input, statistics).emit();
  launch.finish({function.constant(blocks)});
}
