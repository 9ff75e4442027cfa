/// kv_append(rope(norm(expand(linear(norm(x))))))
///   =>  kernel { norm; linear; expand; norm; rope; kv_append }
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
/// missing, and so may any op after it.
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
