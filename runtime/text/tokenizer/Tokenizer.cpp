#include "runtime/text/tokenizer/Tokenizer.h"

#include "runtime/base/files/File.h"
#include "runtime/gguf/Files.h"
#include "runtime/text/gguf/Text.h"
#include "runtime/text/tokenizer/ComponentCount.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/TextStream.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace cria {

/// 250,000 merges are 750,000 JSON values.
static constexpr JsonLimits tokenizerLimits = {256u << 20, 1u << 20, 8'000'000,
                                               64, maxTokenizerMemory};

Result<Tokenizer> Tokenizer::load(const std::string &path) {
  if (gguf::isGguf(path)) {
    Result<nlohmann::json> made = gguf::readTokenizer(path);
    if (!made.ok())
      return made.status();
    return read(JsonDocument(std::move(*made)).root(), path);
  }
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
  // AutoTokenizer never applies the file's "truncation" and "padding".
  onlyKeys(root,
           {"version", "truncation", "padding", "added_tokens", "normalizer",
            "pre_tokenizer", "post_processor", "decoder", "model"});
  if (auto version = root.find("version");
      version && version->string() != "1.0")
    refuse(*version, "\"1.0\"");
  if (status.ok())
    tokenizer.model = TokenModel::read(root["model"]);
  ComponentCount normalizers, preTokenizers, decoders, processors;
  if (auto normalizer = root.find("normalizer"))
    Normalizer::read(*normalizer, normalizers, tokenizer.normalizers);
  if (auto pre = root.find("pre_tokenizer"))
    PreTokenizer::read(*pre, preTokenizers, tokenizer.preTokenizers);
  if (auto decoder = root.find("decoder"))
    readDecoder(*decoder, decoders, tokenizer.decoder);
  else
    tokenizer.decoder.push_back({DecoderStep::Kind::Join, "", ""});
  auto list = root.find("added_tokens");
  if (status.ok() && list) {
    Effort effort = Effort::ofFile(list->raw().size());
    tokenizer.added = AddedTokens::read(*list, tokenizer.model->vocabulary(),
                                        tokenizer.normalizers, effort);
  }
  auto post = root.find("post_processor");
  if (status.ok() && post)
    tokenizer.post = PostProcessor::read(
        *post, processors, [&](int64_t id) { return tokenizer.contains(id); });
  if (!status.ok())
    return status;
  return tokenizer;
}

const std::string *Tokenizer::token(int64_t id) const {
  const AddedToken *token = added.find(id);
  return token ? &token->content : model->vocabulary().token(id);
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  if (auto id = added.find(token))
    return id;
  return model->vocabulary().find(token);
}

int64_t Tokenizer::idLimit() const {
  return std::max(model->vocabulary().idLimit(), added.idLimit());
}

Status Tokenizer::fits(int64_t vocabSize) const {
  int64_t limit = idLimit();
  if (limit <= vocabSize)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                "the tokenizer's token " + quote(*token(limit - 1)) +
                    " has id " + std::to_string(limit - 1) +
                    ", expected less than the model's vocab_size " +
                    std::to_string(vocabSize));
}

/// Passes the words of `piece`, and added tokens in it, to `sink` in order.
Status Tokenizer::cut(Piece piece, bool parseSpecial, Effort &effort,
                      PieceSink sink) const {
  return added.split(piece, {false, parseSpecial}, effort, [&](Piece part) {
    if (part.id >= 0)
      return sink(part);
    TracedText normalized = {std::string(part.text), std::string(part.origins)};
    for (const Normalizer &normalizer : normalizers)
      if (Status done = normalizer.apply(normalized, effort); !done.ok())
        return done;
    part.text = normalized.bytes;
    part.origins = normalized.origins;
    return added.split(part, {true, parseSpecial}, effort, [&](Piece word) {
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

Status Tokenizer::encodeText(std::string_view text, std::string_view origins,
                             bool parseSpecial,
                             std::vector<int32_t> &ids) const {
  if (text.size() > maxTextBytes)
    return Status(CRIA_INVALID_ARGUMENT, "the text has " +
                                             std::to_string(text.size()) +
                                             " bytes, expected at most " +
                                             std::to_string(maxTextBytes));
  if (size_t bad = findInvalidUtf8(text); bad != text.npos)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the text is not UTF-8 at byte " + std::to_string(bad));
  Effort effort = Effort::ofText(text.size());
  WordCache words(*model, text.size());
  Piece whole = {text, true, -1, origins};
  return cut(whole, parseSpecial, effort, [&](Piece piece) {
    if (piece.id < 0)
      return words.encode(piece.text, ids, effort);
    ids.push_back(piece.id);
    return Status();
  });
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               bool special,
                                               bool parseSpecial) const {
  std::vector<int32_t> ids;
  if (special)
    ids = post.before;
  Status status = encodeText(text, "", parseSpecial, ids);
  if (!status.ok())
    return status;
  if (special)
    ids.insert(ids.end(), post.after.begin(), post.after.end());
  return ids;
}

Result<std::vector<int32_t>>
Tokenizer::encodeBy(std::string_view text, std::string_view origins) const {
  std::vector<int32_t> ids;
  Status status = encodeText(text, origins, true, ids);
  if (!status.ok())
    return status;
  return ids;
}

Result<std::string> Tokenizer::decode(const std::vector<int32_t> &ids,
                                      bool special) const {
  TextStream stream(*this, special);
  std::string text;
  for (int32_t id : ids) {
    Result<std::string> piece = stream.push(id);
    if (!piece.ok())
      return piece;
    text += *piece;
  }
  Result<std::string> rest = stream.finish();
  if (!rest.ok())
    return rest;
  return text + *rest;
}

bool Tokenizer::isSpecial(int64_t id) const {
  const AddedToken *token = added.find(id);
  return token && token->special;
}

Result<std::string> Tokenizer::bytes(int64_t id) const {
  const std::string *spelled = token(id);
  return spelled ? bytesOfToken(decoder, *spelled) : std::string();
}

} // namespace cria
