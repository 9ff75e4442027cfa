/// Added tokens: those found in the text before the model sees it.
#pragma once

#include "runtime/Json.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/Vocabulary.h"

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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
  bool special = false;    // not part of decoded text
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
                          const std::vector<Normalizer> &normalizers);

  /// Cuts the added tokens out of `piece`: those to be found in normalized
  /// text, or the others. Of those that begin at a place, the longest counts.
  Status split(Piece piece, bool normalized, Effort &effort,
               PieceSink sink) const;

  /// The token with this id, or nullptr.
  const AddedToken *find(int64_t id) const;

  /// One more than the largest id; 0 where there is none.
  int64_t idLimit() const { return limit; }

private:
  /// Tokens by pattern.
  struct Set {
    Vocabulary patterns;
    std::bitset<256> first; // bytes that patterns begin with

    /// The id of the longest pattern at `at`, which moves behind it; or -1.
    int32_t longest(std::string_view text, size_t &at) const;
  };

  void add(AddedToken token, const JsonCursor &place,
           const Vocabulary &vocabulary);
  Set index(bool normalized, const JsonCursor &list) const;
  bool standsAlone(std::string_view text, size_t begin, size_t end,
                   Effort &effort) const;

  std::map<int32_t, AddedToken> tokens; // addresses stay when it is moved
  std::set<std::string> contents;
  Set plain, inNormalized;
  std::optional<Regex> word; // a character of a word
  int64_t next = 0; // the id that Hugging Face gives the next new token
  int64_t limit = 0;
};

} // namespace cria
