/// A tiled product by warpgroups (wgmma, sm_90a), 128 x 256 or 128 x 128 in
/// steps of 64:
///
///   warpgroup 2   one thread copies the rows of input and weights of a step to
///                 a slot of a ring, as soon as the slot is free
///   0 and 1       multiply 64 rows each, when the slot is full, and finish the
///                 tile
///
/// Blocks are clusters of two, whose tiles nearly always have the same weights:
/// each block copies half of them to both, else all of its own. So a slot is
/// free when the warpgroups of both blocks have multiplied what it had, and a
/// block ends when the other one, too, needs its memory and its barriers no
/// more.
///
/// The grid is persistent, one block on each multiprocessor: while warpgroups
/// finish a tile, the first steps of the next one are on their way. Weights of
/// the first tile's first steps are on their way before the launch before has
/// ended, which makes the input.
///
/// Copies take boxes, which tensor maps describe: zeros where the input has no
/// row, or a row no element. Rows of weights lie in the tile so that a lane has
/// the sums of neighbouring units. Lane t holds columns 2t and 2t + 1 of each
/// product p. For eight units of one sum, weights are placed so that these
/// columns are units 8t + 2p and 8t + 2p + 1. To the map a weight is a tensor
///
///   k   2   4 (t)   4 (p)   groups of 32 units
///
/// which is copied in this order. Of two sums, all units of the first come
/// first.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/Ring.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Rows of a tile, 64 of each warpgroup, and terms of a step: a box's row.
static constexpr int64_t kTileM = 128, kTileK = 64;
/// Threads that multiply, and warpgroups of a cluster that do.
static constexpr int64_t kMultiply = 2 * cuda::kWarpgroup,
                         kReaders = 2 * kMultiply / cuda::kWarpgroup;

static GemmShape shapeOf(const GemmProblem &problem, int64_t n) {
  return {/*m=*/kTileM,
          /*n=*/n,
          /*step=*/kTileK,
          /*blocks=*/problem.tuning.warpgroups.blocks,
          /*splits=*/problem.tuning.splits,
          /*threads=*/kMultiply,
          /*leastDown=*/problem.rows().above / kTileM + 1,
          /*persistent=*/true};
}

namespace {
class WgmmaGemm : public GemmTile {
public:
  WgmmaGemm(Launch &launch, const GemmProblem &problem, int64_t n)
      : GemmTile(launch, problem.works, shapeOf(problem, n), problem.rows()),
        sizes(problem.tuning.warpgroups) {}

  /// Makes tensor maps of the operands; false where they cannot be copied so.
  bool addMaps();
  /// Begins the kernel's shared memory.
  void begin();

private:
  /// A weight's boxes: `units` units each, and where the box of a unit begins.
  struct Boxes {
    Value map;
    SmallVector<int64_t> box;
    int64_t units;
  };
  void multiplyTiles(Value rows) override;
  Rows freeMemory() const override { return flag; }
  void barrier() override { cuda::barrierOf(b, kMultiply); }
  int64_t launchedBytes() const override { return sizes.stages * stageBytes(); }
  int64_t stageRows() const { return kTileM + n; }
  int64_t stageBytes() const { return stageRows() * cuda::kBoxBytes; }

  bool takesInput();
  std::optional<int64_t> unitsOfBox(const Work &work, const Operand &weight,
                                    int64_t group);
  Boxes boxesOf(const Operand &weight, int64_t units);

  /// A copy of weights, but for the step's terms.
  struct Copy {
    const Boxes &from;
    Value group, row; // of the map, and of the stage
  };
  std::vector<Copy> copiesOf(const Corner &corner, size_t i, Value half);
  enum Operands { Input, Weights, Both };
  void copyWork(cuda::Ring &ring, const Corner &corner, size_t i, Value before,
                Value first, Value end, Operands operands);
  /// The end of the steps whose slots are free when the first tile begins.
  Value endOfFree(const Corner &corner) {
    return b.min(b.add(corner.first, sizes.stages), corner.end);
  }
  std::vector<Sums> sum(cuda::Ring &ring, const Corner &corner, Value before);
  /// The steps done after this tile, if `before` were done before it.
  Value behind(const Corner &corner, Value before) {
    return b.add(before, b.sub(corner.end, corner.first));
  }
  void forTiles(Value rows, llvm::function_ref<Value(Value, Value)> body);
  std::vector<Sums> sumsOf(ValueRange sums);
  int64_t group() const { return 4 * together; }

  const WarpgroupSizes &sizes;
  /// Neighbouring units of a lane.
  int64_t together = 8;
  Value mapX;
  std::vector<SmallVector<Boxes>> boxes; // of each sum of each work
  Rows slots, flag;
};
} // namespace

/// Whether the tile's rows of the input follow one another, and begin at k = 0.
bool WgmmaGemm::takesInput() {
  return works[0].row && width * 2 == 16 &&
         x.row == launch.of.elements.dim(*works[0].row) &&
         x.column == launch.of.elements.constant(0);
}

/// How many units are copied at once: their rows of a weight follow one
/// another, and the first unit is a multiple of their number. None if they are
/// not groups of `group` units.
std::optional<int64_t>
WgmmaGemm::unitsOfBox(const Work &work, const Operand &weight, int64_t group) {
  if (work.unitLoops.empty() || weight.column != launch.of.elements.constant(0))
    return std::nullopt;
  unsigned last = work.unitLoops.back();
  AffineExpr dim = launch.of.elements.dim(last);
  AffineExpr first = weight.row.replace(dim, launch.of.elements.constant(0));
  auto type = cast<MemRefType>(weight.rows.base.getType());
  int64_t length = work.part.box[last].constant;
  if (launch.of.elements.simplify(weight.row - first - dim, work.longBox()) !=
          launch.of.elements.constant(0) ||
      !first.isMultipleOf(group) || length % group ||
      type.getNumElements() % (group * weight.rows.stride))
    return std::nullopt;
  int64_t most = unitsOfTile() / 2; // what one block of a cluster copies
  return work.unitLoops.size() == 1 ? most : std::min(most, length & -length);
}

WgmmaGemm::Boxes WgmmaGemm::boxesOf(const Operand &weight, int64_t units) {
  int64_t stride = weight.rows.stride;
  auto type = cast<MemRefType>(weight.rows.base.getType());
  int64_t groups = type.getNumElements() / (group() * stride);
  SmallVector<int64_t> box = {kTileK, 2, 4, together / 2, units / group()};
  TensorMap map = {{k, 2, 4, together / 2, groups},
                   {stride, together * stride, 2 * stride, group() * stride},
                   box};
  return {launch.tensorMap(weight.rows, map), box, units};
}

bool WgmmaGemm::addMaps() {
  Size rows = works[0].rows();
  std::optional<int64_t> prompt = launch.of.mostTokens();
  if (!takesInput() || (!rows.isConstant() && !prompt))
    return false;
  auto fits = [&](int64_t group) {
    for (auto [work, own] : llvm::zip(works, weights))
      for (const Operand &weight : own)
        if (!unitsOfBox(work, weight, group))
          return false;
    return true;
  };
  while (together > 1 && !fits(group()))
    together /= 2;
  if (together == 1)
    return false;
  // Works that read the same weights share boxes: those that fit all of them.
  llvm::MapVector<Value, int64_t> units;
  for (auto [work, own] : llvm::zip(works, weights))
    for (const Operand &weight : own) {
      int64_t &least = units[weight.rows.base],
              mine = *unitsOfBox(work, weight, group());
      least = least ? std::min(least, mine) : mine;
    }
  llvm::MapVector<Value, Boxes> known;
  for (ArrayRef<Operand> own : weights) {
    SmallVector<Boxes> &all = boxes.emplace_back();
    for (const Operand &weight : own) {
      Value base = weight.rows.base;
      auto found = known.find(base);
      if (found == known.end())
        found = known.insert({base, boxesOf(weight, units[base])}).first;
      all.push_back(found->second);
    }
  }
  int64_t most = rows.isConstant() ? rows.constant : *prompt;
  mapX =
      launch.tensorMap(x.rows, {{k, most}, {x.rows.stride}, {kTileK, kTileM}});
  return true;
}

void WgmmaGemm::begin() {
  Type element = x.rows.element;
  slots =
      b.launchedShared(element, sizes.stages * stageRows() * kTileK, kTileK);
  if (splitTiles())
    flag = b.shared(b.getI32Type(), 1, 1);
  cuda::fitBlocks(b, 1);
  cuda::formClusters(b, {1, 2, 1});
}

/// Copies of the first or the second half of a work's weights, with what is the
/// same in all steps.
std::vector<WgmmaGemm::Copy> WgmmaGemm::copiesOf(const Corner &corner, size_t i,
                                                 Value half) {
  std::vector<Copy> copies;
  Value first = b.mul(half, unitsOfTile() / 2);
  for (auto [s, from] : llvm::enumerate(boxes[i]))
    for (int64_t unit = 0; unit < unitsOfTile() / 2; unit += from.units) {
      Value own = b.add(first, unit);
      auto loops = works[i].loops(b, b.i32(0), b.add(corner.unit, own));
      Value row = launch.value(weights[i][s].row, loops);
      copies.push_back(
          {from, b.div(row, group()),
           b.add(own, kTileM + static_cast<int64_t>(s) * unitsOfTile())});
    }
  return copies;
}

/// Copies operands of the steps [first, end). `before` steps of other tiles
/// were before this tile's. Weights alone are copied first, to slots that are
/// free, and their inputs after them.
void WgmmaGemm::copyWork(cuda::Ring &ring, const Corner &corner, size_t i,
                         Value before, Value first, Value end,
                         Operands operands) {
  Value me = corner.ofPair, other = b.sub(b.i32(1), me);
  auto mask = [&](Value block) {
    return b.create<arith::TruncIOp>(b.getI16Type(), block);
  };
  Value self = b.add(me, 1), both = b.i32(3);
  Value blocks = mask(b.select(corner.sharesWeights, both, self));
  std::vector<Copy> mine = copiesOf(corner, i, me),
                    others = copiesOf(corner, i, other);
  b.loop(first, end, 1, [&](Value at) {
    cuda::Ring::Slot slot = ring.slot(b.add(before, b.sub(at, corner.first)));
    auto copy = [&](cuda::PhaseBarriers &barriers, Value full) {
      Value start = b.mul(slot.number, stageRows());
      Value column = b.mul(at, kTileK), none = b.i32(0);
      auto copyAll = [&](ArrayRef<Copy> copies, Value blocks) {
        for (const Copy &copy : copies)
          barriers.copyBox(
              copy.from.map, {column, none, none, none, copy.group},
              copy.from.box, full,
              b.address(slots, b.add(start, copy.row), none), blocks);
      };
      if (operands != Weights)
        barriers.copyBox(mapX, {column, corner.row}, {kTileK, kTileM}, full,
                         b.address(slots, start, none));
      if (operands == Input)
        return;
      copyAll(mine, blocks);
      b.when(
          corner.sharesWeights, [] {}, [&] { copyAll(others, mask(self)); });
    };
    if (operands == Both)
      ring.fill(slot, stageBytes(), copy);
    else if (operands == Weights)
      ring.bring(slot, stageBytes(), copy);
    else
      ring.add(slot, copy);
  });
}

/// A step's slot is released once the next step's products have begun and this
/// step's are done, so that some products are always under way. One thread of a
/// warpgroup tells each block of the cluster.
std::vector<GemmTile::Sums> WgmmaGemm::sum(cuda::Ring &ring,
                                           const Corner &corner, Value before) {
  Value warpgroup = b.div(b.thread(), cuda::kWarpgroup);
  Value block = b.rem(b.thread(), cuda::kWarpgroup);
  // `to` is a block of the cluster in all threads: LLVM may look for its
  // barrier before it asks whether the thread tells.
  Value tells = b.less(block, b.i32(2)), to = b.rem(b.thread(), 2);
  Value startX = cuda::describeRows(
      b, b.address(slots, b.mul(warpgroup, kTileM / 2), b.i32(0)));
  Value startW =
      cuda::describeRows(b, b.address(slots, b.i32(kTileM), b.i32(0)));
  SmallVector<Value> sums = b.loop(
      corner.first, corner.end, 1, cuda::zeroSums(b, n),
      [&](Value at, ValueRange carried) {
        Value turn = b.add(before, b.sub(at, corner.first));
        cuda::Ring::Slot slot = ring.slot(turn);
        ring.await(slot);
        Value next = cuda::fenceSums(b, carried[0]);
        Value chunks = b.mul(slot.number, stageBytes() / 16);
        for (int64_t i = 0; i < kTileK / 16; ++i) {
          Value own = b.add(chunks, i * 2);
          next = cuda::multiplyTiles(b, x.rows.element, n,
                                     cuda::further(b, startX, own),
                                     cuda::further(b, startW, own), next);
        }
        cuda::commitProducts(b);
        cuda::awaitProducts(b, 1);
        // Opaque: LLVM would write the loop's body twice, for the first step.
        b.when(b.both(tells, b.less(corner.first, b.opaque(at))),
               [&] { ring.release(ring.slot(b.sub(turn, b.i32(1))), to); });
        return SmallVector<Value>{next};
      });
  SmallVector<Value> done = cuda::awaitSums(b, sums[0]);
  b.when(tells, [&] {
    ring.release(ring.slot(b.sub(behind(corner, before), b.i32(1))), to);
  });
  return sumsOf(done);
}

/// The sums of a lane, of rows g and g + 8 of its warp's 16.
std::vector<GemmTile::Sums> WgmmaGemm::sumsOf(ValueRange sums) {
  // Computed anew: registers are few while products are added up.
  Value thread = b.opaque(b.thread());
  Value lane = b.rem(thread, kWarp), warp = b.div(thread, kWarp);
  Value row = b.add(b.mul(warp, 16), cuda::kMmaSums.row(b, lane));
  Value unit = b.mul(b.rem(lane, 4), together);
  std::vector<Sums> result;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t first = 0; first < unitsOfTile(); first += group()) {
      Sums &own = result.emplace_back();
      own.row = b.add(row, i * 8);
      own.unit = b.add(unit, first);
      for (int64_t s = 0; s < sumsOfUnit(); ++s) {
        SmallVector<Value> &values = own.values.emplace_back();
        for (int64_t p = 0; p < together / 2; ++p)
          for (int64_t e = 0; e < 2; ++e) {
            int64_t product = (s * unitsOfTile() + first) / 8 + p;
            values.push_back(sums[product * 4 + i * 2 + e]);
          }
      }
    }
  return result;
}

/// Calls `body` for each turn of the block's pair, with the turn and the steps
/// of k of those before; it returns the steps with its own.
void WgmmaGemm::forTiles(Value rows,
                         llvm::function_ref<Value(Value, Value)> body) {
  b.loop(b.block(0), turns(rows), sizes.blocks / 2, {b.i32(0)},
         [&](Value turn, ValueRange before) {
           return SmallVector<Value>{body(turn, before[0])};
         });
}

void WgmmaGemm::multiplyTiles(Value rows) {
  cuda::Ring ring(b, sizes.stages);
  ring.begin(kReaders);
  cuda::arriveAtCluster(b);
  cuda::awaitCluster(b);
  auto multiplyAll = [&] {
    cuda::awaitLaunch(b);
    forTiles(rows, [&](Value turn, Value before) {
      Corner corner = cornerOf(turn, rows);
      std::vector<Sums> sums = sum(ring, corner, before);
      // Computed anew: registers are few while products are added up.
      Corner late = cornerOf(b.opaque(turn), b.opaque(rows));
      when(late.exists, [&] { finishTile(late, std::move(sums)); });
      return behind(corner, before);
    });
  };
  auto copySteps = [&](const Corner &corner, Value before, Value first,
                       Value end, Operands operands) {
    branch(b, workTiles, corner.tile, [&](size_t i, Value) {
      copyWork(ring, corner, i, before, first, end, operands);
    });
  };
  auto copyFirst = [&](Operands operands) {
    Value turn = b.block(0);
    b.when(b.less(turn, turns(rows)), [&] {
      Corner corner = cornerOf(turn, rows);
      copySteps(corner, b.i32(0), corner.first, endOfFree(corner), operands);
    });
  };
  auto copyAll = [&] {
    copyFirst(Weights);
    cuda::beginNextLaunch(b);
    cuda::awaitLaunch(b);
    copyFirst(Input);
    forTiles(rows, [&](Value turn, Value before) {
      Corner corner = cornerOf(turn, rows);
      Value first =
          b.select(b.equal(turn, b.block(0)), endOfFree(corner), corner.first);
      copySteps(corner, before, first, corner.end, Both);
      return behind(corner, before);
    });
  };
  cuda::specialize(b, kMultiply, multiplyAll, copyAll);
  cuda::arriveAtCluster(b);
  cuda::awaitCluster(b);
}

/// Rows of weights of a tile. Tiles are wide if the longest prompt has enough
/// wide tiles, or splits of them, to fill the machine. At most `wideSplits`
/// splits of a tile count: each has sums to add, and a wide tile has twice as
/// many.
static int64_t columnsOf(const GemmProblem &problem) {
  const WarpgroupSizes &sizes = problem.tuning.warpgroups;
  ArrayRef<Work> works = problem.works;
  int64_t rows = kTileM, tiles = 0;
  if (Size size = works[0].rows(); size.isConstant())
    rows = size.constant;
  else
    rows = problem.function.mostTokens().value_or(rows);
  for (const Work &work : works)
    tiles += llvm::divideCeil(
        work.units * static_cast<int64_t>(work.sums.size()), sizes.wide);
  tiles *= llvm::divideCeil(rows, kTileM);
  int64_t splits = std::clamp<int64_t>(
      works[0].dots[0].terms.constant / sizes.wideTerms, 1, sizes.wideSplits);
  return tiles * splits < problem.tuning.splits.wholeTiles ? sizes.narrow
                                                           : sizes.wide;
}

GemmKernel cuda::makeWgmmaGemm(const GemmProblem &problem, const Twine &name) {
  auto launch = std::make_unique<Launch>(problem.function, name,
                                         cuda::specializedThreads(kMultiply));
  auto gemm = std::make_unique<WgmmaGemm>(*launch, problem, columnsOf(problem));
  if (!gemm->addMaps()) {
    launch->erase();
    return {};
  }
  gemm->begin();
  return {std::move(launch), std::move(gemm)};
}
