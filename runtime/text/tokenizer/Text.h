/// UTF-8 for the tokenizer, and the visible characters by which byte-level BPE
/// spells bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cria {

/// The longest text that is encoded at once, also after it is normalized.
constexpr size_t maxTextBytes = 64u << 20;

/// The offset of the first byte of `text` that is not UTF-8, or npos. Strict:
/// no overlong forms, no surrogates, nothing above U+10FFFF.
size_t findInvalidUtf8(std::string_view text);

/// The place of `what` in `text` at or after `from`, or npos. Takes linear
/// time; std::string_view::find takes the product of the lengths.
size_t findText(std::string_view text, std::string_view what, size_t from = 0);

/// The bytes of the character that begins at `at` in valid UTF-8.
size_t characterLength(std::string_view text, size_t at);

/// Moves the whole characters in `pending` to the result. Puts U+FFFD for each
/// longest sequence that cannot become a character (as the Unicode standard
/// recommends and Rust's from_utf8_lossy does). The beginning of a character
/// stays in `pending` unless `last`.
std::string takeUtf8(std::string &pending, bool last);

/// How byte-level BPE spells `byte`: as itself if that is printable, else as
/// one of the characters from U+0100 on.
std::string_view byteSpelling(uint8_t byte);

/// `text` with every byte spelled this way.
std::string spellBytes(std::string_view text);

/// The bytes that `token` spells; `token` itself if one of its characters
/// spells no byte.
std::string unspellBytes(std::string_view token);

} // namespace cria
