#include "lowering/kernel/Softmax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

LogicalResult cria::takeApart(linalg::SoftmaxOp op) {
  if (!op.hasPureTensorSemantics())
    return op.emitOpError("expected a softmax of tensors");
  if (!isa<FloatType>(op.getInputOperandType().getElementType()))
    return op.emitOpError("expected a softmax of floats, got ")
           << op.getInputOperandType();
  OpBuilder builder(op);
  auto parts = op.decomposeOperation(builder);
  if (failed(parts))
    return failure();
  auto quotient = parts->front().getDefiningOp<linalg::GenericOp>();
  auto sum = quotient.getInputs()[1].getDefiningOp<linalg::GenericOp>();
  sum.walk([](arith::AddFOp add) {
    add.setFastmath(arith::FastMathFlags::reassoc);
  });
  op->replaceAllUsesWith(*parts);
  return success();
}
