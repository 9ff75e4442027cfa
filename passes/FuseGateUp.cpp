/// swiglu(linear(norm(x)), linear(norm(x)))
///   =>  kernel { norm; linear; linear; swiglu }
/// activate(linear(norm(x)))  =>  kernel { norm; linear; activate }
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace cria {
#define GEN_PASS_DEF_FUSEGATEUP
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static void fuse(Operation *end, StringRef fallback) {
  KernelGroup group(end->getBlock(), "llama-fuse-gate-up");
  group.insert(end);
  for (Value factor : end->getOperands()) {
    if (!group.producer<LinearOp>(factor))
      group.missed(end, "a factor is not a linear of this block");
    group.absorb<LinearOp>(factor);
  }
  group.absorbNorm();
  group.outline(fallback);
}

namespace {
struct FuseGateUp : cria::impl::FuseGateUpBase<FuseGateUp> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation())) {
      for (SwiGLUOp op : llvm::to_vector(block->getOps<SwiGLUOp>()))
        fuse(op, "gate_up");
      for (ActivateOp op : llvm::to_vector(block->getOps<ActivateOp>()))
        fuse(op, "activate");
    }
  }
};
} // namespace
