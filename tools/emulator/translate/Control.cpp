// Branches and ends.
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;

void emitBranch(Emitter &e) {
  e.has("uni");
  if (e.isBackward(e.operand(0).name))
    e.countRound();
  e.branch(e.label(e.operand(0).name));
}

void emitBranchTable(Emitter &e) {
  auto &b = e.builder;
  e.has("idx");
  e.has("uni");
  const auto *targets = e.branchTargets(e.operand(1).name);
  if (!targets)
    return;
  Value *index = e.read32(0);
  e.endSegment();
  llvm::BasicBlock *beyond = e.newBlock();
  auto *choice = b.CreateSwitch(index, beyond, unsigned(targets->size()));
  for (size_t i = 0; i < targets->size(); ++i)
    choice->addCase(b.getInt32(uint32_t(i)), e.label((*targets)[i]));
  b.SetInsertPoint(beyond);
  e.callBlocking("emulatorTrap", b.getVoidTy(), {e.line()});
  b.CreateUnreachable();
}

void emitReturn(Emitter &e) {
  e.has("uni");
  e.finish();
}

void emitExit(Emitter &e) {
  if (!e.isEntry())
    e.callBlocking("emulatorExit", e.builder.getVoidTy(), {});
  e.finish();
}

void emitTrap(Emitter &e) {
  e.call("emulatorTrap", e.builder.getVoidTy(), {e.line()});
}

/// Instructions for debuggers and profilers.
void emitNothing(Emitter &) {}

constexpr Form kForms[] = {
    {"bra", "uni?", "n", emitBranch},
    {"brx", "idx uni?", "sn", emitBranchTable},
    {"ret", "uni?", "", emitReturn},
    {"exit", "", "", emitExit},
    {"trap", "", "", emitTrap},
    {"brkpt", "", "", emitNothing},
    {"pmevent", "~mask?", "i", emitNothing},
};

} // namespace

llvm::ArrayRef<Form> controlForms() { return kForms; }

} // namespace cria::emulator
