#include "runtime/tokenizer/Tokenizer.h"

#include "runtime/File.h"
#include "runtime/tokenizer/Json.h"
#include "runtime/tokenizer/Text.h"

#include <algorithm>

namespace cria {

/// A quarter of a million merges are three quarters of a million values.
static constexpr JsonLimits tokenizerLimits = {256u << 20, 1u << 20, 8'000'000,
                                               64};

Result<Tokenizer> Tokenizer::load(const std::string &path) {
  Result<JsonDocument> document = readJson(path, tokenizerLimits);
  if (!document.ok())
    return document.status();
  return read(document->root(), path);
}

Result<Tokenizer> Tokenizer::parse(std::string_view json,
                                   const std::string &name) {
  Result<JsonDocument> document = parseJson(json, name, tokenizerLimits);
  if (!document.ok())
    return document.status();
  return read(document->root(), name);
}

Result<Tokenizer> Tokenizer::read(const nlohmann::json &document,
                                  const std::string &name) {
  Status status;
  JsonCursor root(document, name, status);
  Tokenizer tokenizer;
  onlyKeys(root,
           {"version", "truncation", "padding", "added_tokens", "normalizer",
            "pre_tokenizer", "post_processor", "decoder", "model"});
  if (auto version = root.find("version");
      version && version->string() != "1.0")
    refuse(*version, "\"1.0\"");
  for (const char *key : {"truncation", "padding"})
    if (auto found = root.find(key))
      refuse(*found, "null");
  if (status.ok())
    tokenizer.model = TokenModel::read(root["model"]);
  if (auto normalizer = root.find("normalizer"))
    Normalizer::read(*normalizer, tokenizer.normalizers);
  if (auto pre = root.find("pre_tokenizer"))
    PreTokenizer::read(*pre, tokenizer.preTokenizers);
  if (auto decoder = root.find("decoder"))
    readDecoder(*decoder, tokenizer.decoder);
  else
    tokenizer.decoder.push_back({DecoderStep::Kind::Join, "", ""});
  auto list = root.find("added_tokens");
  if (status.ok() && list)
    tokenizer.added = AddedTokens::read(*list, tokenizer.model->vocabulary(),
                                        tokenizer.normalizers);
  auto post = root.find("post_processor");
  if (status.ok() && post)
    tokenizer.post = PostProcessor::read(
        *post, [&](int64_t id) { return tokenizer.contains(id); });
  if (!status.ok())
    return status;
  return tokenizer;
}

bool Tokenizer::contains(int64_t id) const {
  return model->vocabulary().token(id) || added.find(id);
}

Status Tokenizer::fits(int64_t vocabSize) const {
  const Vocabulary &vocabulary = model->vocabulary();
  int64_t limit = std::max(vocabulary.idLimit(), added.idLimit());
  if (limit <= vocabSize)
    return Status();
  const AddedToken *token = added.find(limit - 1);
  return Status(
      CRIA_INVALID_ARGUMENT,
      "the tokenizer's token " +
          quote(token ? token->content : *vocabulary.token(limit - 1)) +
          " has id " + std::to_string(limit - 1) +
          ", expected less than the model's vocab_size " +
          std::to_string(vocabSize));
}

/// Passes the words of `piece`, and added tokens in it, to `sink` in order.
Status Tokenizer::cut(Piece piece, Effort &effort, PieceSink sink) const {
  return added.split(piece, false, effort, [&](Piece part) {
    if (part.id >= 0)
      return sink(part);
    std::string normalized(part.text);
    for (const Normalizer &normalizer : normalizers)
      if (Status done = normalizer.apply(normalized, effort); !done.ok())
        return done;
    part.text = normalized;
    return added.split(part, true, effort, [&](Piece word) {
      return word.id >= 0 ? sink(word) : preTokenize(0, word, effort, sink);
    });
  });
}

Status Tokenizer::preTokenize(size_t step, Piece piece, Effort &effort,
                              PieceSink sink) const {
  if (step == preTokenizers.size())
    return sink(piece);
  return preTokenizers[step].apply(piece, effort, [&](Piece part) {
    return preTokenize(step + 1, part, effort, sink);
  });
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               bool special) const {
  if (text.size() > maxTextBytes)
    return Status(CRIA_INVALID_ARGUMENT, "the text has " +
                                             std::to_string(text.size()) +
                                             " bytes, expected at most " +
                                             std::to_string(maxTextBytes));
  if (size_t bad = findInvalidUtf8(text); bad != text.npos)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the text is not UTF-8 at byte " + std::to_string(bad));
  std::vector<int32_t> ids;
  if (special)
    ids = post.before;
  Effort effort(text.size());
  WordCache words(*model, text.size());
  Status status = cut({text, true}, effort, [&](Piece piece) {
    if (piece.id < 0)
      return words.encode(piece.text, ids);
    ids.push_back(piece.id);
    return Status();
  });
  if (!status.ok())
    return status;
  if (special)
    ids.insert(ids.end(), post.after.begin(), post.after.end());
  return ids;
}

std::string Tokenizer::decode(const std::vector<int32_t> &ids,
                              bool special) const {
  TextStream stream(*this, special);
  std::string text;
  for (int32_t id : ids)
    text += stream.push(id);
  return text + stream.finish();
}

std::string TextStream::push(int64_t id) {
  if (const AddedToken *token = tokenizer->added.find(id))
    return token->special && !special ? "" : state.push(token->pattern);
  const std::string *token = tokenizer->model->vocabulary().token(id);
  return token ? state.push(*token) : "";
}

} // namespace cria
