/// PTX text to tokens.
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include <optional>
#include <vector>

namespace cria::emulator {

/// A word (`%r1`, `.b32`, `ld.global::x`, `0x1F`), a string without its
/// quotes, one character of punctuation, or the end of the text.
struct Token {
  enum Kind { Word, String, Punctuation, End };

  Kind kind;
  llvm::StringRef text; ///< a part of the lexed text
  int line;

  bool is(char c) const { return kind == Punctuation && text[0] == c; }
  bool isWord(llvm::StringRef word) const {
    return kind == Word && text == word;
  }
  bool startsWithDigit() const {
    return kind == Word && text[0] >= '0' && text[0] <= '9';
  }
};

/// The tokens of `text`, an End token last.
std::vector<Token> lex(llvm::StringRef text);

/// An integer or a float as PTX writes it: 12, 0x1FU, 0b101, 0f3F800000,
/// 0d..., 1.5. None if `text` is no number or does not fit 64 bits.
std::optional<Operand> numberOf(llvm::StringRef text);

} // namespace cria::emulator
