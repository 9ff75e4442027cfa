#include "lowering/kernel/Payload.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

Value cria::asVector(OpBuilder &b, Value value, int64_t lanes) {
  if (isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(
      b, value.getLoc(), VectorType::get(lanes, value.getType()), value);
}

void cria::cloneOnVectors(OpBuilder &b, Operation &scalar, IRMapping &mapping,
                          int64_t lanes) {
  auto operands = llvm::map_to_vector(scalar.getOperands(), [&](Value value) {
    return mapping.lookupOrDefault(value);
  });
  bool isVector = llvm::any_of(
      operands, [](Value value) { return isa<VectorType>(value.getType()); });
  Operation *copy = b.clone(scalar, mapping);
  if (!isVector)
    return;
  b.setInsertionPoint(copy);
  for (Value &operand : operands)
    operand = asVector(b, operand, lanes);
  copy->setOperands(operands);
  for (Value result : copy->getResults())
    result.setType(VectorType::get(lanes, result.getType()));
  b.setInsertionPointAfter(copy);
}
