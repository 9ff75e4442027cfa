/// residual(x, norm(linear(y)))  =>  kernel { linear; norm; residual }
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
  Value update = residual.getUpdate();
  Operation *norm = group.producer<RMSNormOp, LayerNormOp>(update);
  if (!group.producer<LinearOp>(norm ? norm->getOperand(0) : update))
    return group.missed(residual, "its update is not a linear of this block");
  group.insert(residual);
  if (norm && group.absorb<RMSNormOp, LayerNormOp>(update))
    update = norm->getOperand(0);
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
