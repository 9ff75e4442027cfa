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

/// Passes each character of `text`, and its place, to `change`, which writes.
template <typename Change>
static void mapCharacters(TracedText &text, Change change) {
  Rewriting writing(text);
  for (size_t begin = 0, end = 0; end < text.bytes.size(); begin = end) {
    char32_t character = takeCharacter(text.bytes, end);
    change(character, Span{begin, end, true}, writing);
  }
  text = std::move(writing.result);
}

/// Removes the characters of a kind.
template <bool (*kind)(char32_t)> static void remove(TracedText &text) {
  mapCharacters(text, [](char32_t c, Span span, Rewriting &writing) {
    if (!kind(c))
      writing.keep(span.begin, span.end);
  });
}

static void toLowercase(TracedText &text) {
  mapCharacters(text, [&](char32_t, Span span, Rewriting &writing) {
    writing.replace(span.begin, span.end,
                    lowercase(std::string_view(text.bytes)
                                  .substr(span.begin, span.end - span.begin)));
  });
}

/// Writes `normal`, the form of a run of bytes that have several origins.
/// Parts of one origin keep it, up to a part that combines with its neighbour.
static void writeParts(const TracedText &text, size_t begin, size_t end,
                       std::string_view normal, NormalForm form,
                       Rewriting &writing) {
  while (begin < end) {
    char origin = text.origins[begin];
    size_t next = std::min(text.origins.find_first_not_of(origin, begin), end);
    std::string_view part = text.bytes;
    std::string own = normalize(part.substr(begin, next - begin), form);
    if (normal.substr(0, own.size()) != own)
      break;
    writing.replace(begin, next, own);
    normal.remove_prefix(own.size());
    begin = next;
  }
  writing.replace(begin, end, normal);
}

template <NormalForm form> static void toForm(TracedText &text) {
  Rewriting writing(text);
  forEachRun(text.bytes, [&](size_t begin, size_t end, bool changes) {
    std::string_view run =
        std::string_view(text.bytes).substr(begin, end - begin);
    if (!changes)
      writing.keep(begin, end);
    else if (text.origins.empty())
      writing.replace(begin, end, normalize(run, form));
    else
      writeParts(text, begin, end, normalize(run, form), form, writing);
  });
  text = std::move(writing.result);
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
  return [content](TracedText &text, Effort &) {
    Rewriting writing(text);
    writing.insert(content);
    writing.keep(0, text.bytes.size());
    text = std::move(writing.result);
    return Status();
  };
}

Normalizer::Function Normalizer::readReplace(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "pattern", "content"});
  Pattern pattern = Pattern::read(normalizer["pattern"]);
  std::string content = readContent(normalizer["content"]);
  return [pattern, content](TracedText &text, Effort &effort) {
    Rewriting writing(text);
    Status status = pattern.find(text.bytes, effort, [&](Span span) {
      if (span.match)
        writing.replace(span.begin, span.end, content);
      else
        writing.keep(span.begin, span.end);
      return writing.result.bytes.size() > maxTextBytes ? tooLong() : Status();
    });
    text = std::move(writing.result);
    return status;
  };
}

Normalizer::Function Normalizer::readStrip(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "strip_left", "strip_right"});
  bool left = normalizer["strip_left"].boolean();
  bool right = normalizer["strip_right"].boolean();
  return [left, right](TracedText &text, Effort &) {
    size_t begin = text.bytes.size(), end = 0; // of the text between white
                                               // space
    for (size_t at = 0; at < text.bytes.size();) {
      size_t place = at;
      if (isWhiteSpace(takeCharacter(text.bytes, at)))
        continue;
      begin = std::min(begin, place);
      end = at;
    }
    begin = left ? begin : 0;
    end = right ? end : text.bytes.size();
    Rewriting writing(text);
    if (begin < end)
      writing.keep(begin, end);
    text = std::move(writing.result);
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

static void cleanCharacter(char32_t c, Span span, Rewriting &writing) {
  bool blank = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xFFFD || (isOther(c) && !blank))
    return;
  if (isWhiteSpace(c))
    writing.replace(span.begin, span.end, " ");
  else
    writing.keep(span.begin, span.end);
}

static void spaceChinese(char32_t c, Span span, Rewriting &writing) {
  const char *apart = isChinese(c) ? " " : "";
  writing.insert(apart);
  writing.keep(span.begin, span.end);
  writing.insert(apart);
}

Normalizer::Function Normalizer::readBert(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "clean_text", "handle_chinese_chars",
                        "strip_accents", "lowercase"});
  bool clean = normalizer["clean_text"].boolean();
  bool chinese = normalizer["handle_chinese_chars"].boolean();
  bool lower = normalizer["lowercase"].boolean();
  auto accents = normalizer.find("strip_accents");
  bool strip = accents ? accents->boolean() : lower;
  return [=](TracedText &text, Effort &) {
    if (clean)
      mapCharacters(text, cleanCharacter);
    if (chinese)
      mapCharacters(text, spaceChinese);
    if (strip) {
      toForm<NormalForm::NFD>(text);
      remove<isNonspacingMark>(text);
    }
    if (lower)
      toLowercase(text);
    return Status();
  };
}

Normalizer::Function Normalizer::readPrecompiled(const JsonCursor &normalizer) {
  onlyKeys(normalizer, {"type", "precompiled_charsmap"});
  auto map = std::make_shared<const CharacterMap>(
      CharacterMap::read(normalizer["precompiled_charsmap"]));
  return [map](TracedText &text, Effort &) {
    return map->apply(text, maxTextBytes) ? Status() : tooLong();
  };
}

/// The normalizers without members.
static const std::pair<const char *, void (*)(TracedText &)> plainKinds[] = {
    {"NFC", toForm<NormalForm::NFC>},   {"NFD", toForm<NormalForm::NFD>},
    {"NFKC", toForm<NormalForm::NFKC>}, {"NFKD", toForm<NormalForm::NFKD>},
    {"Lowercase", toLowercase},         {"StripAccents", remove<isMark>}};

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
          Normalizer([change = change](TracedText &text, Effort &) {
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

Status Normalizer::apply(TracedText &text, Effort &effort) const {
  if (text.bytes.empty())
    return Status();
  bool enough = effort.spend(workPerByte * (text.bytes.size() + 1));
  Status status = enough ? function(text, effort) : Status();
  if (status.ok() && text.bytes.size() > maxTextBytes)
    return tooLong();
  if (!enough || !effort.spend(text.bytes.size()))
    return Effort::tooLong("normalizing the text");
  return status;
}

} // namespace cria
