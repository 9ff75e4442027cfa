/// head(norm(x))  =>  kernel { norm; head }, and any other op  =>  kernel { op
/// }
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace cria {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static bool computes(Operation &op) {
  return isa<LlamaDialect>(op.getDialect()) &&
         !isa<GetWeightOp, GetRopeOp, KernelOp, YieldOp>(op);
}

/// The linear or head in the norm's block that is the only reader of the norm,
/// or null.
static Operation *onlyReader(Operation *norm) {
  if (!isa<RMSNormOp, LayerNormOp>(norm) || !norm->hasOneUse())
    return nullptr;
  OpOperand &use = *norm->getUses().begin();
  Operation *reader = use.getOwner();
  bool fits = isa<LinearOp, HeadOp>(reader) && use.getOperandNumber() == 0 &&
              reader->getBlock() == norm->getBlock();
  return fits ? reader : nullptr;
}

static void outlineBlock(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (computes(op) && !onlyReader(&op))
      ops.push_back(&op);
  for (Operation *op : ops) {
    KernelGroup group(&block, "llama-outline-kernels");
    group.insert(op);
    Operation *input = op->getOperand(0).getDefiningOp();
    if (input && onlyReader(input) == op)
      group.insert(input);
    group.outline(op->getName().stripDialect());
  }
}

namespace {
struct OutlineKernels : cria::impl::OutlineKernelsBase<OutlineKernels> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      outlineBlock(*block);
  }
};
} // namespace
