#include "runtime/text/tokenizer/Normalizer.h"

#include "runtime/text/tokenizer/CharacterMap.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace cria {

static Status tooLong() {
  return Status(CRIA_INVALID_ARGUMENT, "the text grows beyond " +
                                           std::to_string(maxTextBytes) +
                                           " bytes when it is normalized");
}

/// Passes each character of `text` to `keep(character, result)`.
template <typename Keep>
static void mapCharacters(std::string &text, Keep keep) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();)
    keep(takeCharacter(text, at), result);
  text = std::move(result);
}

/// Removes the characters of a kind.
template <bool (*kind)(char32_t)> static void remove(std::string &text) {
  mapCharacters(text, [](char32_t c, std::string &result) {
    if (!kind(c))
      appendCharacter(result, c);
  });
}

static std::string readContent(const JsonCursor &content) {
  std::string text = content.string();
  if (text.size() > 256)
    content.fail("has more than 256 bytes");
  return text;
}

Normalizer::Function Normalizer::readPrepend(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "prepend"});
  std::string content = readContent(normalizer["prepend"]);
  return [content](std::string &text, Effort &) {
    text.insert(0, content);
    return Status();
  };
}

Normalizer::Function Normalizer::readReplace(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "pattern", "content"});
  Pattern pattern = Pattern::read(normalizer["pattern"]);
  std::string content = readContent(normalizer["content"]);
  return [pattern, content](std::string &text, Effort &effort) {
    std::string result;
    result.reserve(text.size());
    Status status = pattern.find(text, effort, [&](Span span) {
      if (span.match)
        result += content;
      else
        result.append(text, span.begin, span.end - span.begin);
      return result.size() > maxTextBytes ? tooLong() : Status();
    });
    text = std::move(result);
    return status;
  };
}

Normalizer::Function Normalizer::readStrip(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "strip_left", "strip_right"});
  bool left = normalizer["strip_left"].boolean();
  bool right = normalizer["strip_right"].boolean();
  return [left, right](std::string &text, Effort &) {
    size_t begin = std::string::npos, end = 0; // of the text between white
                                               // space
    for (size_t at = 0; at < text.size();) {
      size_t place = at;
      if (isWhiteSpace(takeCharacter(text, at)))
        continue;
      begin = std::min(begin, place);
      end = at;
    }
    if (right)
      text.erase(end);
    if (left)
      text.erase(0, begin);
    return Status();
  };
}

/// The blocks of characters that BERT treats as Chinese.
static bool isChinese(char32_t c) {
  static constexpr char32_t blocks[][2] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
      {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto &[first, last] : blocks)
    if (c >= first && c <= last)
      return true;
  return false;
}

static void cleanCharacter(char32_t c, std::string &result) {
  bool blank = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xFFFD || (isOther(c) && !blank))
    return;
  appendCharacter(result, isWhiteSpace(c) ? U' ' : c);
}

static void spaceChinese(char32_t c, std::string &result) {
  bool apart = isChinese(c);
  result += apart ? " " : "";
  appendCharacter(result, c);
  result += apart ? " " : "";
}

Normalizer::Function Normalizer::readBert(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "clean_text", "handle_chinese_chars",
                        "strip_accents", "lowercase"});
  bool clean = normalizer["clean_text"].boolean();
  bool chinese = normalizer["handle_chinese_chars"].boolean();
  bool lower = normalizer["lowercase"].boolean();
  auto accents = normalizer.find("strip_accents");
  bool strip = accents ? accents->boolean() : lower;
  return [=](std::string &text, Effort &) {
    if (clean)
      mapCharacters(text, cleanCharacter);
    if (chinese)
      mapCharacters(text, spaceChinese);
    if (strip) {
      text = normalize(text, NormalForm::NFD);
      remove<isNonspacingMark>(text);
    }
    if (lower)
      text = lowercase(text);
    return Status();
  };
}

Normalizer::Function Normalizer::readPrecompiled(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "precompiled_charsmap"});
  auto map = std::make_shared<const CharacterMap>(
      CharacterMap::read(normalizer["precompiled_charsmap"]));
  return [map](std::string &text, Effort &) {
    return map->apply(text, maxTextBytes) ? Status() : tooLong();
  };
}

/// The normalizers without members.
static const std::pair<const char *, void (*)(std::string &)> plainKinds[] = {
    {"NFC", [](std::string &t) { t = normalize(t, NormalForm::NFC); }},
    {"NFD", [](std::string &t) { t = normalize(t, NormalForm::NFD); }},
    {"NFKC", [](std::string &t) { t = normalize(t, NormalForm::NFKC); }},
    {"NFKD", [](std::string &t) { t = normalize(t, NormalForm::NFKD); }},
    {"Lowercase", [](std::string &t) { t = lowercase(t); }},
    {"StripAccents", remove<isMark>}};

void Normalizer::read(const JsonCursor &normalizer, ComponentCount &count,
                      std::vector<Normalizer> &steps) {
  static const std::pair<const char *, Function (*)(const JsonCursor &)>
      kinds[] = {{"Prepend", readPrepend},
                 {"Replace", readReplace},
                 {"Strip", readStrip},
                 {"BertNormalizer", readBert},
                 {"Precompiled", readPrecompiled}};
  if (!count.add(normalizer))
    return;
  std::string type = normalizer["type"].string();
  if (type == "Sequence") {
    onlyKeys(normalizer, {"type", "normalizers"});
    for (const JsonCursor &one : normalizer["normalizers"].elements(64))
      read(one, count, steps);
    return;
  }
  for (const auto &[name, make] : kinds)
    if (type == name)
      return steps.push_back(Normalizer(make(normalizer)));
  for (const auto &[name, change] : plainKinds)
    if (type == name) {
      onlyKeys(normalizer, {"type"});
      return steps.push_back(
          Normalizer([change = change](std::string &text, Effort &) {
            change(text);
            return Status();
          }));
    }
  refuse(normalizer["type"],
         "one of NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "
         "Prepend, Replace, BertNormalizer, Precompiled and Sequence");
}

/// The cost of a byte, in units of effort, by the most expensive form, NFKC.
static constexpr uint64_t workPerByte = 64;

Status Normalizer::apply(std::string &text, Effort &effort) const {
  if (text.empty())
    return Status();
  bool enough = effort.spend(workPerByte * (text.size() + 1));
  Status status = enough ? function(text, effort) : Status();
  if (status.ok() && text.size() > maxTextBytes)
    return tooLong();
  if (!enough || !effort.spend(text.size()))
    return Effort::tooLong("normalizing the text");
  return status;
}

} // namespace cria
