#include "tools/emulator/translate/Form.h"

#include "tools/emulator/ptx/Type.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

/// One word of a form's modifiers.
struct Group {
  llvm::SmallVector<llvm::StringRef> alternatives;
  bool optional = false;
  bool hint = false;
  bool isTypes = false; ///< each alternative is a type

  bool has(llvm::StringRef modifier) const {
    return llvm::is_contained(alternatives, modifier);
  }
};

using Groups = std::vector<Group>;

llvm::StringRef expanded(llvm::StringRef word) {
  return llvm::StringSwitch<llvm::StringRef>(word)
      .Case("$int", "u16|u32|u64|s16|s32|s64")
      .Case("$bits", "b16|b32|b64")
      .Case("$memory", "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64")
      .Case("$space", "global|shared|shared::cta|shared::cluster|local|param|"
                      "param::entry|param::func|const")
      .Default(word);
}

Groups groupsOf(llvm::StringRef modifiers) {
  Groups groups;
  llvm::SmallVector<llvm::StringRef> words;
  modifiers.split(words, ' ', -1, false);
  for (llvm::StringRef word : words) {
    Group group;
    group.hint = word.consume_front("~");
    group.optional = word.consume_back("?");
    expanded(word).split(group.alternatives, '|');
    group.isTypes = llvm::all_of(group.alternatives, [](llvm::StringRef one) {
      return typeNamed(one).has_value();
    });
    groups.push_back(std::move(group));
  }
  return groups;
}

/// The rows with their groups, and the rows of each opcode.
struct Table {
  std::vector<Form> forms;
  std::vector<Groups> groups;
  llvm::StringMap<std::vector<size_t>> byOpcode;
};

const Table &table() {
  static const Table built = [] {
    Table table;
    for (auto family :
         {integerForms(), bitForms(), floatForms(), compareForms(),
          convertForms(), memoryForms(), atomicForms(), textureForms(),
          controlForms(), callForms(), videoForms(), warpForms(), matrixForms(),
          wmmaForms(), asyncForms(), mbarrierForms(), bulkCopyForms(),
          warpgroupForms()})
      table.forms.insert(table.forms.end(), family.begin(), family.end());
    for (const Form &form : table.forms) {
      table.byOpcode[form.opcode].push_back(table.groups.size());
      table.groups.push_back(groupsOf(form.modifiers));
    }
    return table;
  }();
  return built;
}

/// Gives each modifier the first free group that has it; types keep their
/// order. None if a modifier has no group, or a required group is free.
std::optional<std::vector<bool>>
matchModifiers(const std::vector<std::string> &modifiers,
               const Groups &groups) {
  std::vector<bool> isHint;
  llvm::SmallVector<bool> used(groups.size(), false);
  for (const std::string &modifier : modifiers) {
    size_t i = 0;
    while (i < groups.size() && (used[i] || !groups[i].has(modifier)))
      ++i;
    if (i == groups.size())
      return std::nullopt;
    for (size_t before = 0; groups[i].isTypes && before < i; ++before)
      if (groups[before].isTypes && !used[before])
        return std::nullopt;
    used[i] = true;
    isHint.push_back(groups[i].hint);
  }
  for (size_t i = 0; i < groups.size(); ++i)
    if (!used[i] && !groups[i].optional)
      return std::nullopt;
  return isHint;
}

bool isDestination(const Operand &operand) {
  return operand.kind == Operand::Sink ||
         (operand.kind == Operand::Name && !operand.paired &&
          !operand.negated && operand.value == 0);
}

bool isSource(const Operand &operand) {
  return !operand.paired &&
         (operand.kind == Operand::Name || operand.kind == Operand::Integer ||
          operand.kind == Operand::Float32 || operand.kind == Operand::Float64);
}

bool isVectorOf(const Operand &operand, bool (*element)(const Operand &)) {
  return operand.kind == Operand::Vector && !operand.parts.empty() &&
         llvm::all_of(operand.parts, element);
}

bool isPair(const Operand &operand) {
  return (operand.kind == Operand::Name || operand.kind == Operand::Sink) &&
         operand.paired && isDestination(operand.parts[0]);
}

bool matchOperand(char letter, const Operand &operand) {
  switch (letter) {
  case 'd':
    return isDestination(operand);
  case 'D':
    return isDestination(operand) || isVectorOf(operand, isDestination);
  case 'P':
    return isDestination(operand) || isPair(operand);
  case 's':
    return isSource(operand);
  case 'S':
    return isSource(operand) || isVectorOf(operand, isSource);
  case 'V':
    return isVectorOf(operand, isSource);
  case 'm':
    return operand.kind == Operand::Address && operand.parts.empty();
  case 't':
    return operand.kind == Operand::Address && operand.parts.size() == 1 &&
           isVectorOf(operand.parts[0], isSource);
  case 'i':
    return operand.kind == Operand::Integer;
  case 'n':
    return operand.kind == Operand::Name && !operand.paired;
  default: // a
    return operand.kind == Operand::Vector;
  }
}

bool matchOperands(const std::vector<Operand> &operands,
                   llvm::StringRef letters) {
  size_t at = 0;
  while (!letters.empty()) {
    char letter = letters.front();
    letters = letters.drop_front();
    bool optional = letters.consume_front("?");
    if (at < operands.size() && matchOperand(letter, operands[at]))
      ++at;
    else if (!optional)
      return false;
  }
  return at == operands.size();
}

/// Why no row of `rows` takes the modifiers.
std::string modifierError(const Instruction &instruction,
                          llvm::ArrayRef<size_t> rows) {
  for (const std::string &modifier : instruction.modifiers)
    if (llvm::none_of(rows, [&](size_t row) {
          return llvm::any_of(table().groups[row], [&](const Group &group) {
            return group.has(modifier);
          });
        }))
      return "unknown modifier '." + modifier + "' of '" + instruction.opcode +
             "'";
  return "no form of '" + instruction.opcode + "' has these modifiers";
}

} // namespace

std::variant<Match, std::string> matchForm(const Instruction &instruction,
                                           unsigned capability) {
  auto rows = table().byOpcode.find(instruction.opcode);
  if (rows == table().byOpcode.end())
    return "unknown instruction";
  std::string error;
  for (size_t row : rows->second) {
    const Form &form = table().forms[row];
    auto isHint = matchModifiers(instruction.modifiers, table().groups[row]);
    if (!isHint)
      continue;
    if (!matchOperands(instruction.operands, form.operands))
      error = "expected other operands";
    else if (form.since > capability)
      error = "needs sm_" + std::to_string(form.since) + ", the device is sm_" +
              std::to_string(capability);
    else
      return Match{&form, std::move(*isHint)};
  }
  return error.empty() ? modifierError(instruction, rows->second) : error;
}

llvm::ArrayRef<Form> allForms() { return table().forms; }

} // namespace cria::emulator
