/// linalg.generic on memrefs  =>  scf.for { load; payload; store }
///
/// Does the same as upstream's linalg-to-loops, with four differences. An
/// innermost reduction is carried in a register, so that LLVM can vectorize it.
/// Sums of columns whose terms must stay in order are added row by row.
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
  if (op.getNumReductionLoops() == 0 ||
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

/// Makes the loop over adjacent results the innermost one, if an ordered sum
/// reads columns:
///
///   for n, s: y[n] += f(x[s, n])   =>   for s, n: y[n] += f(x[s, n])
///
/// LLVM can vectorize this loop, and the terms of each result stay in order.
static linalg::LinalgOp addRows(RewriterBase &b, linalg::LinalgOp op) {
  auto generic = dyn_cast<linalg::GenericOp>(*op);
  unsigned loops = op.getNumLoops();
  if (!generic || loops < 2 || !isOrderedSum(op) ||
      op.getIteratorTypesArray()[loops - 2] != utils::IteratorType::parallel)
    return op;
  AffineExpr column = b.getAffineDimExpr(loops - 2);
  // Elements are adjacent along n, or the same for all n.
  bool fits = llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    return !map.isFunctionOfDim(loops - 2) ||
           (type && type.isLastDimUnitStride() &&
            map.isProjectedPermutation() && map.getResults().back() == column);
  });
  bool isOfResults = llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &out) {
    return op.getMatchingIndexingMap(&out).isFunctionOfDim(loops - 2);
  });
  if (!fits || !isOfResults)
    return op;
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, loops));
  std::swap(order[loops - 2], order[loops - 1]);
  return cast<linalg::LinalgOp>(
      linalg::interchangeGenericOp(b, generic, order)->getOperation());
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
      op = addRows(b, op);
      if (isOrderedSum(op) && !linalg::isaContractionOpInterface(op))
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
