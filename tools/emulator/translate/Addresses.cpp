// Names to addresses.
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {

/// The variable called `name` in the scopes around the instruction, or null.
/// Calls are in scopes of their own, whose variables have the same names.
const Variable *Emitter::findVariable(llvm::StringRef name) const {
  auto *found = source.lookUp(&Scope::variables, instruction->scope, name);
  return found ? &source.variables[*found] : nullptr;
}

llvm::Value *Emitter::local(llvm::StringRef name) {
  if (const Variable *variable = findVariable(name))
    return locals.lookup(variable);
  return parameters.lookup(name);
}

/// The address of a variable: in the window of shared memory for shared
/// variables, else a host address.
llvm::Value *Emitter::symbol(llvm::StringRef name) {
  if (llvm::Value *pointer = local(name))
    return builder.CreatePtrToInt(pointer, builder.getInt64Ty());
  if (const Variable *variable = findVariable(name))
    return builder.getInt64(kSharedBase + kernel.layout.shared.at(variable));
  auto shared = kernel.layout.moduleShared.find(name.str());
  if (shared != kernel.layout.moduleShared.end())
    return builder.getInt64(kSharedBase + shared->second);
  auto global = kernel.globals.find(name.str());
  if (global != kernel.globals.end())
    return builder.getInt64(global->second);
  auto function = kernel.functions.find(name.str());
  if (function != kernel.functions.end())
    return builder.getInt64(function->second);
  fail("unknown name '" + name + "'");
  return builder.getInt64(0);
}

llvm::Value *Emitter::sharedWindow() {
  return threadField(offsetof(Thread, shared), builder.getPtrTy());
}

llvm::Value *Emitter::sharedPointer(llvm::Value *offset) {
  return builder.CreateGEP(builder.getInt8Ty(), sharedWindow(),
                           fit(offset, 64));
}

llvm::Value *Emitter::isConst(llvm::Value *address) {
  llvm::Value *is = builder.getFalse();
  for (const Variable &variable : kernel.ptx.variables) {
    auto found = kernel.globals.find(variable.name);
    if (variable.space == "const" && found != kernel.globals.end())
      is = builder.CreateOr(
          is, builder.CreateICmpULT(
                  builder.CreateSub(address, builder.getInt64(found->second)),
                  builder.getInt64(variable.size)));
  }
  return is;
}

llvm::Value *Emitter::baseOf(const Operand &operand) {
  if (operand.name.empty())
    return builder.getInt64(0);
  if (Register *found = findRegister(operand.name))
    return builder.CreateLoad(intType(found->bits), found->slot);
  return symbol(operand.name);
}

llvm::Value *Emitter::clusterAddress(const Operand &operand) {
  llvm::Value *base = baseOf(operand);
  base = builder.CreateAdd(
      base, llvm::ConstantInt::get(base->getType(), operand.value));
  return call("emulatorClusterAddress", builder.getPtrTy(),
              {fit(base, 64), line()});
}

llvm::Value *Emitter::address(const Operand &operand, llvm::StringRef space,
                              AccessFlags flags, llvm::Value *stored) {
  llvm::Value *base = baseOf(operand);
  // A 32-bit shared address wraps around at 32 bits.
  if (space == "shared")
    base = builder.CreateAdd(
        base, llvm::ConstantInt::get(base->getType(), operand.value));
  base = fit(base, 64);
  if (space != "shared")
    base = builder.CreateAdd(base, builder.getInt64(operand.value));
  llvm::Value *pointer = space == "shared"
                             ? sharedPointer(base)
                             : builder.CreateIntToPtr(base, builder.getPtrTy());
  flags.isShared = space == "shared";
  flags.isGeneric = space.empty();
  if (kernel.checks && flags.bytes && space != "param" && space != "local")
    check(pointer, base, flags, stored);
  return pointer;
}

} // namespace cria::emulator
