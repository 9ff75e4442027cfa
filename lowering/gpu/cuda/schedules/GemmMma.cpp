/// A tiled product on tensor cores (mma.sync, sm_80):
///
///                        few rows       some          many
///   tile                 32 x 64        64 x 64       128 x 128
///   ring of cp.async     4 stages       5             3
///   terms of a stage     64             64            32
///   warp w, rows         0..31          w / 2 * 32..  w / 2 * 64..
///           columns      w * 16 + 0..   w % 2 * 32..  w % 2 * 64..
///
/// Copies are all stages but one ahead. A warp multiplies 16 x 8 x 16 at once;
/// operands come by ldmatrix.
///
/// A row of a stage has 64 or 128 bytes, in chunks of 16. Chunk c of row r lies
/// at c ^ (r / 2 % 4), or at c ^ (r % 8) if the row has 128 bytes, so that the
/// eight rows of an ldmatrix hit all banks.
///
/// Weights in blocks lie in a ring of their own, as bytes, and lanes widen what
/// they multiply (WidenedBlocks.h). So that each number is widened once, a warp
/// has all rows of the tile and a quarter of its columns; a stage has 64 terms.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/Warpgroups.h"
#include "lowering/gpu/cuda/schedules/MmaTile.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/cuda/schedules/WidenedBlocks.h"
#include "lowering/kernel/BlockProduct.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Elements of a chunk.
static constexpr int64_t kChunk = 8;

namespace {
class MmaGemm : public MmaTile {
public:
  MmaGemm(Launch &launch, const GemmProblem &problem, bool clusters)
      : MmaGemm(launch, problem, problem.tile(), clusters,
                /*rowsOfW=*/problem.tile().n) {}
  /// Makes the blocks of each tile a cluster.
  void formClusters() {
    cuda::formClusters(b, {static_cast<int32_t>(tileSplits()), 1, 1});
  }

protected:
  /// A stage has the tile's rows of the input, and `rowsOfW` rows of weights.
  MmaGemm(Launch &launch, const GemmProblem &problem, const TileSizes &tile,
          bool clusters, int64_t rowsOfW)
      : MmaTile(launch, problem.works,
                problem.grouped(shapeOf(problem.tuning, tile, clusters)),
                problem.rows(), tile.warpsDown),
        count(tile.stages), clusters(clusters), terms(tile.terms),
        stageRows(m + rowsOfW), stages(makeStages()) {
    // Else ptxas takes registers that one block less fits.
    cuda::fitBlocks(b, tile.resident);
  }
  virtual void fetchW(const Corner &corner, Value step);
  /// Where the lane's matrices begin in the first stage, for each 16 terms of a
  /// step.
  struct Starts {
    SmallVector<Address> x, w;
  };
  virtual SmallVector<Value> step(const Starts &starts, Value step,
                                  ValueRange sums);
  /// Loads the matrices of the input, 16 rows from row `row` of the warp on.
  SmallVector<Value> loadX(Address start, int64_t row) {
    // A multiple of 8 rows further on, chunks lie in the same order.
    return cuda::loadMatrices(b, b.further(start, stages, row, 0));
  }
  /// Elements from the first stage to that of a step.
  Value stageOf(Value step) {
    return b.mul(b.rem(step, count), stageRows * terms);
  }

  int64_t count; // of stages

private:
  static GemmShape shapeOf(const Tuning &tuning, const TileSizes &tile,
                           bool clusters) {
    GemmShape shape = {tile.m, tile.n, tile.terms,
                       clusters ? tile.clusterBlocks : tile.splitBlocks,
                       tuning.splits};
    shape.clusters = clusters;
    return shape;
  }
  void multiplyTiles(Value rows) override {
    multiplyOne(
        rows, [&](const Corner &corner) { return multiply(corner); },
        [&](const Corner &corner) { prefetch(corner); });
  }
  void finishTile(const Corner &corner, std::vector<Sums> sums) override {
    if (!clusters)
      return MmaTile::finishTile(corner, std::move(sums));
    auto barrier = [&] {
      cuda::arriveAtCluster(b);
      cuda::awaitCluster(b);
    };
    finishCluster(corner, sums, barrier,
                  [&](Value number) { return placeOf(number); });
  }
  std::vector<Sums> multiply(const Corner &corner);
  void prefetch(const Corner &corner);
  Rows freeMemory() const override { return stages; }
  /// Weights in blocks take what a kernel may declare.
  int64_t launchedBytes() const override {
    return stageRows == m || bytes() > kDeclaredMemory ? bytes() : 0;
  }
  int64_t bytes() const { return count * stageRows * 2 * terms; }
  Rows makeStages() {
    int64_t elements = count * stageRows * terms;
    return launchedBytes() ? b.launchedShared(x.rows.element, elements, terms)
                           : b.shared(x.rows.element, elements, terms);
  }
  void fetchX(const Corner &corner, Value step);
  void fetch(const Corner &corner, Value step);
  void fetchRows(Value stage, int64_t firstRow, int64_t rows, Value first,
                 llvm::function_ref<Guarded(Value, Value)> at);
  Starts starts();
  /// Where chunk `chunk` of a stage's row lies.
  Value swizzled(Value row, Value chunk) {
    ArrayRef<int64_t> order = cuda::kSwizzle64;
    if (terms == 64)
      order = cuda::kSwizzle128;
    return b.mul(cuda::swizzle(b, row, chunk, order), kChunk);
  }

  bool clusters;
  int64_t terms; // of a stage
  int64_t stageRows;
  Rows stages; // the input's rows, then the weights', stage after stage
};

/// The same with weights in blocks.
class WidenedMmaGemm : public MmaGemm {
public:
  WidenedMmaGemm(Launch &launch, const GemmProblem &problem, bool clusters)
      : WidenedMmaGemm(launch, problem, tileOf(problem), clusters) {}

private:
  WidenedMmaGemm(Launch &launch, const GemmProblem &problem,
                 const TileSizes &tile, bool clusters)
      : MmaGemm(launch, problem, tile, clusters, /*rowsOfW=*/0),
        blocks(b, works[0].dots[0], weightLength, kBlocks, x.rows.element) {
    int64_t stride = strideOf(problem);
    blocks.lieIn(b.shared(b.getI8Type(), count * n * stride, stride));
  }
  static TileSizes tileOf(const GemmProblem &problem);
  static int64_t strideOf(const GemmProblem &problem) {
    return cuda::WidenedBlocks::strideOf(problem.works[0].dots[0].bits,
                                         kBlocks);
  }
  int64_t rowsOfWarp() const { return across() * 8; }
  /// The stages' row that is the first of the warp.
  Value rowOf(Value step) {
    return b.add(b.mul(b.rem(step, count), n), firstColumn(b.warp()));
  }
  void fetchW(const Corner &corner, Value step) override;
  SmallVector<Value> step(const Starts &starts, Value step,
                          ValueRange sums) override;

  /// Of a step.
  static constexpr int64_t kBlocks = 2;
  cuda::WidenedBlocks blocks; // stage after stage
};
} // namespace

/// Begins to copy rows of a tile, columns of k from `first` on, to rows of a
/// stage from `firstRow` on.
void MmaGemm::fetchRows(Value stage, int64_t firstRow, int64_t rows,
                        Value first,
                        llvm::function_ref<Guarded(Value, Value)> at) {
  int64_t each = terms / width;
  auto placeOf = [&](Value i) {
    Value row = b.div(i, each), column = b.mul(b.rem(i, each), width);
    Value to =
        b.add(swizzled(row, b.div(column, kChunk)), b.rem(column, kChunk));
    return b.further(b.address(stages, b.add(row, firstRow), to), stage);
  };
  auto copy = [&](Value i, Address to) {
    Value column = b.mul(b.rem(i, each), width);
    Guarded from = at(b.div(i, each), b.add(first, column));
    cuda::copyAsync(b, to, from.address, 2 * width, from.exists);
  };
  // Narrower copies are many: their addresses would not fit registers.
  if (width < kChunk)
    return b.loop(b.thread(), b.i32(rows * each), kGemmThreads,
                  [&](Value i) { copy(i, placeOf(i)); });
  // A multiple of 8 rows further on, chunks lie in the same order.
  int64_t turnRows = kGemmThreads * kChunk / terms;
  assert(turnRows % 8 == 0 && "rows of a chunk's order");
  assert(rows % turnRows == 0 && "a turn is of all threads");
  Address to = placeOf(b.thread());
  for (int64_t row = 0; row < rows; row += turnRows)
    copy(b.add(b.thread(), row * each), b.further(to, stages, row, 0));
}

/// Begins to copy a step's rows of the input to its stage.
void MmaGemm::fetchX(const Corner &corner, Value step) {
  fetchRows(stageOf(step), 0, m, b.mul(step, terms),
            [&](Value r, Value c) { return elementX(corner, r, c); });
}

void MmaGemm::fetchW(const Corner &corner, Value step) {
  fetchRows(stageOf(step), m, n, b.mul(step, terms),
            [&](Value r, Value c) { return elementW(corner, unitOf(r), c); });
}

/// Begins to fill the stage of a step, if there is such a step. Every step is a
/// group of copies, an empty one past the end, so that waiting is counting.
void MmaGemm::fetch(const Corner &corner, Value step) {
  b.when(b.less(step, corner.end), [&] {
    fetchX(corner, step);
    fetchW(corner, step);
  });
  cuda::commitCopies(b);
}

void MmaGemm::prefetch(const Corner &corner) {
  for (int64_t i = 0; i + 1 < count; ++i) {
    Value step = b.add(corner.first, i), exists = b.less(step, corner.end);
    if (corner.exists)
      exists = b.both(exists, corner.exists);
    b.when(exists, [&] { fetchW(corner, step); });
  }
}

MmaGemm::Starts MmaGemm::starts() {
  Value lane = b.lane();
  Value rowX = b.add(firstRow(b.warp()), cuda::kLoadX.row(b, lane));
  Value rowW = b.add(firstColumn(b.warp()), cuda::kLoadW.row(b, lane));
  Value chunkX = cuda::kLoadX.column(b, lane),
        chunkW = cuda::kLoadW.column(b, lane);
  auto start = [&](Value row, int64_t firstRow, Value chunk) {
    return b.address(stages, b.add(row, firstRow), swizzled(row, chunk));
  };
  Starts result;
  for (int64_t chunk = 0; chunk < terms / kChunk; chunk += 2) {
    result.x.push_back(start(rowX, 0, b.add(chunkX, chunk)));
    if (stageRows > m)
      result.w.push_back(start(rowW, m, b.add(chunkW, chunk)));
  }
  return result;
}

SmallVector<Value> MmaGemm::step(const Starts &starts, Value step,
                                 ValueRange sums) {
  SmallVector<Value> next(sums);
  Value stage = stageOf(step);
  for (auto [firstX, firstW] : llvm::zip(starts.x, starts.w)) {
    Address startX = b.further(firstX, stage);
    Address startW = b.further(firstW, stage);
    SmallVector<SmallVector<Value>> xs, ws;
    for (int64_t i = 0; i < down(); ++i)
      xs.push_back(loadX(startX, i * 16));
    for (int64_t j = 0; j < across(); j += 2)
      ws.push_back(cuda::loadMatrices(b, b.further(startW, stages, j * 8, 0)));
    for (int64_t i = 0; i < down(); ++i)
      for (int64_t j = 0; j < across(); j += 2)
        cuda::mma(b, x.rows.element, xs[i], ws[j / 2],
                  MutableArrayRef(next).slice((i * across() + j) * 4, 8));
  }
  return next;
}

std::vector<GemmTile::Sums> MmaGemm::multiply(const Corner &corner) {
  // The first group has the weights of all these steps, too.
  for (int64_t i = 0; i + 1 < count; ++i) {
    Value step = b.add(corner.first, i);
    b.when(b.less(step, corner.end), [&] { fetchX(corner, step); });
    cuda::commitCopies(b);
  }
  SmallVector<Value> init(down() * across() * 4, b.f32(0));
  Starts starts = this->starts();
  auto sums = b.loop(corner.first, corner.end, 1, init,
                     [&](Value at, ValueRange carried) {
                       // This step's copies have landed, everybody's; and the
                       // stage of the step before is free.
                       cuda::awaitCopies(b, count - 2);
                       b.barrier();
                       fetch(corner, b.add(at, count - 1));
                       return step(starts, at, carried);
                     });
  cuda::awaitCopies(b, 0);
  return sumsOf(sums);
}

/// The problem's tile, with two products side by side for each warp at least,
/// in stages of whole steps, as many as there is room for.
TileSizes WidenedMmaGemm::tileOf(const GemmProblem &problem) {
  TileSizes tile = problem.tile();
  tile.n = std::max<int64_t>(tile.n, 64);
  tile.stages =
      std::min(tile.stages, kDeclaredMemory / (tile.n * strideOf(problem)));
  tile.terms = kBlocks * BlockProduct::kNumbers;
  tile.warpsDown = 1;
  return tile;
}

/// A warp copies the rows that it multiplies.
void WidenedMmaGemm::fetchW(const Corner &corner, Value step) {
  Value first = firstColumn(b.warp());
  blocks.fetch(rowOf(step), rowsOfWarp(), step, [&](Value row, Value byte) {
    Guarded from = elementW(corner, unitOf(b.add(first, row)), byte);
    return std::pair(from.address, from.exists);
  });
}

SmallVector<Value> WidenedMmaGemm::step(const Starts &starts, Value step,
                                        ValueRange sums) {
  SmallVector<Value> next(sums);
  Value g = cuda::kMmaW.row(b, b.lane());
  auto first = blocks.startOf(b.add(rowOf(step), g), b.i32(0), step);
  for (int64_t block = 0; block < kBlocks; ++block) {
    // Of the block's first 16 terms, and of the others.
    std::array<SmallVector<Value>, 2> ws;
    for (int64_t j = 0; j < across(); ++j) {
      auto own = blocks.read(blocks.further(first, j * 8), block);
      for (int64_t half = 0; half < 2; ++half)
        llvm::append_range(ws[half], blocks.widen(own, half));
    }
    for (auto [half, w] : llvm::enumerate(ws)) {
      Address start = b.further(starts.x[block * 2 + half], stageOf(step));
      for (int64_t i = 0; i < down(); ++i)
        cuda::mma(b, x.rows.element, loadX(start, i * 16), w,
                  MutableArrayRef(next).slice(i * across() * 4, across() * 4));
    }
  }
  return next;
}

static std::unique_ptr<MmaGemm>
makeGemm(Launch &launch, const GemmProblem &problem, bool clusters) {
  if (problem.works[0].dots[0].bits)
    return std::make_unique<WidenedMmaGemm>(launch, problem, clusters);
  return std::make_unique<MmaGemm>(launch, problem, clusters);
}

GemmKernel cuda::makeMmaGemm(const GemmProblem &problem, const Twine &name) {
  auto launch = std::make_unique<Launch>(problem.function, name, kGemmThreads);
  auto tile = makeGemm(*launch, problem, /*clusters=*/false);
  return {std::move(launch), std::move(tile)};
}

GemmKernel cuda::makeClusterGemm(const GemmProblem &problem,
                                 const Twine &name) {
  auto launch = std::make_unique<Launch>(problem.function, name, kGemmThreads);
  auto tile = makeGemm(*launch, problem, /*clusters=*/true);
  if (tile->tileSplits() == 1) { // each tile has one block
    launch->erase();
    return {};
  }
  tile->formClusters();
  return {std::move(launch), std::move(tile)};
}
