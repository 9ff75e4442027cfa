/// A block groups the choices of all tokens by counting:
///
///   count the choices of each matrix
///   warp 0: add up the counts, and cut each matrix's choices into tiles
///   put each choice in the next free place of its matrix
///
/// The order of choices of one matrix may differ from run to run. It does not
/// matter: each row of a product is computed in the same way in every place.
#include "lowering/gpu/schedules/Groups.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 512;
/// Most matrices: their counts are in shared memory.
static constexpr int64_t kMostMatrices = 4096;

static int64_t matricesOf(const Work &work) {
  Value weights = work.dots[0].w.tensor;
  return cast<RankedTensorType>(weights.getType()).getDimSize(0);
}

/// The loop over a row's choices.
static std::optional<unsigned> choiceLoop(const Work &work) {
  ArrayRef<AffineExpr> at = work.dots[0].chosen.at;
  auto row = dyn_cast<AffineDimExpr>(at[0]);
  if (!row || row.getPosition() != work.row || at.size() != 2)
    return std::nullopt;
  auto choice = dyn_cast<AffineDimExpr>(at[1]);
  return choice ? std::optional(choice.getPosition()) : std::nullopt;
}

static int64_t choicesOfRow(const Work &work) {
  return work.part.box[*choiceLoop(work)].constant;
}

bool simt::canGroup(const KernelFunction &function, const Work &work) {
  const Dot &first = work.dots[0];
  return choiceLoop(work) && function.mostTokens() &&
         matricesOf(work) <= kMostMatrices &&
         llvm::all_of(work.dots, [&](const Dot &dot) {
           return dot.chosen == first.chosen && dot.x == first.x;
         });
}

Work simt::withChoices(const Work &work) {
  Work result = work;
  result.choice = choiceLoop(work);
  llvm::erase(result.unitLoops, *result.choice);
  result.units /= choicesOfRow(work);
  return result;
}

int64_t simt::choicesOfMatrix(const KernelFunction &function,
                              const Work &work) {
  return *function.mostTokens() * choicesOfRow(work) / matricesOf(work);
}

Groups simt::emitGroups(KernelFunction &function, const Twine &name,
                        const Work &work, int64_t m) {
  int64_t matrices = matricesOf(work), each = choicesOfRow(work),
          most = *function.mostTokens() * each;
  Groups groups;
  groups.mostTiles = std::min(most, most / m + matrices);
  Type i32 = function.host.getI32Type();
  groups.order = function.allocate(i32, most);
  groups.tiles = function.allocate(i32, 2 * groups.mostTiles);

  Launch launch(function, name, kThreads);
  KernelBuilder &b = launch.b;
  Rows chosen = launch.rows(function.memory(work.dots[0].chosen.tensor), 1),
       order = launch.rows(groups.order, 1),
       tiles = launch.rows(groups.tiles, 2);
  // How many choices a matrix has; later, its next free place.
  Rows places = b.shared(i32, matrices, 1);
  Value zero = b.i32(0), all = b.mul(launch.number(work.rows()), each);
  auto forEach = [&](Value count, llvm::function_ref<void(Value)> body) {
    b.loop(b.thread(), count, kThreads, body);
    b.barrier();
  };
  forEach(b.i32(matrices), [&](Value i) { b.store(zero, places, zero, i); });
  b.loop(b.thread(), b.i32(groups.mostTiles), kThreads, [&](Value tile) {
    b.store(zero, tiles, tile, zero);
    b.store(zero, tiles, tile, b.i32(1));
  });
  auto matrixOf = [&](Value choice) {
    return b.load(chosen, zero, choice, 1, Access::ReadOnly);
  };
  forEach(all, [&](Value choice) {
    b.atomicAdd(places, matrixOf(choice), b.i32(1));
  });
  b.when(b.equal(b.warp(), zero), [&] {
    b.loop(zero, b.i32(matrices), kWarp, {zero, zero},
           [&](Value first, ValueRange before) -> SmallVector<Value> {
             Value matrix = b.add(first, b.lane()),
                   exists = b.less(matrix, b.i32(matrices));
             Value count = b.choose(
                 exists, [&] { return b.load(places, zero, matrix); }, zero);
             Value cut = b.ceilDiv(count, m);
             Value end = b.add(before[0], b.warpScan(count)),
                   tilesEnd = b.add(before[1], b.warpScan(cut));
             Value begin = b.sub(end, count), tile = b.sub(tilesEnd, cut);
             b.when(exists, [&] { b.store(begin, places, zero, matrix); });
             b.loop(zero, cut, 1, [&](Value i) {
               Value own = b.add(tile, i);
               b.store(b.add(begin, b.mul(i, m)), tiles, own, zero);
               b.store(end, tiles, own, b.i32(1));
             });
             Value last = b.i32(kWarp - 1);
             return {b.shuffleFrom(end, last), b.shuffleFrom(tilesEnd, last)};
           });
  });
  b.barrier();
  b.loop(b.thread(), all, kThreads, [&](Value choice) {
    Value place = b.atomicAdd(places, matrixOf(choice), b.i32(1));
    b.store(choice, order, zero, place);
  });
  launch.finish({function.constant(1)});
  return groups;
}
