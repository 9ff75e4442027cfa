/// The model of a tokenizer: a word to the ids of its tokens.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Effort.h"
#include "runtime/text/tokenizer/models/Vocabulary.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace cria {

/// One kind of model; immutable, so that threads may share it.
class TokenModel {
public:
  virtual ~TokenModel() = default;

  /// Reads the member "model" of a tokenizer.json; nullptr on an error, which
  /// is noted at the cursor. Refuses members that it would have to ignore.
  static std::unique_ptr<const TokenModel> read(const JsonCursor &model);

  /// Appends the ids of `word`, which is valid UTF-8.
  virtual Status encode(std::string_view word, std::vector<int32_t> &ids,
                        Effort &effort) const = 0;

  const Vocabulary &vocabulary() const { return tokens; }

protected:
  /// The error of a word that takes more than the effort allows.
  static Status tooLong() { return Effort::tooLong("encoding a word"); }

  Vocabulary tokens;
};

/// The ids of "<0x00>" to "<0xFF>", by which models with byte fallback spell
/// characters that they do not have.
class ByteTokens {
public:
  /// Looks them up; those that are missing spell nothing.
  void read(const Vocabulary &vocabulary);
  /// Appends the ids of all bytes of `text`; false, and appends nothing, if one
  /// is missing.
  bool spell(std::string_view text, std::vector<int32_t> &ids) const;

private:
  std::vector<int32_t> ids; // 256, -1 where missing; or none
};

/// Short words seen before in a text, with their ids. Each place holds one
/// word; another word of the same place replaces it. So a word costs the same
/// whatever the text.
class WordCache {
public:
  /// For a text of `bytes` bytes.
  WordCache(const TokenModel &model, size_t bytes);

  /// Appends the ids of `word`, as the model does.
  Status encode(std::string_view word, std::vector<int32_t> &ids,
                Effort &effort);

private:
  static constexpr size_t maxBytes = 32, maxIds = 6;
  struct Entry {
    char word[maxBytes];
    int32_t ids[maxIds];
    uint8_t bytes = 0, count = 0;
  };

  const TokenModel &model;
  std::vector<Entry> entries; // a power of two, or none
};

} // namespace cria
