#include "lowering/gpu/cuda/GemvRing.h"
#include "lowering/gpu/cuda/TensorCores.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Bytes that cp.async copies at least.
static constexpr int64_t kWord = 4;
/// Loads that a lane has in flight, where weights are read in place.
static constexpr int64_t kLoads = 4;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Elements of all warps.
int64_t RingGemv::stagesLength() const {
  int64_t most = 0;
  for (const Work &work : works) {
    int64_t rows = rowsOfWarp(work);
    most = std::max(most, rows * stagesOf(rows));
  }
  return most * warps() * (shape.lead + turnLength());
}

int64_t RingGemv::makeRing(const Shape &wanted, int64_t left) {
  shape = wanted;
  int64_t bytes = shape.element.getIntOrFloatBitWidth() / 8;
  if (shape.piece * bytes < kWord)
    return 0;
  auto fits = [&] { return stagesLength() * bytes <= left; };
  while (!fits() && warpRows > 1)
    warpRows /= 2;
  while (!fits() && (shape.ahead > 1 || shape.turns > 1)) {
    shape.ahead = std::max<int64_t>(1, shape.ahead / 2);
    shape.turns = std::max<int64_t>(1, shape.turns / 2);
  }
  if (!fits())
    return 0;
  stages = b.shared(shape.element, stagesLength(), shape.lead + turnLength());
  return stagesLength() * bytes;
}

RingGemv::Source RingGemv::stage(int64_t rows, int64_t i, Value first,
                                 int64_t turn) {
  int64_t each = stagesOf(rows);
  Value row = b.mul(b.add(b.mul(b.warp(), rows), i), each);
  Value begin = b.mul(b.add(first, turn), turnLength());
  return {*stages, b.add(row, turn % each), b.sub(b.i32(shape.lead), begin),
          Access::Mutable};
}

SmallVector<RingGemv::Source> RingGemv::stagesAt(int64_t rows, Value first,
                                                 int64_t turn) {
  SmallVector<Source> sources;
  for (int64_t i = 0; i < rows; ++i)
    sources.push_back(stage(rows, i, first, turn));
  return sources;
}

/// Begins to copy what the rows have for a turn: a group of copies, an empty
/// one past the end, so that waiting is counting.
void RingGemv::fetch(ArrayRef<WeightRow> rows, Value first, int64_t turn) {
  int64_t bytes = shape.element.getIntOrFloatBitWidth() / 8;
  auto copy = [&](Value column) {
    for (auto [i, row] : llvm::enumerate(rows)) {
      Source to = stage(rows.size(), i, first, turn);
      cuda::copyAsync(
          b, b.address(to.rows, to.row, b.add(to.first, column)),
          b.address(row.weight.rows, row.row, b.add(row.column, column)),
          shape.piece * bytes);
    }
  };
  Value own = b.mul(b.lane(), shape.piece);
  Value begin = b.mul(b.add(first, turn), turnLength());
  // Where all lanes have a turn, they take it or not together.
  Value column = b.add(begin, own);
  Value last = length % turnLength() ? column : begin;
  b.when(b.less(last, b.i32(length)), [&] { copy(column); });
  if (turn > 0 && shape.lead) {
    Value isLead =
        b.both(b.less(own, b.i32(shape.lead)), b.less(begin, b.i32(length)));
    b.when(isLead, [&] { copy(b.add(column, -shape.lead)); });
  }
  cuda::commitCopies(b);
}

/// Until all but the last `groups` turns are there.
void RingGemv::await(int64_t groups) {
  cuda::awaitCopies(b, groups);
  if (shape.lead)
    cuda::warpBarrier(b);
}

void RingGemv::prepare() {
  if (stages)
    forEachWork([&](const Work &work, Value first) {
      SmallVector<WeightRow> rows = rowsOf(work, unitsFrom(work, first));
      for (int64_t turn = 0; turn + 1 < stagesOf(rowsOfWarp(work)); ++turn)
        fetch(rows, b.i32(0), turn);
    });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

SmallVector<Value> RingGemv::dotsInPlace(const Work &work,
                                         ArrayRef<WeightRow> rows) {
  SmallVector<Source> sources;
  for (const WeightRow &row : rows)
    sources.push_back({row.weight.rows, row.row, row.column, Access::ReadOnly});
  auto count = static_cast<int64_t>(rows.size());
  int64_t unroll = std::max<int64_t>(1, kLoads / count);
  int64_t main = length - length % (turnLength() * unroll);
  SmallVector<Value> sums(count * m, zero());
  Value own = b.mul(b.lane(), shape.piece);
  if (main)
    sums = b.loop(
        b.i32(0), b.i32(main), turnLength() * unroll, sums,
        [&](Value first, ValueRange carried) {
          SmallVector<Value> columns;
          for (int64_t u = 0; u < unroll; ++u)
            columns.push_back(b.add(b.add(first, own), u * turnLength()));
          return step(sources, columns, inputs(work, columns), carried);
        });
  return b.loop(b.add(own, main), b.i32(length), turnLength(), sums,
                [&](Value column, ValueRange carried) {
                  return step(sources, column, inputs(work, column), carried);
                });
}

/// A turn that all lanes have.
SmallVector<Value> RingGemv::turn(const Work &work, ArrayRef<WeightRow> rows,
                                  Value first, int64_t turn, ValueRange sums) {
  auto count = static_cast<int64_t>(rows.size());
  int64_t ahead = stagesOf(count) - 1;
  Value begin = b.mul(b.add(first, turn), turnLength());
  Value column = b.add(begin, b.mul(b.lane(), shape.piece));
  SmallVector<Value> inputs = this->inputs(work, column);
  await(ahead - 1);
  fetch(rows, first, turn + ahead);
  return step(stagesAt(count, first, turn), column, inputs, sums);
}

SmallVector<Value> RingGemv::dots(const Work &work, ArrayRef<WeightRow> rows) {
  if (!stages)
    return dotsInPlace(work, rows);
  auto count = static_cast<int64_t>(rows.size());
  int64_t each = stagesOf(count), whole = length / turnLength();
  int64_t rounds = whole / each * each;
  SmallVector<Value> sums(count * m, zero());
  if (rounds)
    sums = b.loop(b.i32(0), b.i32(rounds), each, sums,
                  [&](Value first, ValueRange carried) {
                    SmallVector<Value> next(carried);
                    for (int64_t i = 0; i < each; ++i)
                      next = turn(work, rows, first, i, next);
                    return next;
                  });
  Value first = b.i32(rounds);
  for (int64_t i = 0; i < whole - rounds; ++i)
    sums = turn(work, rows, first, i, sums);
  if (length % turnLength() == 0)
    return sums;
  // Lanes behind the end have nothing in the last turn.
  await(each - 2);
  SmallVector<Source> sources = stagesAt(count, first, whole - rounds);
  return b.loop(b.add(b.mul(b.lane(), shape.piece), whole * turnLength()),
                b.i32(length), turnLength(), sums,
                [&](Value column, ValueRange carried) {
                  return step(sources, column, inputs(work, column), carried);
                });
}
