/// residual(x, linear(y))  =>  kernel { linear; residual }
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

static void fuse(ResidualOp residual) {
  KernelGroup group(residual->getBlock(), "llama-fuse-residual");
  if (!group.producer<LinearOp>(residual.getUpdate()))
    return group.missed(residual, "its update is not a linear of this block");
  group.insert(residual);
  Operation *linear = group.absorb<LinearOp>(residual.getUpdate());
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
