/// kv_append(rope(norm(expand(linear(norm(x))))))
///   =>  kernel { norm; linear; expand; norm; rope; kv_append }
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

/// Takes what makes `value` out of a linear; the linear may be missing, as may
/// anything behind it.
static void absorbChain(KernelGroup &group, Value value) {
  while (Operation *op =
             group.absorb<RopeOp, RMSNormOp, tensor::ExpandShapeOp, LinearOp>(
                 value)) {
    if (isa<LinearOp>(op))
      return;
    value = op->getOperand(0);
  }
}

static void fuse(GQAOp attention) {
  KernelGroup group(attention->getBlock(), "llama-fuse-qkv");
  Value query = attention.getQuery();
  if (Operation *end =
          group.producer<RopeOp, RMSNormOp, tensor::ExpandShapeOp, LinearOp>(
              query))
    group.insert(end);
  SmallVector<Value> rows;
  for (Value cache : {attention.getKeyCache(), attention.getValueCache()})
    if (Operation *end = group.producer<KVAppendOp>(cache)) {
      group.insert(end);
      rows.push_back(cast<KVAppendOp>(end).getRows());
    }
  if (group.empty())
    return group.missed(attention,
                        "query and caches come from outside of the block");
  if (Operation *end =
          group.producer<RopeOp, RMSNormOp, tensor::ExpandShapeOp>(query))
    absorbChain(group, end->getOperand(0));
  for (Value value : rows)
    absorbChain(group, value);
  group.absorbNorm();
  group.outline("qkv");
}

namespace {
struct FuseQKV : cria::impl::FuseQKVBase<FuseQKV> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (GQAOp op : llvm::to_vector(block->getOps<GQAOp>()))
        fuse(op);
  }
};
} // namespace
