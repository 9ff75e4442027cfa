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

Status Tokenizer::normalize(std::string &text, Effort &effort) const {
  for (const Normalizer &normalizer : normalizers)
    if (Status done = normalizer.apply(text, effort); !done.ok())
      return done;
  return Status();
}

/// `text` without the marks in it; `copy` holds it where there are any.
static std::string_view withoutMarks(std::string_view text,
                                     std::string_view mark, std::string &copy) {
  if (mark.empty() || findText(text, mark) == text.npos)
    return text;
  copy.clear();
  size_t done = 0;
  for (size_t at; (at = findText(text, mark, done)) != text.npos;
       done = at + mark.size())
    copy += text.substr(done, at - done);
  return copy += text.substr(done);
}

/// Passes the words of `piece`, and added tokens in it, to `sink` in order.
Status Tokenizer::cut(Piece piece, Marking marking, Effort &effort,
                      PieceSink sink) const {
  AddedTokens::Wanted raw = {false, marking.parseSpecial, marking.guard};
  AddedTokens::Wanted normal = {true, marking.parseSpecial, marking.guard};
  std::string normalized, unmarked; // what pieces refer to
  return added.split(piece, raw, effort, [&](Piece part) {
    if (part.id >= 0)
      return sink(part);
    normalized = part.text;
    if (Status done = normalize(normalized, effort); !done.ok())
      return done;
    part.text = normalized;
    return added.split(part, normal, effort, [&](Piece word) {
      if (word.id >= 0)
        return sink(word);
      word.text = withoutMarks(word.text, marking.guard, unmarked);
      return word.text.empty() ? Status() : preTokenize(0, word, effort, sink);
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

Status Tokenizer::encodeText(std::string_view text, Marking marking,
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
  return cut({text, true}, marking, effort, [&](Piece piece) {
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
  Status status = encodeText(text, {parseSpecial, ""}, ids);
  if (!status.ok())
    return status;
  if (special)
    ids.insert(ids.end(), post.after.begin(), post.after.end());
  return ids;
}

/// Normalizers may make a special token of what is none in the raw text, such
/// as full-width letters. Then there is no telling where it begins, and marks
/// stand before all characters, but not at the white space around the text,
/// which a template may take away.
Result<std::string> Tokenizer::guard(std::string_view text,
                                     std::string_view mark) const {
  Effort effort = Effort::ofText(text.size());
  if (!added.hasNormalizedSpecial())
    return added.guardSpecial(text, mark, effort);
  std::string normalized(text);
  if (Status status = normalize(normalized, effort); !status.ok())
    return status;
  Result<bool> holds = added.holdsNormalizedSpecial(normalized, effort);
  if (!holds.ok())
    return holds.status();
  if (!*holds)
    return added.guardSpecial(text, mark, effort);
  static constexpr std::string_view blanks = " \t\r\n";
  size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  size_t end = text.find_last_not_of(blanks) + 1;
  std::string guarded;
  for (size_t at = 0; at < text.size(); ++at) {
    if (at >= begin && at < end && (text[at] & 0xC0) != 0x80)
      guarded += mark;
    guarded += text[at];
  }
  return guarded;
}

Result<std::vector<int32_t>>
Tokenizer::encodeGuarded(std::string_view text, std::string_view mark) const {
  std::vector<int32_t> ids;
  Status status = encodeText(text, {true, mark}, ids);
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

Result<std::string> TextStream::push(int64_t id) {
  if (const AddedToken *token = tokenizer->added.find(id)) {
    if (token->special && !special)
      return std::string();
    return state.push(token->pattern);
  }
  if (const std::string *token = tokenizer->model->vocabulary().token(id))
    return state.push(*token);
  return std::string();
}

} // namespace cria
