#include "passes/CacheType.h"

#include "dialect/Dialect.h"
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

void cria::setCacheType(Value cache, RankedTensorType type) {
  if (cache.getType() == type)
    return;
  cache.setType(type);
  for (OpOperand &use : cache.getUses()) {
    if (Value next = updated(use))
      setCacheType(next, type);
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      setCacheType(loop.getTiedLoopRegionIterArg(&use), type);
  }
}
