#include "tools/emulator/translate/Layout.h"

#include "tools/emulator/ptx/Declarations.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace cria::emulator {
namespace {

class Layouter {
public:
  explicit Layouter(const PtxModule &module) : module(module) {}

  Layout run(const Function &entry) {
    visit(entry);
    placeShared();
    for (const Function *function : layout.functions)
      for (const Variable &variable : function->variables)
        if (variable.space != "shared")
          layout.localBytes += alignTo(variable.size, variable.align);
    return std::move(layout);
  }

private:
  void visit(const Function &function) {
    if (llvm::is_contained(layout.functions, &function)) {
      layout.recurses |= llvm::is_contained(open, &function);
      return;
    }
    open.push_back(&function);
    layout.functions.push_back(&function);
    for (const Instruction &instruction : function.body) {
      for (const Operand &operand : instruction.operands)
        note(operand, instruction.opcode == "call");
      if (instruction.opcode == "call")
        for (const Function *callee :
             calleesByAddress(module, function, instruction))
          visit(*callee);
    }
    open.pop_back();
  }

  void note(const Operand &operand, bool isCall) {
    names.insert(operand.name);
    if (isCall && operand.kind == Operand::Name)
      for (const Function &callee : module.functions)
        if (callee.name == operand.name && !callee.isDeclaration)
          visit(callee);
    for (const Operand &part : operand.parts)
      note(part, false);
  }

  uint64_t place(const Variable &variable) {
    uint64_t offset = alignTo(layout.sharedBytes, variable.align);
    layout.sharedBytes = offset + variable.size;
    return offset;
  }

  void placeShared() {
    uint64_t dynamicAlign = 16;
    auto reserved = names.lower_bound("%reserved_smem_offset");
    if (reserved != names.end() &&
        llvm::StringRef(*reserved).starts_with("%reserved_smem_offset")) {
      layout.reserved = 0;
      layout.sharedBytes = kReservedShared;
    }
    auto isDynamic = [](const Variable &variable) {
      return variable.unsized || variable.size == 0;
    };
    std::vector<const Variable *> dynamic;
    for (const Variable &variable : module.variables) {
      if (variable.space != "shared" || !variable.isKnown ||
          !names.count(variable.name))
        continue;
      if (isDynamic(variable))
        dynamic.push_back(&variable);
      else
        layout.moduleShared[variable.name] = place(variable);
    }
    for (const Function *function : layout.functions)
      for (const Variable &variable : function->variables)
        if (variable.space == "shared")
          layout.shared[&variable] = place(variable);
    for (const Variable *variable : dynamic)
      dynamicAlign = std::max(dynamicAlign, variable->align);
    if (!dynamic.empty())
      layout.sharedBytes = alignTo(layout.sharedBytes, dynamicAlign);
    for (const Variable *variable : dynamic)
      layout.moduleShared[variable->name] = layout.sharedBytes;
  }

  const PtxModule &module;
  Layout layout;
  std::set<std::string> names; ///< names that instructions use
  std::vector<const Function *> open;
};

bool isLike(const std::vector<Parameter> &some,
            const std::vector<Parameter> &others) {
  return llvm::equal(some, others, [](const Parameter &a, const Parameter &b) {
    return a.size == b.size;
  });
}

/// The operands of a call that are names, without those in parentheses: the
/// function, and for an indirect call the prototype.
std::vector<llvm::StringRef> namesOf(const Instruction &call) {
  std::vector<llvm::StringRef> names;
  for (const Operand &operand : call.operands)
    if (operand.kind == Operand::Name)
      names.push_back(operand.name);
  return names;
}

} // namespace

Layout layoutOf(const PtxModule &module, const Function &entry) {
  return Layouter(module).run(entry);
}

std::vector<const Function *> calleesByAddress(const PtxModule &module,
                                               const Function &caller,
                                               const Instruction &call) {
  auto names = namesOf(call);
  std::vector<const Function *> callees;
  if (names.size() != 2)
    return callees;
  auto *prototype = caller.lookUp(&Scope::prototypes, call.scope, names[1]);
  auto *list = caller.lookUp(&Scope::targets, call.scope, names[1]);
  for (const Function &function : module.functions) {
    if (function.isDeclaration || function.isEntry || !function.hasAddress)
      continue;
    if (list ? llvm::is_contained(*list, function.name)
             : prototype && isLike(function.results, prototype->results) &&
                   isLike(function.parameters, prototype->parameters))
      callees.push_back(&function);
  }
  return callees;
}

} // namespace cria::emulator
