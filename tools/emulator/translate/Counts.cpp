// Counters in translated code, and the classes of instructions.
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {

using llvm::Value;

void Emitter::countInstruction() {
  if (!kernel.countPlan)
    return;
  InstructionClass found = classOf(*instruction);
  ++segment.classes[kernel.countPlan->classOf(found.name, found.operations)];
}

void Emitter::endSegment() {
  if (segment.classes.empty())
    return;
  auto &segments = kernel.countPlan->segments;
  Value *counter = builder.CreateConstGEP1_64(
      builder.getInt32Ty(),
      threadField(offsetof(Thread, executed), builder.getPtrTy()),
      segments.size());
  Value *count = builder.CreateLoad(builder.getInt32Ty(), counter);
  builder.CreateStore(builder.CreateAdd(count, builder.getInt32(1)), counter);
  segments.push_back(std::exchange(segment, {}));
}

void Emitter::callRequest(size_t site, Value *pointer, Value *bytes) {
  call("emulatorRequest", builder.getVoidTy(),
       {builder.getInt32(uint32_t(site)), pointer, bytes});
}

void Emitter::countRequest(RequestKind kind, Value *pointer, Value *bytes) {
  if (!kernel.requests)
    return;
  auto &sites = kernel.countPlan->sites;
  callRequest(sites.size(), pointer, bytes);
  sites.push_back({instruction->line, kind});
}

void Emitter::countRequest(llvm::StringRef space, const AccessFlags &flags,
                           Value *pointer) {
  if (!kernel.requests || space == "param" || space == "const")
    return;
  auto &sites = kernel.countPlan->sites;
  auto kindIn = [&](RequestKind load, RequestKind store, RequestKind atomic) {
    return flags.isAtomic ? atomic : flags.isStore ? store : load;
  };
  callRequest(sites.size(), pointer, builder.getInt32(flags.bytes));
  bool isGeneric = space.empty();
  if (isGeneric || space == "global")
    sites.push_back({instruction->line,
                     kindIn(RequestKind::GlobalLoad, RequestKind::GlobalStore,
                            RequestKind::GlobalAtomic),
                     isGeneric});
  if (isGeneric || space == "shared")
    sites.push_back({instruction->line,
                     kindIn(RequestKind::SharedLoad, RequestKind::SharedStore,
                            RequestKind::SharedAtomic)});
  if (isGeneric || space == "local")
    sites.push_back({instruction->line,
                     kindIn(RequestKind::LocalLoad, RequestKind::LocalStore,
                            RequestKind::LocalStore)});
}

/// If the predicate switches the instruction off (in `block`), its accesses, at
/// the sites from `firstSite` on, count as executed and ask for nothing.
void Emitter::countSwitchedOff(llvm::BasicBlock *block, size_t firstSite,
                               llvm::BasicBlock *after) {
  builder.SetInsertPoint(block);
  for (size_t i = firstSite; i < kernel.countPlan->sites.size(); ++i)
    callRequest(i, llvm::ConstantPointerNull::get(builder.getPtrTy()),
                builder.getInt32(0));
  builder.CreateBr(after);
}

namespace {

bool hasModifier(const Instruction &instruction, llvm::StringRef name) {
  return llvm::is_contained(instruction.modifiers, name);
}

/// `ld.global`, `st.shared`, `atomic.generic`, ...
std::string accessClass(llvm::StringRef what, const Instruction &instruction) {
  for (const std::string &modifier : instruction.modifiers) {
    llvm::StringRef space = llvm::StringRef(modifier).split("::").first;
    for (auto name : {"global", "shared", "local", "param", "const"})
      if (space == name)
        return (what + "." + space).str();
  }
  return (what + ".generic").str();
}

/// `mma.m16n8k16.bf16`, with `.f16` after it if it accumulates in f16. Each of
/// `warps` does its part.
InstructionClass productClass(const Instruction &instruction, unsigned warps) {
  std::string name = instruction.opcode;
  Shape shape;
  llvm::SmallVector<llvm::StringRef> types;
  for (llvm::StringRef modifier : instruction.modifiers) {
    if (auto found = shapeNamed(modifier)) {
      shape = *found;
      name += "." + modifier.str();
    } else if (typeNamed(modifier)) {
      types.push_back(modifier);
    }
  }
  if (types.size() < 2)
    return {name};
  if (types.size() == 2) // wmma with f16 names the types of D and C alone
    types = {types[0], "f16"};
  std::string result = types[0] == "f16" ? ".f16" : "";
  return {name + "." + types[1].str() + result,
          uint64_t(2) * shape.m * shape.n * shape.k / warps};
}

std::string copyClass(const Instruction &instruction) {
  if (hasModifier(instruction, "prefetch"))
    return "hint";
  if (!hasModifier(instruction, "global"))
    return "sync";
  return hasModifier(instruction, "bulk") ? "cp.async.bulk" : "cp.async";
}

/// The class by the type of the result, which is the last type.
std::string arithmeticClass(const Instruction &instruction) {
  std::optional<Type> type;
  for (const std::string &modifier : instruction.modifiers)
    if (auto found = typeNamed(modifier))
      type = found;
  if (!type || !type->isFloat())
    return "integer";
  if (type->bits != 32)
    return type->bits == 64 ? "f64" : "f16";
  bool fused = instruction.opcode == "fma" || instruction.opcode == "mad";
  return fused ? "fma" : "f32";
}

/// The class of opcodes that need no modifier for it; "" for others.
llvm::StringRef simpleClass(llvm::StringRef opcode) {
  return llvm::StringSwitch<llvm::StringRef>(opcode)
      .Cases({"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"},
             "special")
      .Cases({"div", "rem"}, "divide")
      .Case("cvt", "convert")
      .Cases({"set", "setp", "selp", "slct", "testp", "isspacep"}, "compare")
      .Cases({"mov", "cvta"}, "move")
      .Cases({"bra", "brx", "call", "ret", "exit", "trap"}, "control")
      .Case("barrier", "barrier")
      .Cases({"membar", "fence", "nanosleep", "griddepcontrol", "setmaxnreg",
              "wgmma"},
             "sync")
      .Case("shfl", "shuffle")
      .Cases({"vote", "match", "redux", "activemask", "elect"}, "vote")
      .Cases({"prefetch", "prefetchu", "discard", "applypriority",
              "createpolicy", "brkpt", "pmevent"},
             "hint")
      .Case("mbarrier", "mbarrier")
      .Case("mapa", "integer")
      .Case("ldmatrix", "ldmatrix")
      .Case("stmatrix", "stmatrix")
      .Default("");
}

} // namespace

InstructionClass classOf(const Instruction &instruction) {
  llvm::StringRef opcode = instruction.opcode;
  if (opcode == "mma" || (opcode == "wmma" && hasModifier(instruction, "mma")))
    return productClass(instruction, 1);
  if (opcode == "wmma")
    return {hasModifier(instruction, "load") ? "ldmatrix" : "stmatrix"};
  if (opcode == "wgmma" && hasModifier(instruction, "mma_async"))
    return productClass(instruction, 4);
  llvm::StringRef simple = simpleClass(opcode);
  if (!simple.empty())
    return {simple.str()};
  if (opcode == "bar")
    return {hasModifier(instruction, "warp") ? "sync" : "barrier"};
  if (opcode == "cp")
    return {copyClass(instruction)};
  if (opcode == "ld" || opcode == "ldu" || opcode == "st")
    return {accessClass(opcode.take_front(2), instruction)};
  if (opcode == "atom" || opcode == "red")
    return {accessClass("atomic", instruction)};
  return {arithmeticClass(instruction)};
}

} // namespace cria::emulator
