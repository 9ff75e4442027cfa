#include "tools/emulator/translate/Layout.h"

#include "tools/emulator/ptx/Declarations.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace cria::emulator {
namespace {

class Layouter {
public:
  explicit Layouter(const PtxModule &module) : module(module) {}

  std::variant<Layout, Error> run(const Function &entry) {
    visit(entry);
    if (error)
      return *error;
    placeShared();
    for (const Function *function : layout.functions)
      for (const Variable &variable : function->variables)
        if (variable.space != "shared")
          layout.localBytes += alignTo(variable.size, variable.align);
    return std::move(layout);
  }

private:
  void visit(const Function &function) {
    if (llvm::is_contained(open, &function)) {
      error = Error{function.line, "'" + function.name +
                                       "' calls itself, which is not emulated"};
      return;
    }
    if (error || llvm::is_contained(layout.functions, &function))
      return;
    open.push_back(&function);
    layout.functions.push_back(&function);
    for (const Instruction &instruction : function.body)
      for (const Operand &operand : instruction.operands)
        note(operand, instruction.opcode == "call");
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
  std::optional<Error> error;
};

} // namespace

std::variant<Layout, Error> layoutOf(const PtxModule &module,
                                     const Function &entry) {
  return Layouter(module).run(entry);
}

} // namespace cria::emulator
