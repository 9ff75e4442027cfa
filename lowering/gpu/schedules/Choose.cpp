#include "lowering/gpu/schedules/Choose.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Calls `make` with the schedules of a table in their order, those for later
/// generations first, until all chips have a kernel. `make` returns null if the
/// schedule does not take the op.
template <typename Schedule>
static void choose(ArrayRef<Schedule> table, const Chips &chips,
                   llvm::function_ref<gpu::GPUFuncOp(const Schedule &)> make) {
  int end = kGenerations; // of the generations without a kernel
  for (const Schedule &schedule : table) {
    auto first = static_cast<int>(schedule.needs);
    if (first >= end || !chips.haveSome(first, end))
      continue;
    gpu::GPUFuncOp kernel = make(schedule);
    if (!kernel)
      continue;
    if (first > 0 || end < kGenerations)
      kernel->setAttr(kGenerationsAttribute,
                      Builder(kernel).getI64ArrayAttr(
                          llvm::to_vector(llvm::seq<int64_t>(first, end))));
    end = first;
  }
}

bool Choose::hasFewRows(const KernelFunction &function,
                        const Work &work) const {
  Size rows = work.rows();
  if (work.isChosen() && !rows.isConstant())
    rows.constant = function.mostTokens().value_or(kAnyRows);
  return rows.isConstant() && rows.constant <= tuning.gemvRows;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Sizes for works whose units may have many more rows than a warp takes side
/// by side: the rings of these rows leave room for fewer warps in a block.
/// Warps of products with blocks share what the block has computed.
static GemvSizes forRows(GemvSizes sizes, ArrayRef<Work> works) {
  size_t rows = 0;
  for (const Work &work : works)
    rows = std::max(rows, work.sums.size());
  auto room = static_cast<size_t>(2 * sizes.threads * sizes.warpRows);
  for (; !works[0].dots[0].bits && rows * sizes.threads > room &&
         sizes.threads > 2 * kWarp;
       sizes.threads /= 2)
    sizes.resident *= 2;
  return sizes;
}

void Choose::gemv(KernelFunction &function, const Twine &name,
                  const GemvProblem &problem) const {
  choose<GemvSchedule>(
      schedules.gemv, function.chips,
      [&](const GemvSchedule &schedule) -> gpu::GPUFuncOp {
        if (!schedule.takes(problem))
          return {};
        GemvSizes sizes = forRows(tuning.*schedule.sizes, problem.works);
        Launch launch(function, name + schedule.suffix, sizes.threads);
        std::unique_ptr<Gemv> gemv = schedule.make(launch, problem, sizes);
        if (!gemv) {
          launch.erase();
          return {};
        }
        SmallVector<Value> grid = {function.constant(gemv->emit())};
        if (const Work &first = problem.works[0]; first.isChosen())
          grid.push_back(function.blocks(first.rows(), 1));
        launch.finish(grid, gemv->launchedBytes());
        return launch.b.function;
      });
}

GemmRows GemmProblem::rows() const {
  static constexpr StringLiteral kSuffixes[] = {"_few", "_some", ""};
  if (!range || groups.order)
    return {"", 0, kAnyRows};
  return {kSuffixes[*range], *range ? tuning.tiles[*range - 1].rows : 0,
          tuning.tiles[*range].rows};
}

void Choose::gemm(KernelFunction &function, const Twine &name,
                  ArrayRef<Work> works) const {
  std::vector<GemmKernel> kernels;
  auto isTaken = [&](const GemmProblem &problem) {
    return llvm::any_of(schedules.gemm, [&](const GemmSchedule &schedule) {
      return schedule.takes(problem);
    });
  };
  auto begin = [&](const GemmProblem &problem, const Twine &name) {
    choose<GemmSchedule>(
        schedules.gemm, function.chips,
        [&](const GemmSchedule &schedule) -> gpu::GPUFuncOp {
          if (!schedule.takes(problem))
            return {};
          GemmKernel kernel = schedule.make(problem, name + schedule.suffix);
          if (!kernel.tile)
            return {};
          return kernels.emplace_back(std::move(kernel)).launch->b.function;
        });
  };
  std::vector<Work> grouped;
  if (works[0].isChosen()) {
    // One kernel, whose tiles have as many rows as choose a matrix.
    for (const Work &work : works)
      grouped.push_back(withChoices(work));
    // A matrix is chosen up to twice as often as on average, or nearly: then a
    // tile has all of its rows, and its weights are read once.
    int64_t most = 2 * choicesOfMatrix(function, works[0]);
    GemmProblem problem = {function, grouped, tuning, 0};
    while (*problem.range + 1 < tuning.tiles.size() && problem.tile().m < most)
      ++*problem.range;
    int64_t m = kOneTileRows;
    if (isTaken(problem))
      m = problem.tile().m;
    else
      problem.range = std::nullopt;
    problem.groups = emitGroups(function, name + "_groups", works[0], m);
    begin(problem, name);
    return emitGemm(function, kernels);
  }
  // Kernels for each range of rows, if some schedule has them.
  GemmProblem first = {function, works, tuning, 0};
  Size size = works[0].rows();
  if (auto most = invariantRows(function.kernel); most && !size.isConstant())
    size = {*most};
  if (!isTaken(first))
    begin({function, works, tuning, std::nullopt}, name);
  else
    for (size_t range = 0; range < tuning.tiles.size(); ++range) {
      GemmProblem problem = {function, works, tuning, range};
      GemmRows rows = problem.rows();
      if (!size.isConstant())
        begin(problem, name + rows.suffix);
      else if (size.constant > rows.above && size.constant <= rows.most)
        begin(problem, name);
    }
  emitGemm(function, kernels);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

void Choose::attention(KernelFunction &function,
                       const AttentionMemory &in) const {
  choose<AttentionSchedule>(
      schedules.attention, function.chips,
      [&](const AttentionSchedule &schedule) -> gpu::GPUFuncOp {
        if (!schedule.takes(function, in))
          return {};
        return schedule.emit(function, in, tuning);
      });
}

//===----------------------------------------------------------------------===//
// Recurrences
//===----------------------------------------------------------------------===//

bool Choose::recurrence(Recurrence &in) const {
  for (RecurrenceSchedule emit : schedules.recurrence) {
    if (emit(in, tuning))
      return true;
    if (emit != schedules.recurrence.back() && !in.reason.empty())
      remark::analysis(in.of.kernel.getLoc(),
                       remark::RemarkOpts::name("token-by-token")
                           .category("convert-linalg-to-gpu")
                           .function(in.of.kernel.getName()))
          << remark::reason("{0}", in.reason.str());
  }
  return false;
}
