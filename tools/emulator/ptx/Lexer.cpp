#include "tools/emulator/ptx/Lexer.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"

namespace cria::emulator {
namespace {

bool isWordCharacter(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$' || c == '%';
}

class Lexer {
public:
  explicit Lexer(llvm::StringRef text) : text(text) {}

  std::vector<Token> run() {
    while (at < text.size())
      next();
    tokens.push_back({Token::End, "end of the text", line});
    return std::move(tokens);
  }

private:
  char peek(size_t ahead = 0) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
  }

  void next() {
    if (peek() == '\n') {
      ++line;
      ++at;
    } else if (llvm::isSpace(peek())) {
      ++at;
    } else if (peek() == '/' && peek(1) == '/') {
      at = std::min(text.find('\n', at), text.size());
    } else if (peek() == '/' && peek(1) == '*') {
      skipTo("*/", 2);
    } else if (peek() == '"') {
      string();
    } else if (isWordCharacter(peek())) {
      word();
    } else {
      tokens.push_back({Token::Punctuation, text.substr(at++, 1), line});
    }
  }

  void skipTo(llvm::StringRef end, size_t from) {
    size_t found = text.find(end, at + from);
    size_t stop = found == llvm::StringRef::npos ? text.size() : found + 2;
    line += int(text.slice(at, stop).count('\n'));
    at = stop;
  }

  void string() {
    size_t end = std::min(text.find('"', at + 1), text.size());
    tokens.push_back({Token::String, text.slice(at + 1, end), line});
    line += int(text.slice(at, end).count('\n'));
    at = std::min(end + 1, text.size());
  }

  // `::` inside a word belongs to it (shared::cta); one colon ends a label.
  // A word that begins with a dot ends before the next one: `.reg.b32` is
  // `.reg .b32`.
  void word() {
    size_t begin = at;
    bool isDotted = peek() == '.';
    while (isWordCharacter(peek()) ||
           (peek() == ':' && peek(1) == ':' && isWordCharacter(peek(2)))) {
      if (isDotted && at > begin && peek() == '.')
        break;
      at += peek() == ':' ? 2 : 1;
    }
    tokens.push_back({Token::Word, text.slice(begin, at), line});
  }

  llvm::StringRef text;
  size_t at = 0;
  int line = 1;
  std::vector<Token> tokens;
};

std::optional<Operand> floatOf(llvm::StringRef text) {
  llvm::APFloat parsed(llvm::APFloat::IEEEdouble());
  auto status =
      parsed.convertFromString(text, llvm::APFloat::rmNearestTiesToEven);
  if (!status) {
    llvm::consumeError(status.takeError());
    return std::nullopt;
  }
  Operand operand;
  operand.kind = Operand::Float64;
  operand.value = int64_t(parsed.bitcastToAPInt().getZExtValue());
  return operand;
}

std::optional<Operand> bitsOf(llvm::StringRef digits, Operand::Kind kind,
                              size_t length) {
  Operand operand;
  operand.kind = kind;
  uint64_t bits;
  if (digits.size() != length || digits.getAsInteger(16, bits))
    return std::nullopt;
  operand.value = int64_t(bits);
  return operand;
}

} // namespace

std::vector<Token> lex(llvm::StringRef text) { return Lexer(text).run(); }

std::optional<Operand> numberOf(llvm::StringRef text) {
  llvm::StringRef prefix = text.take_front(2);
  if (prefix.equals_insensitive("0f"))
    return bitsOf(text.drop_front(2), Operand::Float32, 8);
  if (prefix.equals_insensitive("0d"))
    return bitsOf(text.drop_front(2), Operand::Float64, 16);
  if (text.contains('.'))
    return floatOf(text);
  while (text.ends_with("U") || text.ends_with("u"))
    text = text.drop_back();
  Operand operand;
  operand.kind = Operand::Integer;
  uint64_t value;
  if (text.getAsInteger(0, value))
    return std::nullopt;
  operand.value = int64_t(value);
  return operand;
}

} // namespace cria::emulator
