// Calls: of functions by name and by address, and of the functions that every
// device has: vprintf, malloc, free, and __assertfail.
//
// The address of a function is the address of bytes that are reserved for it
// (Program.h), not of code: kernels are compiled one by one, and a pointer that
// one kernel stores may be called by another. A call by address compares it
// with the address of each function that the call may mean.
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// The parts of `call (results), function, (arguments), prototype`.
struct Call {
  const Operand *results = nullptr, *arguments = nullptr, *function = nullptr,
                *prototype = nullptr;
};

Call callOf(Emitter &e) {
  Call call;
  for (size_t i = 0; i < e.operandCount(); ++i) {
    const Operand &operand = e.operand(i);
    if (operand.kind == Operand::Vector)
      (call.function ? call.arguments : call.results) = &operand;
    else
      (call.function ? call.prototype : call.function) = &operand;
  }
  return call;
}

/// A device function of the runtime.
struct Builtin {
  const char *name;
  unsigned arguments;
  void (*emit)(Emitter &e, const Call &call, llvm::ArrayRef<Value *> slots);
};

Value *load(Emitter &e, Value *slot, unsigned bits) {
  return e.builder.CreateLoad(e.intType(bits), slot);
}

/// Stores the result, if the call wants it.
void storeResult(Emitter &e, const Call &call, Value *result) {
  if (!call.results || call.results->parts.empty())
    return;
  Value *slot = e.local(call.results->parts[0].name);
  if (!slot)
    return e.fail("the result is no .param variable");
  e.builder.CreateStore(result, slot);
}

void emitAssertionFailure(Emitter &e, const Call &,
                          llvm::ArrayRef<Value *> slots) {
  e.call("emulatorAssertionFailed", e.builder.getVoidTy(),
         {load(e, slots[0], 64), load(e, slots[1], 64), load(e, slots[2], 32),
          e.line()});
}

void emitPrint(Emitter &e, const Call &call, llvm::ArrayRef<Value *> slots) {
  storeResult(e, call,
              e.call("emulatorPrint", e.builder.getInt32Ty(),
                     {load(e, slots[0], 64), load(e, slots[1], 64), e.line()}));
}

void emitAllocate(Emitter &e, const Call &call, llvm::ArrayRef<Value *> slots) {
  storeResult(e, call,
              e.call("emulatorAllocate", e.builder.getInt64Ty(),
                     {load(e, slots[0], 64)}));
}

void emitFree(Emitter &e, const Call &, llvm::ArrayRef<Value *> slots) {
  e.call("emulatorFree", e.builder.getVoidTy(),
         {load(e, slots[0], 64), e.line()});
}

const Builtin kBuiltins[] = {{"__assertfail", 5, emitAssertionFailure},
                             {"vprintf", 2, emitPrint},
                             {"malloc", 1, emitAllocate},
                             {"free", 1, emitFree}};

/// The memory of the .param variables in `list`.
bool addSlots(Emitter &e, const Operand *list,
              llvm::SmallVector<Value *> &slots) {
  for (size_t i = 0; list && i < list->parts.size(); ++i) {
    Value *slot = e.local(list->parts[i].name);
    if (!slot) {
      e.fail("'" + list->parts[i].name + "' is no .param variable");
      return false;
    }
    slots.push_back(slot);
  }
  return true;
}

void emitBuiltin(Emitter &e, const Call &call, const Builtin &builtin) {
  llvm::SmallVector<Value *> slots;
  if (!addSlots(e, call.arguments, slots))
    return;
  if (slots.size() < builtin.arguments)
    return e.fail("expected " + llvm::Twine(builtin.arguments) +
                  " arguments of " + builtin.name);
  builtin.emit(e, call, slots);
}

/// Compares the address with each function's.
void emitCallByAddress(Emitter &e, const Call &call,
                       llvm::ArrayRef<Value *> values) {
  auto &b = e.builder;
  Value *address = e.read(*call.function, 64);
  e.endSegment();
  llvm::BasicBlock *after = e.newBlock(), *none = e.newBlock();
  auto *choice = b.CreateSwitch(address, none);
  for (const Function *function : e.calleesByAddress()) {
    llvm::Function *callee = e.module().getFunction("f_" + function->name);
    if (!callee || callee->arg_size() != values.size())
      continue;
    llvm::BasicBlock *block = e.newBlock();
    choice->addCase(b.getInt64(e.addressOf(*function)), block);
    b.SetInsertPoint(block);
    b.CreateCall(callee, values);
    b.CreateBr(after);
  }
  b.SetInsertPoint(none);
  e.call("emulatorBadCall", b.getVoidTy(), {address, e.line()});
  b.CreateUnreachable();
  b.SetInsertPoint(after);
}

void emitCall(Emitter &e) {
  e.has("uni");
  Call call = callOf(e);
  for (const Builtin &builtin : kBuiltins)
    if (call.function->name == builtin.name)
      return emitBuiltin(e, call, builtin);
  llvm::SmallVector<Value *> values{e.thread()};
  if (!addSlots(e, call.results, values) ||
      !addSlots(e, call.arguments, values))
    return;
  if (call.prototype)
    return emitCallByAddress(e, call, values);
  llvm::Function *callee = e.module().getFunction("f_" + call.function->name);
  if (!callee)
    return e.fail("call of unknown function '" + call.function->name + "'");
  if (values.size() != callee->arg_size())
    return e.fail("expected " + llvm::Twine(callee->arg_size() - 1) +
                  " .param variables as arguments");
  e.endSegment();
  e.builder.CreateCall(callee, values);
}

constexpr Form kForms[] = {
    {"call", "uni?", "a?na?n?", emitCall},
};

} // namespace

llvm::ArrayRef<Form> callForms() { return kForms; }

} // namespace cria::emulator
