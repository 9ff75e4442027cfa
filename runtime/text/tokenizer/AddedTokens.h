/// Added tokens: those found in the text before the model sees it.
#pragma once

#include "runtime/Json.h"
#include "runtime/text/tokenizer/Normalizer.h"
#include "runtime/text/tokenizer/PreTokenizer.h"
#include "runtime/text/tokenizer/Vocabulary.h"

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cria {

/// One of the member "added_tokens".
struct AddedToken {
  int32_t id;
  std::string content;
  std::string pattern; // what is searched for: the content, maybe normalized
  bool singleWord = false; // not within a word
  bool stripLeft = false;  // takes the white space before it
  bool stripRight = false; // and after it
  bool normalized = false; // searched for in the normalized text
  bool special = false;    // controls the model; left out of decoded text
};

/// All added tokens of a tokenizer.
class AddedTokens {
public:
  AddedTokens() = default;
  AddedTokens(AddedTokens &&) = default;
  AddedTokens &operator=(AddedTokens &&) = default;

  /// Reads the member "added_tokens". An id that Hugging Face would not give
  /// the token is refused.
  static AddedTokens read(const JsonCursor &list, const Vocabulary &vocabulary,
                          const std::vector<Normalizer> &normalizers,
                          Effort &effort);

  /// Which added tokens `split` cuts out.
  struct Wanted {
    bool normalized; // tokens that are found in normalized text, or the others
    bool special;    // special tokens, too; else they stay text
    /// Not empty: special tokens right after this text stay text.
    std::string_view guard;
  };

  /// Cuts added tokens out of `piece`. If several begin at a place, the longest
  /// counts.
  Status split(Piece piece, Wanted wanted, Effort &effort,
               PieceSink sink) const;

  /// `text` with `guard` before each special token in it, and before one that
  /// may begin at its end: see Wanted.
  Result<std::string> guardSpecial(std::string_view text,
                                   std::string_view guard,
                                   Effort &effort) const;
  /// Whether special tokens exist that are found in normalized text.
  bool hasNormalizedSpecial() const { return specialPatterns.first.any(); }
  /// Whether such a token is in `text`, or may begin at its end.
  Result<bool> holdsNormalizedSpecial(std::string_view text,
                                      Effort &effort) const;
  /// Whether a special token may begin in `text` and continue after it: a token
  /// as it is written, or with `normalized` one that is found in normalized
  /// text.
  Result<bool> opensSpecial(std::string_view text, bool normalized,
                            Effort &effort) const;

  /// The token with this id, or nullptr.
  const AddedToken *find(int64_t id) const;
  /// The id of the token whose content is `text`, if there is one.
  std::optional<int32_t> find(std::string_view text) const;

  /// One more than the largest id; 0 where there is none.
  int64_t idLimit() const { return limit; }

private:
  /// Tokens by pattern.
  struct Set {
    Vocabulary patterns;
    std::bitset<256> first; // bytes that patterns begin with

    /// The id of the longest pattern at `at`, which moves past it; or -1.
    /// Adds the number of bytes compared to `read`.
    int32_t longest(std::string_view text, size_t &at, size_t &read) const;
    /// Whether a pattern stands at `at`, or continues beyond the end of `text`.
    bool begins(std::string_view text, size_t at, size_t &read) const;
    /// Whether a pattern that stands at `at` continues beyond the end of
    /// `text`.
    bool opens(std::string_view text, size_t at, size_t &read) const;
  };

  void add(AddedToken token, const JsonCursor &place,
           const Vocabulary &vocabulary);
  void index(const JsonCursor &list);
  bool standsAlone(std::string_view text, size_t begin, size_t end,
                   Effort &effort) const;

  std::vector<AddedToken> tokens;           // as the file lists them
  std::unordered_map<int32_t, size_t> byId; // index into `tokens`
  std::unordered_set<std::string> contents;
  Set plain, inNormalized;
  Set specialContents;       // special tokens as they are written
  Set specialPatterns;       // those to be found in normalized text
  std::optional<Regex> word; // a character of a word
  int64_t next = 0; // the id that Hugging Face gives the next new token
  int64_t limit = 0;
};

} // namespace cria
