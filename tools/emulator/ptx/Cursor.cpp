#include "tools/emulator/ptx/Cursor.h"

namespace cria::emulator {

void Cursor::expect(char c) {
  if (!eat(c))
    fail("expected '" + llvm::Twine(c) + "', got '" + here().text + "'");
}

llvm::StringRef Cursor::word() {
  if (here().kind != Token::Word) {
    fail("expected a word, got '" + here().text + "'");
    return "";
  }
  return take().text;
}

int64_t Cursor::integer() {
  bool negative = false;
  while (here().is('-') || here().is('+'))
    negative ^= take().text == "-";
  std::optional<Operand> number = numberOf(here().text);
  if (here().kind != Token::Word || !number ||
      number->kind != Operand::Integer) {
    fail("expected an integer, got '" + here().text + "'");
    return 0;
  }
  take();
  return negative ? -uint64_t(number->value) : number->value;
}

uint64_t Cursor::count(uint64_t limit) {
  llvm::StringRef text = here().text;
  uint64_t value = uint64_t(integer());
  if (value <= limit)
    return value;
  fail("expected at most " + llvm::Twine(limit) + ", got '" + text + "'");
  return 0;
}

void Cursor::skipPast(char c) {
  while (!atEnd() && !here().is(c))
    take();
  expect(c);
}

void Cursor::skipLine() {
  int current = line();
  while (!atEnd() && line() == current)
    take();
}

void Cursor::fail(const llvm::Twine &message) {
  if (!hasError)
    firstError = {line(), message.str()};
  hasError = true;
  at = tokens.size() - 1;
}

} // namespace cria::emulator
