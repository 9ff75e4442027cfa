/// Text to token ids and back, as the library tokenizers does by a
/// tokenizer.json. A component, member or value that would change the ids and
/// is not supported is refused by name.
///
/// The steps of a text are: find added tokens in the raw text; normalize the
/// text between them; find added tokens in the normalized text; cut the rest
/// into words by pre-tokenizers; encode words by the model, which is BPE,
/// Unigram or WordPiece; add the post-processor's special tokens. A word passes
/// all steps before the next word is cut.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/AddedTokens.h"
#include "runtime/text/tokenizer/Decoder.h"
#include "runtime/text/tokenizer/Normalizer.h"
#include "runtime/text/tokenizer/Origin.h"
#include "runtime/text/tokenizer/PostProcessor.h"
#include "runtime/text/tokenizer/PreTokenizer.h"
#include "runtime/text/tokenizer/models/Model.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// A loaded tokenizer; immutable, so that threads may share it.
class Tokenizer {
public:
  /// Reads the tokenizer.json at `path`, of at most 256 MiB, or the tokenizer
  /// of a GGUF file; without one, CRIA_NOT_FOUND.
  static Result<Tokenizer> load(const std::string &path);
  /// Reads one from memory; `name` stands for the file in errors.
  static Result<Tokenizer> parse(std::string_view json,
                                 const std::string &name);

  /// Whether every id is below `vocabSize`, the rows of the model's embedding.
  Status fits(int64_t vocabSize) const;

  /// The ids of `text`; with `special` also those that the post-processor adds.
  /// With `parseSpecial`, special tokens such as "<s>" are found in the text;
  /// without it they stay text. Text that is not UTF-8, or that takes too much
  /// effort, is CRIA_INVALID_ARGUMENT.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      bool special = true,
                                      bool parseSpecial = true) const;

  /// The ids of a conversation; nothing is added. No special token has a Given
  /// byte, and none begins with a Name's byte. What normalizers add to a token,
  /// such as the mark of Prepend, may stand for anybody's bytes. `origins` has
  /// the Origin of each byte of `text`; "" if the template wrote all.
  Result<std::vector<int32_t>> encodeBy(std::string_view text,
                                        std::string_view origins) const;

  /// The text of `ids`, valid UTF-8, without special tokens unless `special`.
  /// Ids without a token, as padded vocabularies have, are skipped. A decoder
  /// that makes too much of the tokens is CRIA_INVALID_ARGUMENT.
  Result<std::string> decode(const std::vector<int32_t> &ids,
                             bool special = false) const;

  /// The bytes that `id` adds to a text that has begun: of a special token,
  /// too, and maybe a part of a character. Empty if the id has no token.
  Result<std::string> bytes(int64_t id) const;

  /// Whether `id` is a token that controls the model and is no text.
  bool isSpecial(int64_t id) const;

  /// Whether `id` has a token.
  bool contains(int64_t id) const { return token(id) != nullptr; }

  /// The token `id` as the tokenizer.json spells it; null if it has none.
  const std::string *token(int64_t id) const;
  /// The id of the token with this spelling, an added one or the model's.
  std::optional<int32_t> find(std::string_view token) const;
  /// One more than the largest id.
  int64_t idLimit() const;

private:
  friend class TextStream;

  Tokenizer() = default;
  static Result<Tokenizer> read(const nlohmann::json &document,
                                const std::string &name);
  Status encodeText(std::string_view text, std::string_view origins,
                    bool parseSpecial, std::vector<int32_t> &ids) const;
  Status cut(Piece piece, bool parseSpecial, Effort &effort,
             PieceSink sink) const;
  Status preTokenize(size_t step, Piece piece, Effort &effort,
                     PieceSink sink) const;

  std::shared_ptr<const TokenModel> model;
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizer> preTokenizers;
  std::vector<DecoderStep> decoder;
  AddedTokens added;
  PostProcessor post;
};

} // namespace cria
