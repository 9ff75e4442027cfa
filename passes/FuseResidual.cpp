/// residual(x, norm(linear(y)))  =>  kernel { linear; norm; residual }
/// residual(x, norm(all_reduce(linear(y))))
///   =>  kernel { linear; all_reduce; norm; residual }
/// residual(x, residual(combine(expert_linear(y)), z))
///   =>  kernel { expert_linear; combine; residual; residual }
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

/// The addition of a shared expert to the sum of the chosen ones; null if the
/// value is made otherwise.
static ResidualOp sharedExpert(KernelGroup &group, Value value) {
  auto add = cast_or_null<ResidualOp>(group.producer<ResidualOp>(value));
  bool isShared = add && group.producer<CombineOp>(add.getStream());
  return isShared ? add : ResidualOp();
}

/// Fuses the addition of what experts computed. False if it adds something
/// else.
static bool fuseExperts(KernelGroup &group, ResidualOp residual) {
  Value update = residual.getUpdate();
  ResidualOp shared = sharedExpert(group, update);
  if (!shared && !group.producer<CombineOp>(update))
    return false;
  group.insert(residual);
  if (shared) {
    if (!group.absorb<ResidualOp>(update))
      return true;
    update = shared.getStream();
  }
  if (Operation *combine = group.absorb<CombineOp>(update))
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
  if (Operation *sum = group.producer<AllReduceOp>(made))
    made = sum->getOperand(0);
  if (!group.producer<LinearOp>(made))
    return group.missed(residual, "its update is not a linear of this block");
  group.insert(residual);
  if (Operation *norm = group.absorb<RMSNormOp, LayerNormOp>(update))
    update = norm->getOperand(0);
  if (Operation *sum = group.absorb<AllReduceOp>(update))
    update = sum->getOperand(0);
  Operation *linear = group.absorb<LinearOp>(update);
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
