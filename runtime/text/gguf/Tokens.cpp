#include "runtime/text/gguf/Tokens.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/models/Vocabulary.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace cria::gguf {

void TextReader::fail(const std::string &what, cria_status code) {
  if (status.ok())
    status = Status(code, path + ": " + what);
}

void TextReader::expected(const std::string &key, const std::string &what,
                          cria_status code) {
  const Value *value = find(key);
  fail("'" + key + "' is " + (value ? value->shown() : "missing") +
           ", expected " + what,
       code);
}

std::string TextReader::text(const std::string &key,
                             const std::string &fallback) {
  const Value *value = find(key);
  if (value && !value->text())
    expected(key, "a string");
  if (!value || !status.ok())
    return fallback;
  if (findInvalidUtf8(*value->text()) != std::string::npos)
    fail("'" + key + "' is not UTF-8");
  return std::string(*value->text());
}

bool TextReader::flag(const std::string &key, bool fallback) {
  const Value *value = find(key);
  if (value && !value->boolean())
    expected(key, "true or false");
  return value ? value->boolean().value_or(fallback) : fallback;
}

std::optional<int64_t> TextReader::id(const std::string &key) {
  const Value *value = find(key);
  if (value && value->isArray()) {
    expected(key, "one id");
    return std::nullopt;
  }
  std::vector<int64_t> found = ids(key);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<int64_t> TextReader::ids(const std::string &key) {
  const Value *value = find(key);
  if (!value)
    return {};
  const Value *tokens = find("tokenizer.ggml.tokens");
  auto count = static_cast<int64_t>(tokens ? tokens->size() : 0);
  static constexpr uint64_t most = 1024;
  auto found = value->size() <= most ? value->integers() : std::nullopt;
  if (found) // -1 is no id, as in config.json
    found->erase(std::remove(found->begin(), found->end(), -1), found->end());
  if (found && std::all_of(found->begin(), found->end(),
                           [&](int64_t id) { return id >= 0 && id < count; }))
    return *found;
  expected(key, "the id of one of the " + std::to_string(count) + " tokens");
  return {};
}

std::optional<int64_t> Tokens::find(std::string_view text) const {
  auto found = std::find(texts.begin(), texts.end(), text);
  if (found == texts.end())
    return std::nullopt;
  return found - texts.begin();
}

static void checkTexts(const std::vector<std::string_view> &texts,
                       TextReader &reader) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t id = 0; id < texts.size() && reader.status.ok(); ++id) {
    if (findInvalidUtf8(texts[id]) != std::string::npos)
      reader.fail("token " + std::to_string(id) + " is " + quote(texts[id]) +
                  ", expected UTF-8");
    auto [place, isNew] = seen.emplace(texts[id], id);
    if (!isNew && !texts[id].empty())
      reader.fail("tokens " + std::to_string(place->second) + " and " +
                  std::to_string(id) + " are both " + quote(texts[id]));
  }
}

static void readKinds(Tokens &tokens, TextReader &reader) {
  static const std::string key = "tokenizer.ggml.token_type";
  tokens.kinds.assign(tokens.texts.size(), TokenKind::Normal);
  const Value *value = reader.find(key);
  if (!value)
    return;
  auto kinds = value->integers();
  if (!kinds || kinds->size() != tokens.texts.size())
    return reader.expected(key, "a type for each of " +
                                    std::to_string(tokens.texts.size()) +
                                    " tokens");
  for (size_t id = 0; id < kinds->size(); ++id) {
    int64_t kind = (*kinds)[id];
    if (kind < 1 || kind > 6)
      return reader.fail("token " + std::to_string(id) + " is of type " +
                         std::to_string(kind) + ", expected 1 to 6");
    tokens.kinds[id] = TokenKind(kind);
  }
}

static void readScores(Tokens &tokens, TextReader &reader) {
  static const std::string key = "tokenizer.ggml.scores";
  const Value *value = reader.find(key);
  if (!value)
    return;
  auto scores = value->numbers();
  if (!scores || scores->size() != tokens.texts.size() ||
      !std::all_of(scores->begin(), scores->end(),
                   [](double score) { return std::isfinite(score); }))
    return reader.expected(key, "a finite score for each of " +
                                    std::to_string(tokens.texts.size()) +
                                    " tokens");
  tokens.scores = std::move(*scores);
}

Tokens readTokens(TextReader &reader) {
  static const std::string key = "tokenizer.ggml.tokens";
  Tokens tokens;
  const Value *value = reader.find(key);
  if (!value || !value->isArray() || !value->texts() || value->size() == 0 ||
      value->size() > static_cast<uint64_t>(maxTokenIds)) {
    reader.expected(key, "1 to " + std::to_string(maxTokenIds) + " strings");
    return tokens;
  }
  tokens.texts = std::move(*value->texts());
  checkTexts(tokens.texts, reader);
  readKinds(tokens, reader);
  readScores(tokens, reader);
  return tokens;
}

} // namespace cria::gguf
