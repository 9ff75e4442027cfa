#include "tools/emulator/ptx/Link.h"

#include "tools/emulator/ptx/Parser.h"

#include <algorithm>
#include <set>

namespace cria::emulator {
namespace {

bool isDefinition(const Variable &variable) {
  return variable.linkage != Linkage::Extern;
}
bool isDefinition(const Function &function) { return !function.isDeclaration; }

bool isPrivate(const Variable &variable) {
  return variable.linkage == Linkage::Private;
}
bool isPrivate(const Function &function) {
  return function.linkage == Linkage::Private && !function.isEntry;
}

/// Gives the names in one module that are private to it a name that no other
/// module has.
class Renamer {
public:
  Renamer(PtxModule &module, const std::string &suffix)
      : module(module), suffix(suffix) {
    for (const Variable &variable : module.variables)
      if (isPrivate(variable))
        names.insert(variable.name);
    for (const Function &function : module.functions)
      if (isPrivate(function))
        names.insert(function.name);
  }

  void run() {
    for (Variable &variable : module.variables) {
      rename(variable.name);
      for (Variable::Relocation &relocation : variable.relocations)
        rename(relocation.name);
    }
    for (Function &function : module.functions) {
      rename(function.name);
      hideLocals(function);
      for (Scope &scope : function.scopes)
        for (auto &list : scope.targets)
          for (std::string &name : list.second)
            rename(name);
      for (Instruction &instruction : function.body)
        for (Operand &operand : instruction.operands)
          rename(operand);
    }
  }

private:
  /// Names of the function itself hide those of the module.
  void hideLocals(const Function &function) {
    hidden.clear();
    for (const auto *list : {&function.parameters, &function.results})
      for (const Parameter &parameter : *list)
        hidden.insert(parameter.name);
    for (const Scope &scope : function.scopes) {
      for (const auto &one : scope.registers)
        hidden.insert(one.first);
      for (const auto &one : scope.variables)
        hidden.insert(one.first);
      for (const auto &one : scope.labels)
        hidden.insert(one.first);
      for (const auto &one : scope.targets)
        hidden.insert(one.first);
      for (const auto &one : scope.prototypes)
        hidden.insert(one.first);
    }
  }

  void rename(std::string &name) {
    if (names.count(name) && !hidden.count(name))
      name += suffix;
  }
  void rename(Operand &operand) {
    rename(operand.name);
    for (Operand &part : operand.parts)
      rename(part);
  }

  PtxModule &module;
  std::string suffix;
  std::set<std::string> names, hidden;
};

void shiftLines(PtxModule &module, int lines, int files) {
  for (Variable &variable : module.variables)
    variable.line += lines;
  for (Function &function : module.functions) {
    function.line += lines;
    if (function.refusal)
      function.refusal->line += lines;
    for (Variable &variable : function.variables)
      variable.line += lines;
    for (Instruction &instruction : function.body) {
      instruction.line += lines;
      Location &at = instruction.location;
      at.file += at.file ? files : 0;
      at.inlinedFile += at.inlinedFile ? files : 0;
    }
  }
  std::map<int, std::string> shifted;
  for (auto &[number, name] : module.files)
    shifted[number + files] = std::move(name);
  module.files = std::move(shifted);
}

/// What is known of a name in any of the texts.
void join(Variable &, const Variable &) {}
void join(Function &all, const Function &one) {
  all.hasAddress |= one.hasAddress;
}

/// Adds `added`, unless `all` has a definition of its name already; then one of
/// both must be weak or a declaration.
template <typename T>
std::optional<Error> merge(std::vector<T> &all, T &&added) {
  auto same = std::find_if(all.begin(), all.end(), [&](const T &other) {
    return other.name == added.name;
  });
  if (same == all.end()) {
    all.push_back(std::move(added));
    return std::nullopt;
  }
  join(added, *same);
  join(*same, added);
  if (!isDefinition(added))
    return std::nullopt;
  if (!isDefinition(*same) ||
      (same->linkage == Linkage::Weak && added.linkage != Linkage::Weak)) {
    *same = std::move(added);
    return std::nullopt;
  }
  if (added.linkage == Linkage::Weak)
    return std::nullopt;
  return Error{added.line, "'" + added.name + "' is defined twice"};
}

int linesOf(const std::string &text) {
  bool endsInLine = !text.empty() && text.back() != '\n';
  return int(std::count(text.begin(), text.end(), '\n')) + endsInLine;
}

} // namespace

std::variant<PtxModule, Error> linkPtx(llvm::ArrayRef<std::string> texts) {
  if (texts.size() == 1)
    return parsePtx(texts.front());
  PtxModule linked;
  int lines = 0, files = 0, count = 0;
  for (const std::string &text : texts) {
    auto parsed = parsePtx(text);
    if (auto *error = std::get_if<Error>(&parsed)) {
      error->line += lines;
      return *error;
    }
    PtxModule &module = std::get<PtxModule>(parsed);
    Renamer(module, "$" + std::to_string(++count)).run();
    shiftLines(module, lines, files);
    linked.version = std::max(linked.version, module.version);
    linked.target = std::max(linked.target, module.target);
    for (Variable &variable : module.variables)
      if (auto error = merge(linked.variables, std::move(variable)))
        return *error;
    for (Function &function : module.functions)
      if (auto error = merge(linked.functions, std::move(function)))
        return *error;
    lines += linesOf(text);
    files = module.files.empty() ? files : module.files.rbegin()->first;
    linked.files.merge(module.files);
  }
  return linked;
}

} // namespace cria::emulator
