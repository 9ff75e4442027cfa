#include "lowering/gpu/cuda/schedules/WgmmaTile.h"
#include "lowering/gpu/cuda/TensorCores.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Terms of a box of the input, whose rows have 128 bytes.
static constexpr int64_t kBoxTerms = cuda::kBoxBytes / 2;

static GemmShape shapeOf(const GemmProblem &problem, int64_t m, int64_t n,
                         int64_t terms) {
  return {/*m=*/m,
          /*n=*/n,
          /*step=*/terms,
          /*blocks=*/problem.tuning.warpgroups.blocks,
          /*splits=*/problem.tuning.splits,
          /*threads=*/WgmmaTile::kMultiply,
          /*leastDown=*/problem.rows().above / m + 1,
          /*persistent=*/true};
}

WgmmaTile::WgmmaTile(Launch &launch, const GemmProblem &problem, int64_t n,
                     int64_t terms)
    : GemmTile(launch, problem.works, shapeOf(problem, kTileM, n, terms),
               problem.rows()),
      terms(terms), stages(problem.tuning.warpgroups.stages),
      blocks(problem.tuning.warpgroups.blocks) {}

/// Whether the tile's rows of the input follow one another, and begin at k = 0.
bool WgmmaTile::takesInput() {
  return works[0].row && width * 2 == 16 &&
         x.row == launch.of.elements.dim(*works[0].row) &&
         x.column == launch.of.elements.constant(0);
}

/// How many units are copied at once: their rows of a weight follow one
/// another, and the first unit is a multiple of their number. None if they are
/// not groups.
std::optional<int64_t> WgmmaTile::unitsOfBox(const Work &work,
                                             const Operand &weight) {
  if (work.unitLoops.empty() || weight.column != launch.of.elements.constant(0))
    return std::nullopt;
  unsigned last = work.unitLoops.back();
  AffineExpr dim = launch.of.elements.dim(last);
  AffineExpr first = weight.row.replace(dim, launch.of.elements.constant(0));
  auto type = cast<MemRefType>(weight.rows.base.getType());
  int64_t length = work.part.box[last].constant;
  if (launch.of.elements.simplify(weight.row - first - dim, work.longBox()) !=
          launch.of.elements.constant(0) ||
      !first.isMultipleOf(group()) || length % group() ||
      type.getNumElements() % (group() * weight.rows.stride))
    return std::nullopt;
  int64_t most = unitsOfTile() / 2; // what one block of a cluster copies
  return work.unitLoops.size() == 1 ? most : std::min(most, length & -length);
}

bool WgmmaTile::addMaps() {
  Size rows = works[0].rows();
  std::optional<int64_t> prompt = launch.of.mostTokens();
  if (!takesInput() || (!rows.isConstant() && !prompt))
    return false;
  auto fits = [&] {
    for (auto [work, own] : llvm::zip(works, weights))
      for (const Operand &weight : own)
        if (!unitsOfBox(work, weight))
          return false;
    return true;
  };
  while (!fits()) {
    if (together == leastTogether)
      return false;
    together /= 2;
  }
  // Works that read the same weights share boxes: those that fit all of them.
  llvm::MapVector<Value, int64_t> units;
  for (auto [work, own] : llvm::zip(works, weights))
    for (const Operand &weight : own) {
      int64_t &least = units[weight.rows.base],
              mine = *unitsOfBox(work, weight);
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
  mapX = launch.tensorMap(x.rows,
                          {{k, most}, {x.rows.stride}, {kBoxTerms, kTileM}});
  return true;
}

void WgmmaTile::begin() {
  slots = b.launchedShared(x.rows.element, launchedBytes() / 2, kBoxTerms);
  if (splitTiles())
    flag = b.shared(b.getI32Type(), 1, 1);
  cuda::fitBlocks(b, 1);
  cuda::formClusters(b, {1, 2, 1});
}

std::pair<Value, Value> WgmmaTile::teller() {
  Value thread = b.rem(b.thread(), readers);
  // The block is one of the cluster in all threads: LLVM may look for its
  // barrier before it asks whether the thread tells.
  return {b.less(thread, b.i32(2)), b.rem(b.thread(), 2)};
}

/// Copies of the first or the second half of a work's weights, with what is the
/// same in all steps.
std::vector<WgmmaTile::Copy> WgmmaTile::copiesOf(const Corner &corner, size_t i,
                                                 Value half) {
  std::vector<Copy> copies;
  Value first = b.mul(half, unitsOfTile() / 2);
  for (auto [s, from] : llvm::enumerate(boxes[i]))
    for (int64_t unit = 0; unit < unitsOfTile() / 2; unit += from.units) {
      Value own = b.add(first, unit);
      auto loops = works[i].loops(b, b.i32(0), b.add(corner.unit, own));
      Value row = launch.value(weights[i][s].row, loops);
      copies.push_back({from, b.div(row, group()),
                        b.add(own, static_cast<int64_t>(s) * unitsOfTile())});
    }
  return copies;
}

/// Copies operands of the steps [first, end). `before` steps of other tiles
/// were before this tile's. Weights alone are copied first, to slots that are
/// free, and their inputs after them.
void WgmmaTile::copyWork(cuda::Ring &ring, const Corner &corner, size_t i,
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
      Value column = b.mul(at, terms), none = b.i32(0);
      auto copyAll = [&](ArrayRef<Copy> copies, Value blocks) {
        for (const Copy &copy : copies) {
          SmallVector<Value> place(copy.from.box.size(), none);
          place.front() = firstW(at);
          place.back() = copy.group;
          barriers.copyBox(copy.from.map, place, copy.from.box, full,
                           rowW(slot.number, copy.row), blocks);
        }
      };
      Value start = b.mul(slot.number, slotBytes() / cuda::kBoxBytes);
      for (int64_t term = 0; operands != Weights && term < terms;
           term += kBoxTerms)
        barriers.copyBox(
            mapX, {b.add(column, term), corner.row}, {kBoxTerms, kTileM}, full,
            b.address(slots, b.add(start, term / kBoxTerms * kTileM), none));
      if (operands == Input)
        return;
      copyAll(mine, blocks);
      b.when(
          corner.sharesWeights, [] {}, [&] { copyAll(others, mask(self)); });
    };
    if (operands == Both)
      ring.fill(slot, slotBytes(), copy);
    else if (operands == Weights)
      ring.bring(slot, slotBytes(), copy);
    else
      ring.add(slot, copy);
  });
}

/// Calls `body` for each turn of the block's pair, with the turn and the steps
/// of k of those before; it returns the steps with its own.
void WgmmaTile::forTiles(Value rows,
                         llvm::function_ref<Value(Value, Value)> body) {
  b.loop(b.block(0), turns(rows), blocks / 2, {b.i32(0)},
         [&](Value turn, ValueRange before) {
           return SmallVector<Value>{body(turn, before[0])};
         });
}

void WgmmaTile::multiplyTiles(Value rows) {
  cuda::Ring ring(b, stages);
  ring.begin(2 * kMultiply / readers);
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

/// Tiles are wide if the longest prompt has enough wide tiles, or splits of
/// them, to fill the machine. At most `wideSplits` splits of a tile count: each
/// has sums to add, and a wide tile has twice as many.
int64_t WgmmaTile::columnsOf(const GemmProblem &problem) {
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
