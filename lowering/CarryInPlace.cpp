/// scf.for iter_args(%x) { ... yield %y }
///   =>
/// scf.for iter_args(%x) { ... yield (%y, put where %x is) }
#include "lowering/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace cria {
#define GEN_PASS_DEF_CARRYINPLACE
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

/// The value that an op updates to make a result: bufferization gives both one
/// buffer. Null where the result has its own.
static Value destinationOf(OpResult result) {
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

/// The operand that a function updates to make a result. What it calls itself
/// is not looked into: it may be itself.
static Value destinationOf(func::CallOp call, OpResult result) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee || !callee.getBody().hasOneBlock())
    return {};
  Value value =
      callee.front().getTerminator()->getOperand(result.getResultNumber());
  while (auto inner = dyn_cast_if_present<OpResult>(value))
    value = destinationOf(inner);
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  return argument ? call.getOperand(argument.getArgNumber()) : Value();
}

/// Whether the value is computed in the buffer of `carried`.
static bool isUpdateOf(Value value, Value carried) {
  while (value != carried) {
    auto result = dyn_cast_if_present<OpResult>(value);
    if (!result)
      return false;
    auto call = dyn_cast<func::CallOp>(result.getOwner());
    value = call ? destinationOf(call, result) : destinationOf(result);
  }
  return true;
}

static void carryInPlace(Block &body, ValueRange carried) {
  Operation *yield = body.getTerminator();
  ImplicitLocOpBuilder b(yield->getLoc(), yield);
  SmallVector<Value> made(yield->getOperands());
  // What changes places is copied before any is written over.
  for (auto [i, value] : llvm::enumerate(made))
    for (auto [j, other] : llvm::enumerate(carried))
      if (i != j && isa<RankedTensorType>(value.getType()) &&
          isUpdateOf(value, other)) {
        auto copy = bufferization::AllocTensorOp::create(
            b, cast<RankedTensorType>(value.getType()), ValueRange(), value);
        made[i] = copy;
        break;
      }
  for (auto [i, from] : llvm::enumerate(carried))
    if (isa<RankedTensorType>(from.getType()) && !isUpdateOf(made[i], from))
      yield->setOperand(
          i, bufferization::MaterializeInDestinationOp::create(b, made[i], from)
                 .getResult());
}

namespace {
struct CarryInPlace : cria::impl::CarryInPlaceBase<CarryInPlace> {
  void runOnOperation() override {
    getOperation().walk([](scf::ForOp loop) {
      carryInPlace(*loop.getBody(), loop.getRegionIterArgs());
    });
    getOperation().walk([](scf::WhileOp loop) {
      // What the condition passes on is what came in.
      if (llvm::equal(loop.getConditionOp().getArgs(),
                      loop.getBeforeArguments()))
        carryInPlace(*loop.getAfterBody(), loop.getAfterArguments());
    });
  }
};
} // namespace
