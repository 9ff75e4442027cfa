/// Ops of other dialects that compute on tensors in a program.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"

namespace cria {

/// Whether `op` is an op of arith or math whose result is a tensor, and
/// computes each element from the operands' elements at the same index and from
/// scalar operands. False for a select by a scalar, which chooses a whole
/// tensor, and for minnumf and maxnumf, which LLVM makes calls of a library.
inline bool isElementwise(mlir::Operation *op) {
  using namespace mlir;
  auto select = dyn_cast<arith::SelectOp>(op);
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         OpTrait::hasElementwiseMappableTraits(op) &&
         op->getNumResults() == 1 &&
         !isa<arith::MaxNumFOp, arith::MinNumFOp>(op) &&
         isa<RankedTensorType>(op->getResult(0).getType()) &&
         (!select || isa<RankedTensorType>(select.getCondition().getType()));
}

/// The operands of an elementwise op that are tensors; at least one is.
inline llvm::SmallVector<mlir::Value> tensorsOf(mlir::Operation *op) {
  return llvm::filter_to_vector(op->getOperands(), [](mlir::Value value) {
    return mlir::isa<mlir::RankedTensorType>(value.getType());
  });
}

} // namespace cria
