/// head(norm(x))           =>  kernel { norm; head }
/// all_reduce(linear(x))   =>  kernel { linear; all_reduce }
/// addf(x, mulf(y, z))     =>  kernel { mulf; addf }
/// any other op            =>  kernel { op }
#include "dialect/Elementwise.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static bool computes(Operation &op) {
  return isElementwise(&op) || isa<tensor::ConcatOp>(op) ||
         (isa_and_nonnull<LlamaDialect>(op.getDialect()) &&
          !isa<GetWeightOp, GetRopeOp, KernelOp, YieldOp>(op));
}

/// The op in whose kernel a norm, a linear, a sum of experts or an elementwise
/// op is, or null: the linear or head that is the only reader of the norm, the
/// sum over ranks that is the only reader of the linear or the sum of experts
/// (ranks then add what is not rounded), or the elementwise op that alone reads
/// another.
static Operation *onlyReader(Operation *op) {
  if (!op->hasOneUse())
    return nullptr;
  OpOperand &use = *op->getUses().begin();
  Operation *reader = use.getOwner();
  bool isFirst = use.getOperandNumber() == 0;
  bool fits =
      isElementwise(op) ? isElementwise(reader)
      : isa<RMSNormOp, LayerNormOp>(op)
          ? isFirst && isa<LinearOp, HeadOp>(reader)
          : isFirst && isa<LinearOp, CombineOp>(op) && isa<AllReduceOp>(reader);
  return fits && reader->getBlock() == op->getBlock() ? reader : nullptr;
}

/// Adds `last` to its kernel, and the ops whose only reader is in it. A program
/// may have long chains of ops, so this does not recurse.
static void insert(Operation *last, KernelGroup &group) {
  SmallVector<Operation *> next = {last};
  while (!next.empty()) {
    Operation *op = next.pop_back_val();
    group.insert(op);
    for (Value operand : llvm::reverse(op->getOperands()))
      if (Operation *input = operand.getDefiningOp();
          input && onlyReader(input) == op)
        next.push_back(input);
  }
}

static void outlineBlock(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (computes(op) && !onlyReader(&op))
      ops.push_back(&op);
  for (Operation *op : ops) {
    KernelGroup group(&block, "llama-outline-kernels");
    insert(op, group);
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
