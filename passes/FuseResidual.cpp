/// residual(x, norm(linear(y)))  =>  kernel { linear; norm; residual }
/// residual(x, norm(all_reduce(linear(y))))
///   =>  kernel { linear; all_reduce; norm; residual }
/// residual(x, residual(combine(expert_linear(y)), z))
///   =>  kernel { expert_linear; combine; residual; residual }
/// residual(x, all_reduce(combine(expert_linear(y))))
///   =>  kernel { expert_linear; combine; all_reduce; residual }
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria {
#define GEN_PASS_DEF_FUSERESIDUAL
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// What ranks add up to make the value; the value itself if they do not.
static Value summed(KernelGroup &group, Value value) {
  Operation *sum = group.producer<AllReduceOp>(value);
  return sum ? sum->getOperand(0) : value;
}

/// The sum of what chosen experts computed; null if the value is made
/// otherwise.
static Operation *sumOfExperts(KernelGroup &group, Value value) {
  return group.producer<CombineOp>(summed(group, value));
}

/// The addition of a shared expert to the sum of the chosen ones; null if the
/// value is made otherwise.
static ResidualOp sharedExpert(KernelGroup &group, Value value) {
  auto add = cast_or_null<ResidualOp>(group.producer<ResidualOp>(value));
  return add && sumOfExperts(group, add.getStream()) ? add : ResidualOp();
}

/// Adds the op that sums the value over ranks, if there is one. Returns what
/// ranks add up; null after a missed remark.
static Value absorbSum(KernelGroup &group, Value value) {
  Value part = summed(group, value);
  return part == value || group.absorb<AllReduceOp>(value) ? part : Value();
}

/// Fuses the addition of what experts computed. False if it adds something
/// else.
static bool fuseExperts(KernelGroup &group, ResidualOp residual) {
  Value update = residual.getUpdate();
  ResidualOp shared = sharedExpert(group, update);
  if (!shared && !sumOfExperts(group, update))
    return false;
  group.insert(residual);
  if (shared) {
    if (!group.absorb<ResidualOp>(update))
      return true;
    update = shared.getStream();
  }
  if (Value part = absorbSum(group, update))
    if (Operation *combine = group.absorb<CombineOp>(part))
      group.absorb<ExpertLinearOp>(cast<CombineOp>(combine).getInput());
  group.outline("experts_residual");
  return true;
}

static void fuse(ResidualOp residual) {
  KernelGroup group(residual->getBlock(), "llama-fuse-residual");
  // Another addition takes the one of a shared expert.
  bool isOfExperts = sharedExpert(group, residual) && residual->hasOneUse() &&
                     isa<ResidualOp>(*residual->user_begin());
  if (isOfExperts || fuseExperts(group, residual))
    return;
  Value update = residual.getUpdate();
  Value made = update;
  if (Operation *norm = group.producer<RMSNormOp, LayerNormOp>(made))
    made = norm->getOperand(0);
  if (!group.producer<LinearOp>(summed(group, made)))
    return group.missed(residual, "its update is not a linear of this block");
  group.insert(residual);
  if (Operation *norm = group.absorb<RMSNormOp, LayerNormOp>(update))
    update = norm->getOperand(0);
  Value part = absorbSum(group, update);
  Operation *linear = part ? group.absorb<LinearOp>(part) : nullptr;
  if (!linear)
    return;
  Value input = cast<LinearOp>(linear).getInput();
  group.absorb<tensor::CollapseShapeOp>(input);
  group.outline("linear_residual");
}

namespace {
struct FuseResidual : cria::impl::FuseResidualBase<FuseResidual> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (ResidualOp op : llvm::to_vector(block->getOps<ResidualOp>()))
        fuse(op);
  }
};
} // namespace
