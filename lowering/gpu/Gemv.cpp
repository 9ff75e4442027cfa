/// Products of a few rows m of an input with rows n of weights:
///
///   (normalize the input's rows into shared memory)
///   for the block's outputs, each warp:
///     some units of weight rows: sums[r][m] += w[r, k ...] * x[m, k ...],
///     lanes side by side along k, 16 bytes each, four loads at once
///     add up over lanes; lane 0 evaluates and stores the units
///
/// Each weight is read once. Bandwidth needs bytes in flight: latency times
/// bandwidth, 23 KiB a multiprocessor on an H200 (4.3 TB/s, 0.7 us).
#include "lowering/gpu/Emitters.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;

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
  Gemv(Launch &launch, const KernelSpec &spec)
      : launch(launch), b(launch.b), spec(spec) {
    Value rows = spec.norm ? spec.norm->getOperand(0) : spec.input;
    auto type = cast<RankedTensorType>(rows.getType());
    m = type.getDimSize(0);
    k = type.getDimSize(1);
    x = spec.norm ? normalized(type) : launch.rows(rows);
    int64_t sums = 0;
    for (const Output &output : spec.outputs)
      sums += output.units() * output.unitSums();
    while (warpRows > 1 && sums / (warpRows * (kThreads / kWarp)) < kBlocks)
      warpRows /= 2;
  }

  /// Builds all outputs; returns the blocks they take.
  int64_t emit();

private:
  Rows normalized(RankedTensorType type);
  void units(const Output &output, Value firstUnit, int64_t count);
  SmallVector<Value> dots(ArrayRef<Rows> weights, ValueRange weightRows);
  SmallVector<Value> step(ArrayRef<Rows> weights, ValueRange weightRows,
                          int64_t width, ValueRange columns, ValueRange sums);
  int64_t unitsOfWarp(const Output &output) const {
    return std::max<int64_t>(1, warpRows / output.unitSums());
  }
  int64_t unitsOfBlock(const Output &output) const {
    return unitsOfWarp(output) * (kThreads / kWarp);
  }

  Launch &launch;
  KernelBuilder &b;
  const KernelSpec &spec;
  int64_t m, k, warpRows = kWarpRows;
  Rows x;
};
} // namespace

Rows Gemv::normalized(RankedTensorType type) {
  Rows rows = b.shared(type.getElementType(), m * k, k);
  for (int64_t row = 0; row < m; ++row)
    normalizeRow(launch, spec.norm, b.i32(row), rows, b.i32(row));
  b.barrier();
  return rows;
}

/// Adds the products at some columns of k, each `width` wide, to the sums. All
/// loads come first: what is in flight hides the latency of memory.
SmallVector<Value> Gemv::step(ArrayRef<Rows> weights, ValueRange weightRows,
                              int64_t width, ValueRange columns,
                              ValueRange sums) {
  SmallVector<Value> ws, next(sums);
  for (Value column : columns)
    for (auto [weight, row] : llvm::zip(weights, weightRows))
      ws.push_back(b.load(weight, row, column, width, Access::ReadOnly));
  size_t count = weights.size();
  for (auto [i, column] : llvm::enumerate(columns))
    for (int64_t row = 0; row < m; ++row) {
      Value part = b.loadWide(x, b.i32(row), column, width);
      for (size_t w = 0; w < count; ++w) {
        Value &sum = next[w * m + row];
        sum = b.fma(b.widen(ws[i * count + w]), part, sum);
      }
    }
  return next;
}

/// Sums over k of each weight row with each row of x, in all lanes.
SmallVector<Value> Gemv::dots(ArrayRef<Rows> weights, ValueRange weightRows) {
  int64_t width =
      std::min(accessWidth(weights[0].element, k), accessWidth(x.element, k));
  auto count = static_cast<int64_t>(weights.size());
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
                    return step(weights, weightRows, width, columns, carried);
                  });
  sums = b.loop(b.add(own, main), b.i32(k), turn, sums,
                [&](Value column, ValueRange carried) {
                  return step(weights, weightRows, width, column, carried);
                });
  for (Value &sum : sums)
    sum = b.warpSum(b.sum(sum));
  return sums;
}

/// `count` units of one warp, from `firstUnit` on; those past the last are
/// computed like the last and not stored.
void Gemv::units(const Output &output, Value firstUnit, int64_t count) {
  int64_t columns = output.unitColumns(),
          products = static_cast<int64_t>(output.products.size());
  SmallVector<Rows> weights;
  SmallVector<Value> weightRows, unitIndices;
  for (int64_t u = 0; u < count; ++u) {
    unitIndices.push_back(
        b.min(b.add(firstUnit, u), b.i32(output.units() - 1)));
    for (int64_t c = 0; c < columns; ++c)
      for (Operation *product : output.products) {
        weights.push_back(launch.rows(weightOf(product)));
        weightRows.push_back(output.column(b, unitIndices[u], c));
      }
  }
  SmallVector<Value> sums = dots(weights, weightRows);
  auto store = [&](int64_t u, int64_t row) {
    storeUnit(launch, output, b.i32(row), unitIndices[u],
              [&](int64_t c, int64_t p) {
                return sums[((u * columns + c) * products + p) * m + row];
              });
  };
  b.when(b.equal(b.lane(), b.i32(0)), [&] {
    for (int64_t u = 0; u < count; ++u)
      b.when(b.less(b.add(firstUnit, u), b.i32(output.units())), [&] {
        for (int64_t row = 0; row < m; ++row)
          store(u, row);
      });
  });
}

int64_t Gemv::emit() {
  int64_t first = 0;
  Value block = b.block(0);
  for (const Output &output : spec.outputs) {
    int64_t blocks = llvm::divideCeil(output.units(), unitsOfBlock(output));
    Value inside = b.both(b.less(b.i32(first - 1), block),
                          b.less(block, b.i32(first + blocks)));
    b.when(inside, [&] {
      int64_t count = unitsOfWarp(output);
      Value index =
          b.add(b.mul(b.sub(block, b.i32(first)), kThreads / kWarp), b.warp());
      units(output, b.mul(index, count), count);
    });
    first += blocks;
  }
  return first;
}

Steps cuda::emitGemv(const Target &target, const KernelSpec &spec) {
  Launch launch(spec.loc, target.module, target.name, kThreads, target.places);
  int64_t blocks = Gemv(launch, spec).emit();
  return {launch.finish({{blocks, {}}})};
}
