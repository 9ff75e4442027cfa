#include "tools/emulator/ptx/Body.h"

#include "tools/emulator/ptx/Declarations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace cria::emulator {
namespace {

constexpr int kMaxNesting = 8;

Operand parseNested(Cursor &cursor, int depth);

void parseList(Cursor &cursor, std::vector<Operand> &list, char close,
               int depth) {
  while (!cursor.eat(close) && !cursor.atEnd()) {
    list.push_back(parseNested(cursor, depth + 1));
    if (!cursor.here().is(close))
      cursor.expect(',');
  }
}

int64_t parseOffsets(Cursor &cursor) {
  uint64_t offset = 0;
  while (cursor.here().is('+') || cursor.here().is('-'))
    offset += uint64_t(cursor.integer());
  return int64_t(offset);
}

/// `[name + offset, more]` after the bracket.
Operand parseAddress(Cursor &cursor, int depth) {
  Operand operand;
  operand.kind = Operand::Address;
  if (cursor.here().startsWithDigit() || cursor.here().is('-'))
    operand.value = cursor.integer();
  else
    operand.name = cursor.word().str();
  operand.value += parseOffsets(cursor);
  if (cursor.eat(','))
    parseList(cursor, operand.parts, ']', depth);
  else
    cursor.expect(']');
  return operand;
}

Operand parseNegative(Cursor &cursor, int depth) {
  Operand operand = parseNested(cursor, depth + 1);
  if (operand.kind == Operand::Integer)
    operand.value = int64_t(-uint64_t(operand.value));
  else if (operand.kind == Operand::Float32)
    operand.value ^= 0x80000000;
  else if (operand.kind == Operand::Float64)
    operand.value ^= INT64_MIN;
  else
    cursor.fail("expected a number after '-'");
  return operand;
}

/// `name`, `name + 4`, `d|p`, `_` or a number.
Operand parseWord(Cursor &cursor, int depth) {
  Operand operand;
  if (cursor.here().startsWithDigit()) {
    auto number = numberOf(cursor.here().text);
    if (!number)
      cursor.fail("bad number '" + cursor.here().text + "'");
    cursor.take();
    return number.value_or(operand);
  }
  operand.name = cursor.word().str();
  if (operand.name == "_")
    operand.kind = Operand::Sink;
  if (cursor.here().is('+') && cursor.next().startsWithDigit())
    operand.value = cursor.integer();
  if (cursor.eat('|')) {
    operand.paired = true;
    operand.parts.push_back(parseNested(cursor, depth + 1));
  }
  return operand;
}

Operand parseNested(Cursor &cursor, int depth) {
  Operand operand;
  if (depth > kMaxNesting) {
    cursor.fail("operands are nested too deeply");
    return operand;
  }
  if (cursor.here().is('{') || cursor.here().is('(')) {
    operand.kind = Operand::Vector;
    char close = cursor.take().text == "{" ? '}' : ')';
    parseList(cursor, operand.parts, close, depth);
    return operand;
  }
  if (cursor.eat('['))
    return parseAddress(cursor, depth);
  if (cursor.eat('-'))
    return parseNegative(cursor, depth);
  if (cursor.eat('!')) {
    operand = parseNested(cursor, depth + 1);
    operand.negated = !operand.negated;
    return operand;
  }
  return parseWord(cursor, depth);
}

class BodyParser {
public:
  BodyParser(Cursor &cursor, Function &function)
      : cursor(cursor), function(function) {}

  void parse() {
    cursor.expect('{');
    open();
    while (!scopes.empty() && !cursor.atEnd())
      statement();
    if (!cursor.failed() && !scopes.empty())
      cursor.fail("expected '}', got the end of the text");
    if (!labels.empty())
      returnAtEnd();
  }

private:
  void open() {
    function.scopes.emplace_back();
    function.scopes.back().parent = scopes.empty() ? -1 : scopes.back();
    scopes.push_back(int(function.scopes.size()) - 1);
  }

  Scope &scope() { return function.scopes[scopes.back()]; }

  void statement() {
    if (cursor.eat('{'))
      open();
    else if (cursor.eat('}'))
      scopes.pop_back();
    else if (cursor.eat(';'))
      return;
    else if (cursor.here().kind == Token::Word && cursor.next().is(':'))
      label();
    else if (cursor.here().text.starts_with("."))
      directive();
    else
      instruction();
  }

  void label() {
    std::string name = cursor.word().str();
    cursor.expect(':');
    if (cursor.eatWord(".branchtargets") || cursor.eatWord(".calltargets")) {
      std::vector<std::string> &targets = scope().targets[name];
      do
        targets.push_back(cursor.word().str());
      while (cursor.eat(','));
      cursor.expect(';');
    } else if (cursor.eatWord(".callprototype")) {
      prototype(scope().prototypes[name]);
    } else {
      if (!scope().labels.emplace(name, function.labelCount).second)
        cursor.fail("label '" + name + "' is defined twice");
      labels.push_back(function.labelCount++);
    }
  }

  // (results) _ (parameters), each of them optional, and attributes.
  void prototype(Prototype &made) {
    if (cursor.here().is('('))
      made.results = parseParameters(cursor);
    cursor.word();
    if (cursor.here().is('('))
      made.parameters = parseParameters(cursor);
    cursor.skipPast(';');
  }

  void directive() {
    llvm::StringRef name = cursor.here().text;
    if (name == ".loc")
      return sourceLocation();
    if (name == ".file")
      return cursor.skipLine();
    cursor.take();
    llvm::StringRef space = name.drop_front();
    if (name == ".reg") {
      parseRegisters(cursor, scope());
    } else if (name == ".pragma") {
      cursor.skipPast(';');
    } else if (space == "shared" || space == "local" || space == "param") {
      Variable variable = parseVariable(cursor, space);
      if (!variable.isKnown)
        return refuse(name);
      if (!scope()
               .variables.emplace(variable.name, function.variables.size())
               .second)
        cursor.fail("variable '" + variable.name + "' is defined twice");
      function.variables.push_back(std::move(variable));
      cursor.expect(';');
    } else {
      refuse(name);
    }
  }

  // An unknown directive may change what the function does; the rest of the
  // module does not depend on it.
  void refuse(llvm::StringRef directive) {
    if (!function.refusal)
      function.refusal =
          Error{cursor.line(), ("unknown directive '" + directive + "'").str()};
    cursor.skipPast(';');
  }

  // .loc file line column[, function_name label, inlined_at file line column]
  void sourceLocation() {
    int line = cursor.line();
    cursor.take();
    location = Location();
    location.file = int(cursor.count(INT32_MAX));
    location.line = int(cursor.count(INT32_MAX));
    while (!cursor.atEnd() && cursor.line() == line)
      if (cursor.take().text == "inlined_at") {
        location.inlinedFile = int(cursor.count(INT32_MAX));
        location.inlinedLine = int(cursor.count(INT32_MAX));
      }
  }

  Instruction start() {
    Instruction result;
    result.line = cursor.line();
    result.scope = scopes.empty() ? 0 : scopes.back();
    result.location = location;
    result.labels.swap(labels);
    return result;
  }

  void instruction() {
    Instruction result = start();
    if (cursor.eat('@')) {
      result.predicateNegated = cursor.eat('!');
      result.predicate = cursor.word().str();
    }
    result.text = cursor.word().str();
    llvm::SmallVector<llvm::StringRef> words;
    llvm::StringRef(result.text).split(words, '.');
    result.opcode = words[0].str();
    for (llvm::StringRef word : llvm::drop_begin(words))
      result.modifiers.push_back(word.str());
    if (!cursor.here().is(';')) {
      do
        result.operands.push_back(parseOperand(cursor));
      while (cursor.eat(','));
    }
    cursor.expect(';');
    function.body.push_back(std::move(result));
  }

  // A label may stand before the closing brace.
  void returnAtEnd() {
    Instruction result = start();
    result.text = result.opcode = "ret";
    function.body.push_back(std::move(result));
  }

  Cursor &cursor;
  Function &function;
  std::vector<int> scopes; // the open ones, innermost last
  std::vector<int> labels; // seen since the last instruction
  Location location;
};

} // namespace

Operand parseOperand(Cursor &cursor) { return parseNested(cursor, 0); }

void parseBody(Cursor &cursor, Function &function) {
  BodyParser(cursor, function).parse();
}

} // namespace cria::emulator
