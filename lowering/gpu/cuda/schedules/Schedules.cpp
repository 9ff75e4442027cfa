#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/schedules/Preconditions.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static bool isBlocks(ArrayRef<Work> works) { return works[0].dots[0].bits; }

/// Whether tensor cores multiply the problem's floats, or widened weights:
/// cp.async copies 4 bytes at least, two of 16 bits.
static bool takesMma(const GemmProblem &problem) {
  const Dot &dot = problem.works[0].dots[0];
  if (dot.isWidened())
    return problem.range.has_value();
  auto elementOf = [](const Element &element) {
    return cast<RankedTensorType>(element.tensor.getType()).getElementType();
  };
  Type input = elementOf(dot.x);
  return problem.range && !isBlocks(problem.works) && !input.isF32() &&
         input == elementOf(dot.w) && dot.terms.constant % 2 == 0 &&
         llvm::all_of(problem.works, [&](const Work &work) {
           return beginAtWords(problem.function.elements, work);
         });
}

static bool isLastRange(const GemmProblem &problem) {
  return problem.range == problem.tuning.tiles.size() - 1;
}

static bool isGrouped(const GemmProblem &problem) {
  return problem.works[0].choice.has_value();
}

const Schedules &cuda::schedules() {
  static constexpr auto isFloat = [](const GemvProblem &problem) {
    return !isBlocks(problem.works);
  };
  static constexpr GemvSchedule kGemv[] = {
      {"_bulk", Generation::Hopper, isFloat, &Tuning::gemvFloatsBulk,
       makeBulkFloatGemv},
      {"", Generation::Ampere, isFloat, &Tuning::gemvFloats, makeFloatGemv},
      {"", Generation::Ampere,
       [](const GemvProblem &problem) {
         return problem.works[0].dots[0].isWidened();
       },
       &Tuning::gemvBlocks, makeWidenedGemv},
      {"", Generation::Ampere,
       [](const GemvProblem &problem) { return isBlocks(problem.works); },
       &Tuning::gemvBlocks, makeBlockGemv}};
  static constexpr GemmSchedule kGemm[] = {
      {"_wgmma", Generation::Wgmma,
       [](const GemmProblem &problem) {
         return takesMma(problem) && isLastRange(problem) &&
                !isGrouped(problem) && !isBlocks(problem.works);
       },
       makeWgmmaGemm},
      {"_wgmma", Generation::Wgmma,
       [](const GemmProblem &problem) {
         return takesMma(problem) && isLastRange(problem) &&
                isBlocks(problem.works);
       },
       makeWidenedWgmmaGemm},
      {"_cluster", Generation::Hopper,
       [](const GemmProblem &problem) {
         return takesMma(problem) && !isLastRange(problem) &&
                !isGrouped(problem);
       },
       makeClusterGemm},
      {"", Generation::Ampere, takesMma, makeMmaGemm},
      {"", Generation::Ampere,
       [](const GemmProblem &problem) {
         return !problem.range && isBlocks(problem.works);
       },
       makeBlockGemm},
      {"", Generation::Ampere,
       [](const GemmProblem &problem) { return !problem.range; }, makeFmaGemm}};
  static constexpr AttentionSchedule kAttention[] = {
      {Generation::Wgmma, takesAttentionWgmma, emitAttentionWgmma},
      {Generation::Ampere, takesAttentionMma, emitAttentionMma},
      {Generation::Ampere, takesAttentionLatent, emitAttentionLatent},
      {Generation::Ampere, takesAttentionScanMma, emitAttentionScanMma},
      {Generation::Ampere,
       [](const KernelFunction &, const AttentionMemory &) { return true; },
       emitAttentionScan}};
  static constexpr RecurrenceSchedule kRecurrence[] = {emitRecurrenceMma,
                                                       emitRecurrenceLoop};
  static constexpr Schedules kAll = {kGemv, kGemm, kAttention, kRecurrence};
  return kAll;
}
