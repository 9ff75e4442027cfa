/// Walks over tokens; the first error ends the walk.
#pragma once

#include "tools/emulator/ptx/Lexer.h"

#include "llvm/ADT/Twine.h"

namespace cria::emulator {

/// A place in a token sequence. After `fail` it stays at the end, so that every
/// loop over tokens ends and no caller needs to check for errors in between.
class Cursor {
public:
  explicit Cursor(std::vector<Token> tokens) : tokens(std::move(tokens)) {}

  const Token &here() const { return tokens[at]; }
  /// The token after this one, End at the end.
  const Token &next() const {
    return tokens[std::min(at + 1, tokens.size() - 1)];
  }
  bool atEnd() const { return here().kind == Token::End; }
  int line() const { return here().line; }

  /// Steps over this token and returns it.
  Token take() {
    Token token = here();
    if (!atEnd())
      ++at;
    return token;
  }
  /// Steps over `c` if it stands here.
  bool eat(char c) {
    bool found = here().is(c);
    if (found)
      take();
    return found;
  }
  bool eatWord(llvm::StringRef word) {
    bool found = here().isWord(word);
    if (found)
      take();
    return found;
  }
  /// Steps over `c`, which must stand here.
  void expect(char c);
  /// Steps over a word, which must stand here; empty after an error.
  llvm::StringRef word();
  /// Steps over an integer with its sign.
  int64_t integer();
  /// An integer in [0, limit].
  uint64_t count(uint64_t limit);
  /// Steps past the next `c`.
  void skipPast(char c);
  /// Steps past the last token of this line.
  void skipLine();

  /// Notes the error, unless there was one before, and moves to the end.
  void fail(const llvm::Twine &message);
  bool failed() const { return hasError; }
  const Error &error() const { return firstError; }

private:
  std::vector<Token> tokens;
  size_t at = 0;
  bool hasError = false;
  Error firstError;
};

} // namespace cria::emulator
