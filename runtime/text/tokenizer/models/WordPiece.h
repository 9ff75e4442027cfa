/// The WordPiece model: takes the longest token, again and again.
#pragma once

#include "runtime/text/tokenizer/models/Model.h"

#include <string>

namespace cria {

/// All tokens of a word except the first begin with a prefix, "##". A word is
/// unknown as a whole if a part of it has no token or if it has too many
/// characters.
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
