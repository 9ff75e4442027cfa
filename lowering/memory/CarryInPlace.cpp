/// scf.for iter_args(%x = %slice) { ... yield %y }
///   =>
/// %start = copy of %slice
/// scf.for iter_args(%x = %start) { ... yield (%y, materialized in %x) }
#include "lowering/Passes.h"
#include "lowering/kernel/Destination.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria {
#define GEN_PASS_DEF_CARRYINPLACE
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// Whether the tensor, or a view of it, is read after `writer` overwrites it.
/// Bufferization then lets `writer` write to a copy.
static bool isReadAfter(Value tensor, Operation *writer) {
  return llvm::any_of(tensor.getUsers(), [&](Operation *user) {
    if (isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp,
            tensor::CollapseShapeOp>(user))
      return isReadAfter(user->getResult(0), writer);
    Operation *reader = writer->getBlock()->findAncestorOpInBlock(*user);
    return reader && writer->isBeforeInBlock(reader);
  });
}

/// Whether the value is computed in the buffer of `carried`.
static bool isUpdateOf(Value value, Value carried) {
  while (value != carried) {
    auto result = dyn_cast_if_present<OpResult>(value);
    value = result ? destinationOf(result) : Value();
    if (!value || isReadAfter(value, result.getOwner()))
      return false;
  }
  return true;
}

/// Whether the tensor may be a part of another one, whose rows are longer.
static bool isPart(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  if (isa_and_present<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                      tensor::CastOp, arith::SelectOp>(op))
    return llvm::any_of(op->getOperands(), isPart);
  return isa_and_present<tensor::ExtractSliceOp>(op);
}

static void carryInPlace(MutableArrayRef<OpOperand> inits, Block &body,
                         ValueRange carried) {
  for (OpOperand &init : inits)
    if (isPart(init.get())) {
      OpBuilder b(init.getOwner());
      init.set(bufferization::AllocTensorOp::create(
          b, init.get().getLoc(), cast<RankedTensorType>(init.get().getType()),
          ValueRange(), init.get()));
    }
  Operation *yield = body.getTerminator();
  ImplicitLocOpBuilder b(yield->getLoc(), yield);
  SmallVector<Value> made(yield->getOperands());
  // Tensors that change places are copied before one of them is overwritten.
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
      carryInPlace(loop.getInitsMutable(), *loop.getBody(),
                   loop.getRegionIterArgs());
    });
    getOperation().walk([](scf::WhileOp loop) {
      // The condition passes its arguments on unchanged.
      if (llvm::equal(loop.getConditionOp().getArgs(),
                      loop.getBeforeArguments()))
        carryInPlace(loop.getInitsMutable(), *loop.getAfterBody(),
                     loop.getAfterArguments());
    });
  }
};
} // namespace
