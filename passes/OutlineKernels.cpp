/// head(norm(x))           =>  kernel { norm; head }
/// all_reduce(linear(x))   =>  kernel { linear; all_reduce }
/// any other op            =>  kernel { op }
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
  return isa_and_nonnull<LlamaDialect>(op.getDialect()) &&
         !isa<GetWeightOp, GetRopeOp, KernelOp, YieldOp>(op);
}

/// The op in whose kernel a norm or a linear is, or null: the linear or head
/// that is the only reader of the norm, or the sum over ranks that is the only
/// reader of the linear. Ranks then add what is not rounded.
static Operation *onlyReader(Operation *op) {
  bool isNorm = isa<RMSNormOp, LayerNormOp>(op);
  if ((!isNorm && !isa<LinearOp>(op)) || !op->hasOneUse())
    return nullptr;
  OpOperand &use = *op->getUses().begin();
  Operation *reader = use.getOwner();
  bool fits = isNorm ? isa<LinearOp, HeadOp>(reader) : isa<AllReduceOp>(reader);
  return fits && use.getOperandNumber() == 0 &&
                 reader->getBlock() == op->getBlock()
             ? reader
             : nullptr;
}

static void outlineBlock(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (computes(op) && !onlyReader(&op))
      ops.push_back(&op);
  for (Operation *op : ops) {
    KernelGroup group(&block, "llama-outline-kernels");
    group.insert(op);
    for (Operation *last = op; last;) {
      Operation *input = last->getOperand(0).getDefiningOp();
      last = input && onlyReader(input) == last ? input : nullptr;
      if (last)
        group.insert(last);
    }
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
