/// collapse(gqa(q, k, v))  =>  kernel { gqa; collapse }
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria {
#define GEN_PASS_DEF_FUSEATTENTION
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static void fuse(GQAOp attention) {
  KernelGroup group(attention->getBlock(), "llama-fuse-attention");
  group.insert(attention);
  for (Operation *user : attention->getUsers()) {
    if (!isa<tensor::CollapseShapeOp>(user))
      continue;
    if (!attention->hasOneUse())
      group.missed(user, "attention has further uses");
    else if (user->getBlock() == attention->getBlock())
      group.insert(user);
  }
  group.outline("attention");
}

namespace {
struct FuseAttention : cria::impl::FuseAttentionBase<FuseAttention> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (GQAOp op : llvm::to_vector(block->getOps<GQAOp>()))
        fuse(op);
  }
};
} // namespace
