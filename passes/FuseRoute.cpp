/// route(linear(norm(x)))  =>  kernel { norm; linear; route }
///
/// The experts read the norm, too. A norm costs less than to store its result:
/// each kernel that reads it computes it.
///
///   %n = norm %x                          %n = norm %x
///   %l = linear %n ...                    %l = linear %n ...
///   %e, %w = route %l               =>    %e, %w = route %l
///                                         %m = norm %x
///   %g = expert_linear %n, ...[%e]        %g = expert_linear %m, ...[%e]
///   %u = expert_linear %n, ...[%e]        %u = expert_linear %m, ...[%e]
#include "passes/Kernel.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"

namespace cria {
#define GEN_PASS_DEF_FUSEROUTE
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The op that ends the kernel which a linear is going to be in; null if it is
/// unknown. Ops in between choose columns.
static Operation *endOf(Operation *linear) {
  if (!isa<LinearOp, ExpertLinearOp>(linear))
    return nullptr;
  Operation *end = nullptr;
  SmallVector<Operation *> readers(linear->getUsers());
  while (!readers.empty()) {
    Operation *op = readers.pop_back_val();
    if (isa<tensor::ExpandShapeOp, tensor::ExtractSliceOp,
            tensor::CollapseShapeOp>(op))
      llvm::append_range(readers, op->getUsers());
    else if (isa<RouteOp, SwiGLUOp, ActivateOp>(op) && (!end || end == op))
      end = op;
    else
      return nullptr;
  }
  return end;
}

/// Gives each kernel that is going to read a norm a norm of its own.
static void copyNorm(Operation *norm) {
  llvm::MapVector<Operation *, SmallVector<OpOperand *>> readers;
  for (OpOperand &use : norm->getUses())
    readers[endOf(use.getOwner())].push_back(&use);
  if (readers.contains(nullptr))
    return;
  OpBuilder b(norm);
  for (auto &[end, uses] : llvm::drop_begin(readers)) {
    Operation *copy = b.clone(*norm);
    for (OpOperand *use : uses)
      use->set(copy->getResult(0));
  }
}

static void fuse(RouteOp route) {
  KernelGroup group(route->getBlock(), "llama-fuse-route");
  group.insert(route);
  if (Operation *linear = group.absorb<LinearOp>(route.getLogits())) {
    Value input = cast<LinearOp>(linear).getInput();
    if (Operation *norm = group.producer<RMSNormOp, LayerNormOp>(input))
      copyNorm(norm);
    group.absorbNorm();
  }
  group.outline("route");
}

namespace {
struct FuseRoute : cria::impl::FuseRouteBase<FuseRoute> {
  void runOnOperation() override {
    for (Block *block : blocksOutsideKernels(getOperation()))
      for (RouteOp op : llvm::to_vector(block->getOps<RouteOp>()))
        fuse(op);
  }
};
} // namespace
