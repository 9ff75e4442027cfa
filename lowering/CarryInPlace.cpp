/// scf.for iter_args(%x) { ... yield %y }
///   =>
/// scf.for iter_args(%x) { ... yield (%y, put where %x is) }
#include "lowering/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace cria {
#define GEN_PASS_DEF_CARRYINPLACE
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

/// Whether bufferization computes the value where `carried` is: it is made of
/// it by ops that have a destination.
static bool isUpdateOf(Value value, Value carried) {
  while (value != carried) {
    auto result = dyn_cast<OpResult>(value);
    if (!result)
      return false;
    if (auto op = dyn_cast<DestinationStyleOpInterface>(result.getOwner()))
      value = op.getTiedOpOperand(result)->get();
    else if (auto loop = dyn_cast<LoopLikeOpInterface>(result.getOwner());
             loop && loop.getTiedLoopInit(result))
      value = loop.getTiedLoopInit(result)->get();
    else
      return false;
  }
  return true;
}

static void carryInPlace(Block &body, ValueRange carried) {
  Operation *yield = body.getTerminator();
  ImplicitLocOpBuilder b(yield->getLoc(), yield);
  SmallVector<Value> made(yield->getOperands());
  // Before any is written over.
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
