/// Properties of characters, and normal forms, by utf8proc. Text is valid
/// UTF-8.
#pragma once

#include "runtime/base/FunctionRef.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace cria {

/// The character at `at`. Moves `at` past it.
char32_t takeCharacter(std::string_view text, size_t &at);
/// Appends `character` as UTF-8.
void appendCharacter(std::string &text, char32_t character);

bool isWhiteSpace(char32_t character);
/// L.
bool isLetter(char32_t character);
/// Decimal digits, letters that are numbers, and other numbers: N.
bool isNumeric(char32_t character);
/// P, and the ASCII characters between letters and digits: '$' and '`', too.
bool isPunctuation(char32_t character);
/// Mn, Mc, Me.
bool isMark(char32_t character);
/// Mn.
bool isNonspacingMark(char32_t character);
/// Controls, format characters, those of private use: Cc, Cf, Co.
bool isOther(char32_t character);
/// Whether a user sees a new character begin between the two; `state` is 0 at
/// the first pair of a text and goes from pair to pair.
bool breaksGrapheme(char32_t left, char32_t right, int &state);

/// Cuts `text` into runs. Each is normalized by itself. Normal forms
/// change no run without `changes`.
void forEachRun(std::string_view text,
                FunctionRef<void(size_t begin, size_t end, bool changes)> sink);

/// The four normal forms of Unicode.
enum class NormalForm { NFC, NFD, NFKC, NFKD };

/// `text` in `form`. O(n log n) whatever the text.
std::string normalize(std::string_view text, NormalForm form);

/// The one character that `character` becomes in upper or lower case.
char32_t toUpper(char32_t character);
char32_t toLower(char32_t character);

/// `text` with each character in lower case by itself: no final sigma.
std::string lowercase(std::string_view text);

} // namespace cria
