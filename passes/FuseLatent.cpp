/// concat(head_linear(q), rope(q))  =>  kernel { head_linear; rope; concat }
/// kv_append(concat(norm(r), rope(r)))
///   =>  kernel { norm; rope; concat; kv_append }
/// linear(norm(x)), linear(norm(x))  =>  kernel { norm; linear; linear }
///
/// The slices of q and r are views, which kernels take along. Rows for a cache
/// in blocks are a result of the kernel, as in FuseQKV.
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria {
#define GEN_PASS_DEF_FUSELATENT
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Makes a kernel of the ops that make the two parts of a row or of queries,
/// and of `end`, which reads them; `end` may be null.
static void fuseParts(tensor::ConcatOp joined, Operation *end) {
  KernelGroup group(joined->getBlock(), "llama-fuse-latent");
  group.insert(joined);
  if (end)
    group.insert(end);
  for (Value value : joined.getInputs())
    while (Operation *op = group.absorb<RopeOp, RMSNormOp, HeadLinearOp,
                                        tensor::ExpandShapeOp>(value))
      value = op->getOperand(0);
  group.outline("latent");
}

/// Makes a kernel of the linears that read the same norm as the one that makes
/// the row, and of the norm.
static void fuseLinears(Value row) {
  Operation *maker = row.getDefiningOp();
  while (isa_and_nonnull<RopeOp, RMSNormOp, tensor::ExpandShapeOp,
                         tensor::ExtractSliceOp>(maker))
    maker = maker->getOperand(0).getDefiningOp();
  auto linear = dyn_cast_or_null<LinearOp>(maker);
  Operation *norm = linear ? linear.getInput().getDefiningOp() : nullptr;
  if (!isa_and_nonnull<RMSNormOp, LayerNormOp>(norm))
    return;
  KernelGroup group(linear->getBlock(), "llama-fuse-latent");
  for (Operation *user : norm->getUsers())
    if (isa<LinearOp>(user) && user->getBlock() == linear->getBlock())
      group.insert(user);
  if (group.empty())
    return;
  group.absorbNorm();
  group.outline("latent_linears");
}

static void fuse(GQAOp attention) {
  Value cache = attention.getKeyCache();
  auto append = cache.getDefiningOp<KVAppendOp>();
  auto joined = append ? append.getRows().getDefiningOp<tensor::ConcatOp>()
                       : tensor::ConcatOp();
  Block *block = attention->getBlock();
  if (!attention.hasOneCache() || !joined || joined->getBlock() != block)
    return;
  for (Value part : joined.getInputs())
    fuseLinears(part);
  bool inBlocks = isa<BlocksType>(append.getType().getElementType());
  fuseParts(joined, inBlocks ? nullptr : append.getOperation());
  if (auto query = attention.getQuery().getDefiningOp<tensor::ConcatOp>();
      query && query->getBlock() == block)
    fuseParts(query, nullptr);
}

namespace {
struct FuseLatent : cria::impl::FuseLatentBase<FuseLatent> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (GQAOp op : llvm::to_vector(block->getOps<GQAOp>()))
        fuse(op);
  }
};
} // namespace
