/// The Unigram model: the most probable way to cut a word into tokens.
#pragma once

#include "runtime/text/tokenizer/models/Model.h"

namespace cria {

/// As sentencepiece's, with tokenizers' treatment of unknown characters: a run
/// of them is one unknown token.
class UnigramModel : public TokenModel {
public:
  /// See TokenModel::read.
  static std::unique_ptr<const TokenModel> read(const JsonCursor &model);

  Status encode(std::string_view word, std::vector<int32_t> &ids,
                Effort &effort) const override;

private:
  struct Best; // the best way to a place of a word

  void readScores(const JsonCursor &list);
  Status extend(std::string_view word, size_t at, std::vector<Best> &best,
                Effort &effort) const;

  std::vector<double> scores; // by id
  double unknownScore = 0;
  int32_t unknownId = -1;
  ByteTokens bytes;
};

} // namespace cria
