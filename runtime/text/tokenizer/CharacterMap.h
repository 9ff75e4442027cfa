/// The compiled character maps of sentencepiece: the normalizer "Precompiled".
#pragma once

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/TracedText.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// Replaces characters, and short sequences that a user sees as one.
class CharacterMap {
public:
  /// Reads the base64 text of a map.
  static CharacterMap read(const JsonCursor &base64);

  /// Replaces in `text`. False, with only a part replaced, if the result grows
  /// beyond `limit` bytes.
  bool apply(TracedText &text, size_t limit) const;

private:
  std::optional<std::string_view> find(std::string_view key) const;
  void writeGrapheme(std::string_view text, size_t begin, size_t end,
                     Rewriting &writing) const;

  std::vector<uint32_t> units; // a double-array trie
  std::string texts;           // each ends with a zero byte
};

} // namespace cria
