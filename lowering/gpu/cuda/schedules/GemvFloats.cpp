/// Products of few rows, of floats.
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/GemvRing.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Shared memory of a block, but for what statistics need.
static constexpr int64_t kShared = 47 << 10;
/// What bounds the blocks of 128 threads on a multiprocessor: the sums of their
/// lanes, for which ptxas has registers, and an A100's shared memory.
static constexpr int64_t kThreads = 128, kLaneSums = 16, kMemory = 164 << 10;
/// The same where rows of weights have rows of the input: these and the weights
/// are in registers, for eight rows in 128.
static constexpr int64_t kLaneInputs = 32, kMostOfInputs = 4;

namespace {
class FloatGemv : public RingGemv {
public:
  FloatGemv(Launch &launch, const GemvProblem &problem, const GemvSizes &sizes,
            bool bulk);

private:
  void prepare() override;
  void compute();
  Operand operandX(const Work &work, const Dot &dot) {
    return Operand::of(launch, work, dot.x, length);
  }
  Value loadX(const Work &work, const Dot &dot, ValueRange loops, Value column);
  /// A sum for each number of a piece; one for all if each row of weights has
  /// its own row of the input: rows are many, and registers few.
  Value zero() override {
    return haveInputs() ? b.f32(0) : b.splat(b.f32(0), piece);
  }
  /// Whether each row of weights has its own row of the input.
  bool haveInputs() const { return works[0].isChosen() && !shared; }
  SmallVector<Value> inputs(const Work &work, ArrayRef<WeightRow> rows,
                            ValueRange columns) override;
  SmallVector<Value> step(ArrayRef<RowAddress> sources, ValueRange columns,
                          ValueRange inputs, ValueRange sums) override;

  const Part *given;
  const Statistics &statistics;
  /// Elements that a lane takes at once: 16 bytes, or fewer.
  int64_t piece = 8;
  /// The input, where the block computes it.
  std::optional<Rows> shared;
};
} // namespace

static Type elementOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

FloatGemv::FloatGemv(Launch &launch, const GemvProblem &problem,
                     const GemvSizes &sizes, bool bulk)
    : RingGemv(launch, problem.works, sizes,
               problem.works[0].dots[0].terms.constant, bulk),
      given(problem.input), statistics(problem.statistics) {
  int64_t left = kShared;
  if (given) {
    Type element = elementOf(given->stores[0].value.tensor);
    int64_t bits = element.getIntOrFloatBitWidth();
    shared = b.shared(element, m * length, length);
    left -= m * length * bits / 8;
    piece = std::gcd(length, 128 / bits);
  }
  for (const Work &work : works)
    for (const Dot &dot : work.dots) {
      if (!shared)
        piece = std::min(piece, operandX(work, dot).width);
      piece = std::min(piece, Operand::of(launch, work, dot.w, length).width);
    }
  // The inputs of a stage are in registers.
  int64_t grain = haveInputs() ? 1 : sizes.grain;
  Shape ring = {elementOf(works[0].dots[0].w.tensor),
                piece,
                /*lead=*/0,
                sizes.ahead,
                sizes.turns,
                grain};
  left -= makeRing(ring, left);
  // Else ptxas spills to have more blocks on a multiprocessor.
  int64_t sums = 1;
  for (const Work &work : works)
    sums = std::max(sums, m * rowsOfWarp(work));
  int64_t room = kMemory / std::max<int64_t>(kShared - left, 1);
  int64_t registers = haveInputs() ? std::min(kLaneInputs / sums, kMostOfInputs)
                                   : kLaneSums / sums;
  registers = registers * kThreads / b.threads();
  cuda::fitBlocks(
      b, std::max<int64_t>(1, std::min({registers, room, sizes.resident})));
}

void FloatGemv::prepare() {
  RingGemv::prepare();
  if (shared)
    compute();
}

void FloatGemv::compute() {
  for (int64_t row = 0; row < m; ++row)
    computeRow(launch, *given, statistics, this->row(row),
               [&](ValueRange loops, int64_t, ArrayRef<Value> values) {
                 b.store(values[0], *shared, b.i32(row), loops[1]);
               });
  b.barrier();
}

Value FloatGemv::loadX(const Work &work, const Dot &dot, ValueRange loops,
                       Value column) {
  Operand x = operandX(work, dot);
  return b.loadWide(x.rows, launch.value(x.row, loops),
                    b.add(column, launch.value(x.column, loops)), piece,
                    Access::ReadOnly);
}

SmallVector<Value> FloatGemv::inputs(const Work &work, ArrayRef<WeightRow> rows,
                                     ValueRange columns) {
  SmallVector<Value> inputs;
  for (Value column : columns) {
    if (haveInputs()) {
      for (const WeightRow &row : rows)
        inputs.push_back(loadX(work, *row.dot, row.loops, column));
      continue;
    }
    for (int64_t row = 0; row < m; ++row)
      inputs.push_back(shared ? b.loadWide(*shared, b.i32(row), column, piece)
                              : loadX(work, work.dots[0],
                                      work.loops(b, b.i32(row), b.i32(0)),
                                      column));
  }
  return inputs;
}

SmallVector<Value> FloatGemv::step(ArrayRef<RowAddress> sources,
                                   ValueRange columns, ValueRange inputs,
                                   ValueRange sums) {
  SmallVector<Value> ws, next(sums);
  for (Value column : columns)
    for (const RowAddress &source : sources)
      ws.push_back(b.loadWide(source.rows, source.row,
                              b.add(source.first, column), piece,
                              source.access));
  size_t each = inputs.size() / columns.size();
  for (size_t i = 0; i < columns.size(); ++i)
    for (int64_t row = 0; row < m; ++row)
      for (size_t w = 0; w < sources.size(); ++w) {
        Value &sum = next[w * m + row];
        Value x = inputs[i * each + (haveInputs() ? w : row)];
        Value own = ws[i * sources.size() + w];
        if (!haveInputs())
          sum = b.fma(own, x, sum);
        for (int64_t e = 0; haveInputs() && e < piece; ++e)
          sum = b.fma(b.extract(own, e), b.extract(x, e), sum);
      }
  return next;
}

std::unique_ptr<Gemv> cuda::makeFloatGemv(Launch &launch,
                                          const GemvProblem &problem,
                                          const GemvSizes &sizes) {
  return std::make_unique<FloatGemv>(launch, problem, sizes, /*bulk=*/false);
}

std::unique_ptr<Gemv> cuda::makeBulkFloatGemv(Launch &launch,
                                              const GemvProblem &problem,
                                              const GemvSizes &sizes) {
  auto gemv =
      std::make_unique<FloatGemv>(launch, problem, sizes, /*bulk=*/true);
  return gemv->isBulk() ? std::move(gemv) : nullptr;
}
