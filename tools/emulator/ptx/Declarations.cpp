#include "tools/emulator/ptx/Declarations.h"

#include "tools/emulator/ptx/Body.h"

#include <cstring>

namespace cria::emulator {
namespace {

constexpr uint64_t kMaxAlign = 1 << 16;
constexpr uint64_t kMaxBytes = uint64_t(1) << 32;

uint64_t parseAlign(Cursor &cursor) {
  uint64_t align = cursor.count(kMaxAlign);
  if (align == 0 || (align & (align - 1))) {
    cursor.fail("expected a power of two after .align");
    return 1;
  }
  return align;
}

/// Multiplies by each `[n]`. `[]` makes it 0 and sets `unsized`.
uint64_t parseDimensions(Cursor &cursor, uint64_t bytes, bool &unsized) {
  while (cursor.eat('[')) {
    unsized |= cursor.here().is(']');
    uint64_t count = unsized ? 0 : cursor.count(kMaxBytes);
    if (count && bytes > kMaxBytes / count)
      cursor.fail("expected a variable of at most 4 GiB");
    bytes *= count;
    cursor.expect(']');
  }
  return bytes;
}

class Initializer {
public:
  Initializer(Cursor &cursor, Variable &variable, unsigned elementBytes)
      : cursor(cursor), variable(variable), elementBytes(elementBytes) {}

  void parse() {
    variable.initial.assign(variable.size, 0);
    int depth = 0;
    do {
      if (cursor.eat('{'))
        ++depth;
      else if (cursor.eat('}'))
        --depth;
      else if (!cursor.eat(','))
        element();
    } while (depth > 0 && !cursor.atEnd());
  }

private:
  void element() {
    bool generic = cursor.eatWord("generic");
    if (generic)
      cursor.expect('(');
    Operand operand = parseOperand(cursor);
    if (generic)
      cursor.expect(')');
    while (cursor.here().is('+'))
      operand.value += cursor.integer();
    if (offset + elementBytes > variable.size)
      return cursor.fail("initializer of '" + variable.name + "' is too long");
    if (operand.kind == Operand::Name)
      variable.relocations.push_back({offset, operand.name, operand.value});
    else
      std::memcpy(&variable.initial[offset], &operand.value,
                  std::min(elementBytes, 8u));
    offset += elementBytes;
  }

  Cursor &cursor;
  Variable &variable;
  unsigned elementBytes;
  uint64_t offset = 0;
};

/// Reads the attributes before a variable's name; returns the element's type.
Type parseVariableType(Cursor &cursor, Variable &variable) {
  std::optional<Type> type;
  while (cursor.here().text.starts_with(".") && !cursor.atEnd()) {
    llvm::StringRef word = cursor.word();
    if (word == ".align")
      variable.align = parseAlign(cursor);
    else if (word == ".attribute")
      cursor.skipPast(')');
    else if (auto found = typeNamed(word.drop_front()))
      type = found;
    else
      variable.isKnown = false;
  }
  if (variable.isKnown && (!type || type->kind == Type::Predicate))
    cursor.fail("expected a variable with a type");
  return type.value_or(Type());
}

void parseParameterAttribute(Cursor &cursor, Parameter &parameter) {
  llvm::StringRef word = cursor.word();
  if (word == ".align") {
    parameter.align = std::max(parameter.align, parseAlign(cursor));
  } else if (word == ".ptr") {
    // Skips what the pointer points to: `.ptr .global .align 16`.
    for (auto space : {".global", ".shared", ".const", ".local"})
      cursor.eatWord(space);
    if (cursor.eatWord(".align"))
      parseAlign(cursor);
  } else if (auto type = typeNamed(word.drop_front())) {
    parameter.size = type->bytes();
    parameter.align = std::max<uint64_t>(parameter.align, type->bytes());
  } else {
    cursor.fail("unknown attribute '" + word + "' of a parameter");
  }
}

} // namespace

Variable parseVariable(Cursor &cursor, llvm::StringRef space) {
  Variable variable;
  variable.space = space.str();
  variable.line = cursor.line();
  Type type = parseVariableType(cursor, variable);
  variable.align = std::max<uint64_t>(variable.align, type.bytes());
  variable.name = cursor.word().str();
  variable.size = parseDimensions(cursor, type.bytes(), variable.unsized);
  if (cursor.eat('='))
    Initializer(cursor, variable, type.bytes()).parse();
  return variable;
}

std::vector<Parameter> parseParameters(Cursor &cursor) {
  std::vector<Parameter> parameters;
  cursor.expect('(');
  while (!cursor.eat(')') && !cursor.atEnd()) {
    Parameter parameter;
    if (!cursor.eatWord(".param") && !cursor.eatWord(".reg"))
      cursor.fail("expected .param, got '" + cursor.here().text + "'");
    while (cursor.here().text.starts_with(".") && !cursor.atEnd())
      parseParameterAttribute(cursor, parameter);
    parameter.name = cursor.word().str();
    bool unsized = false;
    parameter.size = parseDimensions(cursor, parameter.size, unsized);
    if (unsized || parameter.size > 32764)
      cursor.fail("expected a parameter of at most 32764 bytes");
    parameters.push_back(parameter);
    if (!cursor.here().is(')'))
      cursor.expect(',');
  }
  return parameters;
}

void parseRegisters(Cursor &cursor, Scope &scope) {
  llvm::StringRef word = cursor.word();
  auto type = typeNamed(word.drop_front(word.empty() ? 0 : 1));
  if (!type)
    cursor.fail("expected the type of a register, got '" + word + "'");
  unsigned bits = type ? type->width() : 32;
  do {
    std::string name = cursor.word().str();
    if (cursor.eat('<')) {
      scope.ranges[name] = {bits, cursor.count(1 << 24)};
      cursor.expect('>');
    } else {
      scope.registers[name] = {bits, 1};
    }
  } while (cursor.eat(','));
  cursor.expect(';');
}

} // namespace cria::emulator
