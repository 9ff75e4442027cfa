/// linalg.generic on memrefs  =>  scf.for { load; payload; store }
///
/// Does the same as upstream's linalg-to-loops, with three differences. An
/// innermost reduction is carried in a register, so that LLVM can vectorize it.
/// The loop over tokens is parallel. Ops on blocks of bytes become vector ops,
/// because LLVM would unroll such short loops. A missed-optimization remark
/// names each sum that LLVM may not vectorize because no flag allows it to
/// reorder the terms. (Contractions that are lowered here have their own
/// remark.)
#include "lowering/Passes.h"
#include "lowering/kernel/LoopNest.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"

namespace cria {
#define GEN_PASS_DEF_LOWERTOLOOPS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// Whether the innermost loop adds floats one after the other.
static bool isOrderedSum(linalg::LinalgOp op) {
  if (op.getNumReductionLoops() == 0 || linalg::isaContractionOpInterface(op) ||
      op.getIteratorTypesArray().back() != utils::IteratorType::reduction)
    return false;
  return llvm::any_of(op.getRegionOutputArgs(), [](BlockArgument sum) {
    return llvm::any_of(sum.getUsers(), [](Operation *user) {
      auto add = dyn_cast<arith::AddFOp>(user);
      return add && !bitEnumContainsAll(add.getFastmath(),
                                        arith::FastMathFlags::reassoc);
    });
  });
}

namespace {
struct LowerToLoops : cria::impl::LowerToLoopsBase<LowerToLoops> {
  using LowerToLoopsBase::LowerToLoopsBase;

  void runOnOperation() override {
    copiesToLinalg(getOperation());
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (op.hasPureBufferSemantics())
        ops.push_back(op);
    });
    for (linalg::LinalgOp op : ops) {
      IRRewriter b(op);
      if (plain) {
        if (failed(linalg::linalgOpToLoops(b, op)))
          return signalPassFailure();
        op.erase();
        continue;
      }
      if (isOrderedSum(op))
        remark::missed(op.getLoc(), remark::RemarkOpts::name("scalar-sum")
                                        .category(getArgument())
                                        .function(getOperation().getName()))
            << remark::metric("Op", op->getName().getStringRef().str())
            << remark::reason("its terms may not be added in another order");
      LoopNest nest(b, op);
      if (nest.isOfBlocks())
        nest.emitVectors();
      else
        nest.emit(/*parallel=*/true);
      op.erase();
    }
  }
};
} // namespace
