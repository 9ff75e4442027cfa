/// kv_append(rope(norm(expand(linear(norm(x))))))
///   =>  kernel { norm; linear; expand; norm; rope; kv_append }
///
/// If norms read sums over ranks, the linears are a kernel of their own, and
/// the sums are in the other kernel:
///
///   kernel { linear }, kernel { square_sums; all_reduce; norm; rope; ... }
///
/// Rows for a cache in blocks are a result of the kernel; their kv_append stays
/// outside. Rounding a block needs all of its numbers, which no tile of a
/// product has.
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria {
#define GEN_PASS_DEF_FUSEQKV
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Adds the ops that make `value` from a linear's result. The linear may be
/// missing, and so may any op after it. `norms` gets those norms that read sums
/// over ranks. An op of another kind before the chain is a missed optimization.
static void absorbChain(KernelGroup &group, Value value,
                        SmallVectorImpl<RMSNormOp> &norms) {
  while (Operation *op =
             group.absorb<RopeOp, RMSNormOp, tensor::ExpandShapeOp, LinearOp>(
                 value)) {
    if (isa<LinearOp>(op))
      return;
    if (auto norm = dyn_cast<RMSNormOp>(op); norm && norm.getSquares())
      norms.push_back(norm);
    value = op->getOperand(0);
  }
  if (!group.producer<RopeOp, RMSNormOp, tensor::ExpandShapeOp, LinearOp>(
          value))
    group.missedProducer(value, "only linear, expand_shape, rmsnorm and rope "
                                "are fused in front of attention");
}

/// The linear at the beginning of the chain that makes `value`, or null. Sets
/// `isSummed` if the chain has a norm over all ranks.
static Operation *linearOf(KernelGroup &group, Value value, bool &isSummed) {
  while (Operation *op =
             group.producer<RopeOp, RMSNormOp, tensor::ExpandShapeOp,
                            KVAppendOp, LinearOp>(value)) {
    if (isa<LinearOp>(op))
      return op;
    auto norm = dyn_cast<RMSNormOp>(op);
    isSummed |= norm && norm.getSquares();
    value = op->getOperand(0);
  }
  return nullptr;
}

/// Makes a kernel of the linears if ranks add sums of their results: these must
/// be there before the sums are. The kernel has the norm that all linears read.
static void fuseLinears(GQAOp attention) {
  KernelGroup group(attention->getBlock(), "llama-fuse-qkv");
  bool isSummed = false;
  for (Value value : {attention.getQuery(), attention.getKeyCache(),
                      attention.getValueCache()})
    if (Operation *linear = linearOf(group, value, isSummed))
      group.insert(linear);
  if (!isSummed || group.empty())
    return;
  group.absorbNorm();
  group.outline("qkv");
}

/// Adds the sums over ranks that norms of the group read. All readers of a sum
/// must be in the group.
static void absorbSums(KernelGroup &group, ArrayRef<RMSNormOp> norms) {
  for (RMSNormOp norm : norms)
    if (Operation *sum = group.absorb<AllReduceOp>(Value(norm.getSquares())))
      group.absorb<SquareSumsOp>(sum->getOperand(0));
}

static void fuse(GQAOp attention) {
  fuseLinears(attention);
  KernelGroup group(attention->getBlock(), "llama-fuse-qkv");
  SmallVector<Value> rows;
  auto insertMaker = [&](Value value) {
    Operation *end =
        group.producer<RopeOp, RMSNormOp, tensor::ExpandShapeOp, LinearOp>(
            value);
    if (!end)
      return;
    group.insert(end);
    if (!isa<LinearOp>(end))
      rows.push_back(end->getOperand(0));
  };
  insertMaker(attention.getQuery());
  for (Value cache : {attention.getKeyCache(), attention.getValueCache()}) {
    auto append = cast_or_null<KVAppendOp>(group.producer<KVAppendOp>(cache));
    if (append && isa<BlocksType>(append.getType().getElementType())) {
      insertMaker(append.getRows());
    } else if (append) {
      group.insert(append);
      rows.push_back(append.getRows());
    }
  }
  if (group.empty())
    return group.missed(attention,
                        "query and caches come from outside of the block");
  SmallVector<RMSNormOp> norms;
  for (Value value : rows)
    absorbChain(group, value, norms);
  absorbSums(group, norms);
  group.absorbNorm();
  group.outline("qkv");
}

namespace {
struct FuseQKV : cria::impl::FuseQKVBase<FuseQKV> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (GQAOp op : llvm::to_vector(block->getOps<GQAOp>()))
        if (!op.hasOneCache() || !op.getValueSize()) // else FuseLatent
          fuse(op);
  }
};
} // namespace
