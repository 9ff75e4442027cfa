// Branches, calls and ends.
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

/// A failed assertion of CUDA C++.
void emitAssertionFailure(Emitter &e, const Operand *arguments) {
  auto &b = e.builder;
  if (!arguments || arguments->parts.size() < 4)
    return e.fail("expected the arguments of __assertfail");
  llvm::SmallVector<Value *> values;
  for (size_t i = 0; i < 3; ++i) {
    Value *slot = e.local(arguments->parts[i].name);
    if (!slot)
      return e.fail("argument is no .param variable");
    llvm::Type *type = i == 2 ? b.getInt32Ty() : b.getInt64Ty();
    values.push_back(b.CreateLoad(type, slot));
  }
  values.push_back(e.line());
  e.call("emulatorAssertionFailed", b.getVoidTy(), values);
}

/// call (results), function, (arguments): each is a .param variable.
void emitCall(Emitter &e) {
  e.has("uni");
  const Operand *results = nullptr, *arguments = nullptr;
  std::string name;
  for (size_t i = 0; i < e.operandCount(); ++i) {
    const Operand &operand = e.operand(i);
    if (operand.kind != Operand::Vector)
      name = operand.name;
    else
      (name.empty() ? results : arguments) = &operand;
  }
  if (name == "__assertfail")
    return emitAssertionFailure(e, arguments);
  llvm::Function *callee = e.module().getFunction("f_" + name);
  if (!callee)
    return e.fail("call of unknown function '" + name + "'");
  llvm::SmallVector<Value *> values{e.thread()};
  for (const Operand *list : {results, arguments})
    for (size_t i = 0; list && i < list->parts.size(); ++i)
      if (Value *slot = e.local(list->parts[i].name))
        values.push_back(slot);
  if (values.size() != callee->arg_size())
    return e.fail("expected " + llvm::Twine(callee->arg_size() - 1) +
                  " .param variables as arguments");
  e.endSegment();
  e.builder.CreateCall(callee, values);
}

constexpr Form kForms[] = {
    {"bra", "uni?", "n", emitBranch},
    {"brx", "idx uni?", "sn", emitBranchTable},
    {"ret", "uni?", "", emitReturn},
    {"exit", "", "", emitExit},
    {"trap", "", "", emitTrap},
    {"call", "uni?", "a?na?", emitCall},
};

} // namespace

llvm::ArrayRef<Form> controlForms() { return kForms; }

} // namespace cria::emulator
