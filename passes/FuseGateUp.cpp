/// swiglu(linear(norm(x)), linear(norm(x)))
///   =>  kernel { norm; linear; linear; swiglu }
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace cria {
#define GEN_PASS_DEF_FUSEGATEUP
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static void fuse(SwiGLUOp product) {
  KernelGroup group(product->getBlock(), "llama-fuse-gate-up");
  group.insert(product);
  for (Value factor : {product.getGate(), product.getUp()}) {
    if (!group.producer<LinearOp>(factor))
      group.missed(product, "a factor is not a linear of this block");
    group.absorb<LinearOp>(factor);
  }
  group.absorbNorm();
  group.outline("gate_up");
}

namespace {
struct FuseGateUp : cria::impl::FuseGateUpBase<FuseGateUp> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (SwiGLUOp op : llvm::to_vector(block->getOps<SwiGLUOp>()))
        fuse(op);
  }
};
} // namespace
