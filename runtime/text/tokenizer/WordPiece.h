/// The WordPiece model: the longest token, again and again.
#pragma once

#include "runtime/text/tokenizer/Model.h"

#include <string>

namespace cria {

/// Tokens but the first of a word begin with a prefix, "##". A word of which
/// some part has no token, or with too many characters, is unknown as a whole.
class WordPieceModel : public TokenModel {
public:
  /// See TokenModel::read.
  static std::unique_ptr<const TokenModel> read(const JsonCursor &model);

  Status encode(std::string_view word, std::vector<int32_t> &ids,
                Effort &effort) const override;

private:
  int32_t longest(std::string_view word, size_t &at, size_t &read) const;

  std::string prefix;
  Vocabulary::Place inWord = Vocabulary::start; // after the prefix
  int64_t maxCharacters = 100;
  int32_t unknownId = -1;
};

} // namespace cria
