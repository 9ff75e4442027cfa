/// llama.weight @q_proj[2] ...  =>  llama.weight @q_proj[2] ... {slot = 1}
#include "lowering/Passes.h"
#include "lowering/entry/Slots.h"

namespace cria {
#define GEN_PASS_DEF_ASSIGNSLOTS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static int64_t slotCount(Operation *op) {
  if (auto weight = dyn_cast<WeightOp>(op))
    return weight.getSlotCount();
  return cast<RopeTableOp>(op).getSlotCount();
}

SmallVector<std::pair<Operation *, int64_t>>
cria::assignSlots(ModuleOp module) {
  SmallVector<Operation *> symbols;
  for (Operation &op : module.getOps())
    if (isa<WeightOp, RopeTableOp>(op))
      symbols.push_back(&op);
  bool isAssigned =
      llvm::all_of(symbols, [](Operation *op) { return op->hasAttr("slot"); });
  Builder b(module.getContext());
  SmallVector<std::pair<Operation *, int64_t>> slots;
  int64_t next = 0;
  for (Operation *op : symbols) {
    if (!isAssigned)
      op->setAttr("slot", b.getIndexAttr(next));
    slots.push_back({op, op->getAttrOfType<IntegerAttr>("slot").getInt()});
    next += slotCount(op);
  }
  return slots;
}

namespace {
struct AssignSlots : cria::impl::AssignSlotsBase<AssignSlots> {
  void runOnOperation() override { (void)assignSlots(getOperation()); }
};
} // namespace
