/// swiglu(linear(norm(x)), linear(norm(x)))
///   =>  kernel { norm; linear; linear; swiglu }
/// The linears may be expert_linears. A gate that reads another value than the
/// other factor, as the gate of a shared expert does, stays outside.
/// Gate and up may be the columns of one linear in turns, that is, slices of
/// its pairs of columns.
///
/// activate(linear(norm(x)))
///   =>  kernel { norm; linear; activate }
/// A row that is added to each token before the function is a bias, and is in
/// the kernel, too.
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

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
  auto inputOf = [&](Value factor) {
    Operation *linear = group.producer<LinearOp, ExpertLinearOp>(factor);
    return linear ? linear->getOperand(0) : Value();
  };
  SmallVector<Value> factors(end->getOperands());
  for (Value &factor : factors)
    if (auto sum = factor.getDefiningOp<AddRowsOp>(); sum && !sum.getPosition())
      if (group.absorb<AddRowsOp>(factor))
        factor = sum.getInput();
  for (Value &factor : factors)
    if (Operation *flat = group.absorb<tensor::CollapseShapeOp>(factor))
      if (Operation *slice =
              group.absorb<tensor::ExtractSliceOp>(flat->getOperand(0)))
        factor = slice->getOperand(0);
  for (Value &factor : factors)
    if (Operation *pairs = group.absorb<tensor::ExpandShapeOp>(factor))
      factor = pairs->getOperand(0);
  Value input = inputOf(factors.back());
  for (Value factor : factors) {
    Value own = inputOf(factor);
    if (!own)
      group.missed(end, "a factor is not a linear of this block");
    else if (input && own != input)
      group.missedProducer(factor, "the linears read different values");
    else
      group.absorb<LinearOp, ExpertLinearOp>(factor);
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
