#include "runtime/Tokenizer.h"

#include "runtime/File.h"
#include "runtime/TokenizerJson.h"
#include "runtime/TokenizerText.h"

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
    tokenizer.model = BpeModel::read(root["model"], status);
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
    tokenizer.added = AddedTokens::read(*list, status, tokenizer.model,
                                        tokenizer.normalizers);
  auto post = root.find("post_processor");
  if (status.ok() && post)
    tokenizer.readPost(*post);
  if (!status.ok())
    return status;
  return tokenizer;
}

void Tokenizer::readPost(const JsonCursor &post) {
  std::string type = post["type"].string();
  if (type == "Sequence") {
    onlyKeys(post, {"type", "processors"});
    for (const JsonCursor &one : post["processors"].elements(64))
      readPost(one);
  } else if (type == "ByteLevel") { // changes offsets only
    onlyKeys(post, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else if (type == "TemplateProcessing") {
    readTemplate(post);
  } else {
    refuse(post["type"],
           "\"TemplateProcessing\", \"ByteLevel\" or \"Sequence\"");
  }
}

/// "single" is a list of special tokens with the sequence A among them.
void Tokenizer::readTemplate(const JsonCursor &post) {
  onlyKeys(post, {"type", "single", "pair", "special_tokens"});
  std::vector<int32_t> sides[2];
  int sequences = 0;
  for (const JsonCursor &piece : post["single"].elements(64)) {
    onlyKeys(piece, {"SpecialToken", "Sequence"});
    if (auto sequence = piece.find("Sequence")) {
      if ((*sequence)["id"].string() != "A" || ++sequences > 1)
        refuse(piece, "the sequence A once");
      continue;
    }
    std::string name = piece["SpecialToken"]["id"].string();
    JsonCursor ids = post["special_tokens"][name]["ids"];
    for (const JsonCursor &id : ids.elements(64)) {
      sides[sequences].push_back(id.integer(0, maxTokenIds - 1));
      if (!contains(sides[sequences].back()))
        id.fail("is " + std::to_string(sides[sequences].back()) +
                ", which is no token's id");
    }
  }
  if (sequences == 0)
    refuse(post["single"], "the sequence A once");
  before.insert(before.begin(), sides[0].begin(), sides[0].end());
  after.insert(after.end(), sides[1].begin(), sides[1].end());
}

bool Tokenizer::contains(int64_t id) const {
  return model.token(id) || added.find(id);
}

Status Tokenizer::fits(int64_t vocabSize) const {
  int64_t limit = std::max(model.idLimit(), added.idLimit());
  if (limit <= vocabSize)
    return Status();
  const AddedToken *token = added.find(limit - 1);
  return Status(CRIA_INVALID_ARGUMENT,
                "the tokenizer's token " +
                    quote(token ? token->content : *model.token(limit - 1)) +
                    " has id " + std::to_string(limit - 1) +
                    ", expected less than the model's vocab_size " +
                    std::to_string(vocabSize));
}

/// The pieces of `text` as the model sees them, in order.
Result<std::vector<Piece>> Tokenizer::cut(std::string_view text) const {
  Deadline deadline = deadlineFor(text.size());
  std::vector<Piece> pieces = {{std::string(text), -1, true}}, next;
  // Runs `step(piece, next)` on what is not yet an added token.
  auto pass = [&](auto step) {
    next.clear();
    for (Piece &piece : pieces) {
      if (piece.id >= 0)
        next.push_back(std::move(piece));
      else if (Status status = step(std::move(piece)); !status.ok())
        return status;
    }
    std::swap(pieces, next);
    return Status();
  };
  Status status = pass([&](Piece piece) {
    return added.split(std::move(piece), false, deadline, next);
  });
  if (status.ok())
    status = pass([&](Piece piece) {
      for (const Normalizer &normalizer : normalizers)
        if (Status done = normalizer.apply(piece.text, deadline); !done.ok())
          return done;
      return added.split(std::move(piece), true, deadline, next);
    });
  for (const PreTokenizer &step : preTokenizers)
    if (status.ok())
      status = pass([&](Piece piece) {
        return step.apply(std::move(piece), deadline, next);
      });
  if (!status.ok())
    return status;
  return pieces;
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
  Result<std::vector<Piece>> pieces = cut(text);
  if (!pieces.ok())
    return pieces.status();
  std::vector<int32_t> ids;
  if (special)
    ids = before;
  for (const Piece &piece : *pieces)
    if (piece.id >= 0)
      ids.push_back(piece.id);
    else
      model.encode(piece.text, ids);
  if (special)
    ids.insert(ids.end(), after.begin(), after.end());
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
  const std::string *token = tokenizer->model.token(id);
  return token ? state.push(*token) : "";
}

} // namespace cria
