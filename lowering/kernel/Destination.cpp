#include "lowering/kernel/Destination.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace cria;

/// The destination of the result of an op that is not a call.
static Value ownDestination(OpResult result) {
  Operation *op = result.getOwner();
  if (auto style = dyn_cast<DestinationStyleOpInterface>(op))
    return style.getTiedOpOperand(result)->get();
  if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
    OpOperand *init = loop.getTiedLoopInit(result);
    return init ? init->get() : Value();
  }
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op))
    return op->getOperand(0);
  return {};
}

Value cria::destinationOf(OpResult result) {
  auto call = dyn_cast<func::CallOp>(result.getOwner());
  if (!call)
    return ownDestination(result);
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee || !callee.getBody().hasOneBlock())
    return {};
  Value value =
      callee.front().getTerminator()->getOperand(result.getResultNumber());
  // Calls inside the callee are not followed, because they may be recursive.
  while (auto inner = dyn_cast_if_present<OpResult>(value))
    value = ownDestination(inner);
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  return argument ? call.getOperand(argument.getArgNumber()) : Value();
}

BlockArgument cria::updatedArgument(Value value) {
  while (value) {
    if (auto result = dyn_cast<OpResult>(value)) {
      value = destinationOf(result);
      continue;
    }
    auto argument = cast<BlockArgument>(value);
    Operation *parent = argument.getOwner()->getParentOp();
    if (isa<func::FuncOp>(parent))
      return argument;
    auto loop = dyn_cast<LoopLikeOpInterface>(parent);
    OpOperand *init = loop ? loop.getTiedLoopInit(argument) : nullptr;
    value = init ? init->get() : Value();
  }
  return {};
}
