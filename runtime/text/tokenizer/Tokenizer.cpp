#include "runtime/text/tokenizer/Tokenizer.h"

#include "runtime/File.h"
#include "runtime/gguf/Files.h"
#include "runtime/text/gguf/Text.h"
#include "runtime/text/tokenizer/ComponentCount.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace cria {

/// 250,000 merges are 750,000 JSON values.
static constexpr JsonLimits tokenizerLimits = {256u << 20, 1u << 20, 8'000'000,
                                               64};

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

Status Tokenizer::normalize(std::string &text, Effort &effort) const {
  for (const Normalizer &normalizer : normalizers)
    if (Status done = normalizer.apply(text, effort); !done.ok())
      return done;
  return Status();
}

/// `text` without the marks in it. `copy` holds the result if there are marks.
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
  std::string normalized, unmarked; // pieces refer to these
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

// ---- Conversations ----------------------------------------------------------

// A mark is put into the text where a special token has Given bytes or begins
// with a Name's bytes. A mark is a character that Unicode never assigns (a
// noncharacter). The tokenizer makes no special token after a mark or with a
// mark inside, and removes the marks before its model sees the text. Most texts
// need no marks.

/// A noncharacter of Unicode that `text` does not have; "" if it has all of
/// them.
static std::string chooseMark(std::string_view text) {
  for (char32_t plane = 16; plane > 0; --plane)
    for (char32_t last : {0xFFFE, 0xFFFF}) {
      std::string mark;
      appendCharacter(mark, plane << 16 | last);
      if (findText(text, mark) == text.npos)
        return mark;
    }
  return "";
}

/// `text` with a mark before each special token in it, and before one that may
/// begin at its end. Normalizers may make a special token from other
/// characters, such as full-width letters. Then the token's first character is
/// unknown, and marks stand before all characters.
Result<std::string> Tokenizer::guard(std::string_view text,
                                     std::string_view mark,
                                     Effort &effort) const {
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
  std::string guarded;
  for (char byte : text) {
    if ((byte & 0xC0) != 0x80)
      guarded += mark;
    guarded += byte;
  }
  return guarded;
}

/// Whether a special token may begin in `text` and continue after it.
Result<bool> Tokenizer::opensSpecial(std::string_view text,
                                     Effort &effort) const {
  Result<bool> opens = added.opensSpecial(text, false, effort);
  if (!opens.ok() || *opens || !added.hasNormalizedSpecial())
    return opens;
  std::string normalized(text);
  if (Status status = normalize(normalized, effort); !status.ok())
    return status;
  return added.opensSpecial(normalized, true, effort);
}

/// `text` with all the marks that it needs.
Result<std::string> Tokenizer::guardAll(std::string_view text,
                                        std::string_view origins,
                                        std::string_view mark) const {
  Effort effort = Effort::ofText(text.size());
  std::string guarded;
  size_t free = 0; // where the text after the last Given part begins
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end =
        std::min(origins.find_first_not_of(origins[begin], begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    auto origin = static_cast<Origin>(origins[begin]);
    if (origin == Origin::Template) {
      guarded += part;
      continue;
    }
    if (origin == Origin::Given) {
      Result<bool> opens =
          opensSpecial(text.substr(free, begin - free), effort);
      if (!opens.ok())
        return opens.status();
      if (*opens)
        guarded += mark;
      free = end;
    }
    Result<std::string> one = guard(part, mark, effort);
    if (!one.ok())
      return one;
    guarded += *one;
  }
  return guarded;
}

Result<std::vector<int32_t>>
Tokenizer::encodeBy(std::string_view text, std::string_view origins) const {
  if (origins.empty())
    return encode(text, false);
  std::string mark = chooseMark(text);
  if (mark.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "the conversation has every noncharacter of Unicode");
  std::string kept = mark;
  Effort effort = Effort::ofText(mark.size());
  Status status = normalize(kept, effort);
  if (status.ok() && added.hasNormalizedSpecial() &&
      findText(kept, mark) == kept.npos)
    status = Status(CRIA_UNIMPLEMENTED,
                    "the tokenizer's normalizers drop noncharacters, by which "
                    "special tokens in messages are told from the template's");
  if (!status.ok())
    return status;
  Result<std::string> guarded = guardAll(text, origins, mark);
  if (!guarded.ok())
    return guarded.status();
  std::vector<int32_t> ids;
  status = encodeText(*guarded, {true, mark}, ids);
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
