#include "passes/CacheType.h"

#include "dialect/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The updated cache that a use makes; null if the use makes none.
static Value updated(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto append = dyn_cast<KVAppendOp>(user))
    return &use == &append.getCacheMutable() ? append.getResult() : Value();
  if (auto of = dyn_cast<StateOpInterface>(user))
    return &use == &of.getStateMutable() ? of.getNext() : Value();
  auto loop = dyn_cast<scf::ForOp>(user);
  return loop ? loop.getTiedLoopResult(&use) : Value();
}

/// Calls `body` for a cache, and for all updates of it.
static void forEachValue(Value cache, function_ref<void(Value)> body) {
  body(cache);
  for (OpOperand &use : cache.getUses()) {
    if (Value next = updated(use))
      forEachValue(next, body);
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      forEachValue(loop.getTiedLoopRegionIterArg(&use), body);
  }
}

void cria::forEachUse(Value cache, function_ref<void(OpOperand &)> body) {
  forEachValue(cache, [&](Value value) {
    for (OpOperand &use : value.getUses())
      body(use);
  });
}

LogicalResult cria::verifyCacheUses(Value cache) {
  Operation *other = nullptr;
  forEachUse(cache, [&](OpOperand &use) {
    Operation *user = use.getOwner();
    bool passesOn = user->hasTrait<OpTrait::IsTerminator>() ||
                    llvm::is_contained(user->getResultTypes(), cache.getType());
    if (passesOn && !updated(use) && !isa<scf::YieldOp, func::ReturnOp>(user))
      other = user;
  });
  if (!other)
    return success();
  return other->emitError("expected caches to go through appends, states and "
                          "loops alone, got ")
         << other->getName();
}

void cria::setCacheType(Value cache, RankedTensorType type) {
  forEachValue(cache, [&](Value value) { value.setType(type); });
}
