#include "lowering/gpu/cuda/schedules/GemvRing.h"
#include "lowering/gpu/cuda/TensorCores.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Bytes that cp.async copies at least, and that cp.async.bulk copies a
/// multiple of.
static constexpr int64_t kWord = 4, kBulkBytes = 16;
/// Loads that a lane has in flight, where weights are read in place.
static constexpr int64_t kLoads = 4;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

int64_t RingGemv::stagesOf(int64_t rows) const {
  int64_t turns = std::max(shape.turns, shape.ahead / rows);
  if (!bulk)
    return turns + 1;
  int64_t all = llvm::divideCeil(length, stageLength());
  return std::min(std::max<int64_t>(turns / shape.grain, 1), all);
}

/// Stages of a warp, of all of its rows.
int64_t RingGemv::mostStages() const {
  int64_t most = 0;
  for (const Work &work : works) {
    int64_t rows = rowsOfWarp(work);
    most = std::max(most, rows * stagesOf(rows));
  }
  return most;
}

/// Elements of all warps.
int64_t RingGemv::stagesLength() const {
  return mostStages() * warps() * (shape.lead + stageLength());
}

int64_t RingGemv::makeRing(const Shape &wanted, int64_t left) {
  shape = wanted;
  int64_t bytes = elementBytes();
  // Copies of bulk are multiples of 16 bytes.
  bulk &= shape.piece * bytes == kBulkBytes;
  if (shape.piece * bytes < kWord)
    return 0;
  auto fits = [&] { return stagesLength() * bytes <= left; };
  while (!fits() && warpRows > 1)
    warpRows /= 2;
  while (!fits() && (shape.ahead > 1 || shape.turns > 1)) {
    shape.ahead = std::max<int64_t>(1, shape.ahead / 2);
    shape.turns = std::max<int64_t>(1, shape.turns / 2);
  }
  bulk &= fits();
  if (!fits())
    return 0;
  stages = b.shared(shape.element, stagesLength(), shape.lead + stageLength());
  return stagesLength() * bytes;
}

RingGemv::RowAddress RingGemv::stage(int64_t rows, int64_t i, Value first,
                                     int64_t turn) {
  int64_t each = stagesOf(rows), column = shape.lead;
  Value row = b.mul(b.add(b.mul(warp(), rows), i), each);
  Value begin = b.mul(b.add(first, turn), stageLength());
  row = b.add(row, turn % each);
  if (bulk) {
    // LLVM knows the range of the column, but not of the row, which depends on
    // `warp`. If the distance between stages is in the column, LLVM addresses
    // all stages by one register. Otherwise kernels of Llama-2-70B spill.
    row = b.mul(warp(), rows * each);
    column += (i * each + turn % each) * (shape.lead + stageLength());
  }
  return {*stages, row, b.sub(b.i32(column), begin), Access::Mutable};
}

SmallVector<RingGemv::RowAddress> RingGemv::stagesAt(int64_t rows, Value first,
                                                     int64_t turn) {
  SmallVector<RowAddress> sources;
  for (int64_t i = 0; i < rows; ++i)
    sources.push_back(stage(rows, i, first, turn));
  return sources;
}

/// Begins to copy what the rows have for a stage: a group of copies, an empty
/// one past the end, so that waiting is counting.
void RingGemv::fetch(ArrayRef<WeightRow> rows, Value first, int64_t turn) {
  if (bulk)
    return fetchBulk(rows, first, turn);
  auto copy = [&](Value column) {
    for (auto [i, row] : llvm::enumerate(rows)) {
      RowAddress to = stage(rows.size(), i, first, turn);
      cuda::copyAsync(
          b, b.address(to.rows, to.row, b.add(to.first, column)),
          b.address(row.weight.rows, row.row, b.add(row.column, column)),
          shape.piece * elementBytes());
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

/// Waits until a stage has arrived. With cp.async, the copies of later stages
/// may still be on their way.
void RingGemv::await(int64_t rows, Value first, int64_t turn) {
  if (bulk) {
    int64_t each = stagesOf(rows);
    Value parity = b.rem(b.div(first, each), 2);
    return barriers->await(barrierOf(rows, turn), parity);
  }
  cuda::awaitCopies(b, aheadOf(rows) - 1);
  if (shape.lead)
    cuda::warpBarrier(b);
}

void RingGemv::prepare() {
  if (bulk)
    makeBarriers();
  if (stages)
    forEachWork([&](const Work &work, Value first) {
      SmallVector<WeightRow> rows = rowsOf(work, unitsFrom(work, first));
      for (int64_t turn = 0; turn < aheadOf(rowsOfWarp(work)); ++turn)
        fetch(rows, b.i32(0), turn);
    });
}

//===----------------------------------------------------------------------===//
// Copies of bulk
//===----------------------------------------------------------------------===//

/// What the warp copies by is the same in all lanes, and ptxas sees it: else it
/// loops over the lanes that might copy.
void RingGemv::makeBarriers() {
  ownWarp = b.shuffleFrom(b.warp(), b.i32(0));
  leads = cuda::electLane(b);
  barriers.emplace(b, warps() * mostStages());
  b.when(leads, [&] {
    for (int64_t i = 0; i < mostStages(); ++i)
      barriers->init(b.add(b.mul(ownWarp, mostStages()), i), b.i32(1));
    barriers->publish();
  });
  cuda::warpBarrier(b);
}

Value RingGemv::barrierOf(int64_t rows, int64_t turn) {
  return b.add(b.mul(ownWarp, mostStages()), turn % stagesOf(rows));
}

/// Copies the first `count` elements of a stage of all rows, and those before
/// them that the turn before has too.
void RingGemv::copyBulk(ArrayRef<WeightRow> rows, Value first, int64_t turn,
                        int64_t count) {
  int64_t bytes = elementBytes(), lead = turn ? shape.lead : 0;
  Value barrier = barrierOf(rows.size(), turn);
  barriers->announce(barrier, static_cast<int64_t>(rows.size()) *
                                  (lead + count) * bytes);
  Value begin = b.mul(b.add(first, turn), stageLength());
  for (auto [i, row] : llvm::enumerate(rows)) {
    RowAddress to = stage(rows.size(), i, first, turn);
    Value column = b.sub(begin, b.i32(lead));
    barriers->copyBytes(
        b.address(row.weight.rows, row.row, b.add(row.column, column)),
        (lead + count) * bytes, barrier,
        b.address(to.rows, to.row, b.add(to.first, column)));
  }
}

/// One lane copies a stage, if the row has this stage. The last stage of a row
/// may be shorter: it is in a place of its own in a loop's turn.
void RingGemv::fetchBulk(ArrayRef<WeightRow> rows, Value first, int64_t turn) {
  int64_t each = stagesOf(rows.size()), whole = length / stageLength(),
          rest = length % stageLength();
  Value number = b.add(first, turn);
  bool isFirst = turn < each; // asked for before any is multiplied
  if (isFirst ? turn < whole : whole > each)
    b.when(isFirst ? leads : b.both(leads, b.less(number, b.i32(whole))),
           [&] { copyBulk(rows, first, turn, stageLength()); });
  if (rest && turn % each == whole % each && (isFirst ? turn == whole : true))
    b.when(isFirst ? leads : b.both(leads, b.equal(number, b.i32(whole))),
           [&] { copyBulk(rows, first, turn, rest); });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

SmallVector<Value> RingGemv::dotsInPlace(const Work &work,
                                         ArrayRef<WeightRow> rows) {
  SmallVector<RowAddress> sources;
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
          return step(sources, columns, inputs(work, rows, columns), carried);
        });
  return b.loop(b.add(own, main), b.i32(length), turnLength(), sums,
                [&](Value column, ValueRange carried) {
                  return step(sources, column, inputs(work, rows, column),
                              carried);
                });
}

/// The column of a lane at a turn that begins `inStage` elements after the
/// beginning of a stage.
Value RingGemv::columnAt(Value first, int64_t turn, int64_t inStage) {
  Value begin = b.mul(b.add(first, turn), stageLength());
  return b.add(b.add(begin, b.mul(b.lane(), shape.piece)), inStage);
}

/// Products of a stage that all lanes have.
SmallVector<Value> RingGemv::multiply(const Work &work,
                                      ArrayRef<WeightRow> rows, Value first,
                                      int64_t turn, ValueRange sums) {
  auto count = static_cast<int64_t>(rows.size());
  SmallVector<SmallVector<Value>> inputs;
  SmallVector<Value> columns, next(sums);
  for (int64_t i = 0; i < shape.grain; ++i) {
    columns.push_back(columnAt(first, turn, i * turnLength()));
    inputs.push_back(this->inputs(work, rows, columns.back()));
  }
  await(count, first, turn);
  if (!bulk)
    fetch(rows, first, turn + aheadOf(count));
  SmallVector<RowAddress> sources = stagesAt(count, first, turn);
  for (auto [column, own] : llvm::zip(columns, inputs))
    next = step(sources, column, own, next);
  if (bulk && stagesOf(count) * stageLength() < length) {
    cuda::warpBarrier(b);
    fetch(rows, first, turn + stagesOf(count));
  }
  return next;
}

/// Products of the row's last stage, which is shorter.
SmallVector<Value> RingGemv::multiplyRest(const Work &work,
                                          ArrayRef<WeightRow> rows, Value first,
                                          int64_t turn, ValueRange sums) {
  auto count = static_cast<int64_t>(rows.size());
  await(count, first, turn);
  SmallVector<RowAddress> sources = stagesAt(count, first, turn);
  SmallVector<Value> next(sums);
  int64_t at = 0, rest = length % stageLength();
  for (; at + turnLength() <= rest; at += turnLength()) {
    Value column = columnAt(first, turn, at);
    next = step(sources, column, inputs(work, rows, column), next);
  }
  if (at == rest)
    return next;
  // In the last turn, lanes past the end have nothing to do.
  return b.loop(columnAt(first, turn, at), b.i32(length), turnLength(), next,
                [&](Value column, ValueRange carried) {
                  return step(sources, column, inputs(work, rows, column),
                              carried);
                });
}

SmallVector<Value> RingGemv::dots(const Work &work, ArrayRef<WeightRow> rows) {
  if (!stages)
    return dotsInPlace(work, rows);
  auto count = static_cast<int64_t>(rows.size());
  int64_t each = stagesOf(count), whole = length / stageLength();
  int64_t rounds = whole / each * each;
  SmallVector<Value> sums(count * m, zero());
  if (rounds)
    sums = b.loop(b.i32(0), b.i32(rounds), each, sums,
                  [&](Value first, ValueRange carried) {
                    SmallVector<Value> next(carried);
                    for (int64_t i = 0; i < each; ++i)
                      next = multiply(work, rows, first, i, next);
                    return next;
                  });
  Value first = b.i32(rounds);
  for (int64_t i = 0; i < whole - rounds; ++i)
    sums = multiply(work, rows, first, i, sums);
  if (length % stageLength() == 0)
    return sums;
  return multiplyRest(work, rows, first, whole - rounds, sums);
}
