/// Added tokens: those found in the text before the model sees it.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Normalizer.h"
#include "runtime/text/tokenizer/PreTokenizer.h"
#include "runtime/text/tokenizer/models/Vocabulary.h"

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
  std::string own;     // for each byte of the pattern, whether the content has
                       // it, or a normalizer adds it; "": it has all
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
  };

  /// Cuts added tokens out of `piece`. If several begin at a place, the longest
  /// counts. A special token that the template has not written stays text.
  Status split(Piece piece, Wanted wanted, Effort &effort,
               PieceSink sink) const;

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
  };

  /// What stands at a place of a text.
  struct Found {
    const AddedToken *token; // or nullptr
    size_t end;              // where the search goes on
  };

  void add(AddedToken token, const JsonCursor &place,
           const Vocabulary &vocabulary);
  void index(const JsonCursor &list);
  Found findAt(const Set &set, const Piece &piece, size_t at,
               uint64_t &work) const;
  bool standsAlone(std::string_view text, size_t begin, size_t end,
                   Effort &effort) const;

  std::vector<AddedToken> tokens;           // as the file lists them
  std::unordered_map<int32_t, size_t> byId; // index into `tokens`
  std::unordered_set<std::string> contents;
  Set plain, inNormalized;
  std::optional<Regex> word; // a character of a word
  int64_t next = 0; // the id that Hugging Face gives the next new token
  int64_t limit = 0;
};

} // namespace cria
