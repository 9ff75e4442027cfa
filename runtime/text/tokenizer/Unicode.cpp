#include "runtime/text/tokenizer/Unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

namespace cria {

static_assert(sizeof(char32_t) == sizeof(utf8proc_int32_t));

char32_t takeCharacter(std::string_view text, size_t &at) {
  auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  utf8proc_int32_t point = 0;
  utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const uint8_t *>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &point);
  at += length > 0 ? static_cast<size_t>(length) : 1;
  return length > 0 ? static_cast<char32_t>(point) : U'\uFFFD';
}

void appendCharacter(std::string &text, char32_t character) {
  uint8_t bytes[4];
  auto length = utf8proc_encode_char(static_cast<int32_t>(character), bytes);
  text.append(reinterpret_cast<const char *>(bytes),
              static_cast<size_t>(length));
}

static bool categoryIn(char32_t character, utf8proc_category_t first,
                       utf8proc_category_t last) {
  utf8proc_category_t category =
      utf8proc_category(static_cast<int32_t>(character));
  return category >= first && category <= last;
}

bool isWhiteSpace(char32_t character) {
  if (character < 0x80)
    return character == ' ' || (character >= 9 && character <= 13);
  return character == 0x85 ||
         categoryIn(character, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool isLetter(char32_t character) {
  return categoryIn(character, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool isNumeric(char32_t character) {
  return categoryIn(character, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool isPunctuation(char32_t character) {
  if (character < 0x80)
    return character > ' ' && character < 0x7F &&
           !categoryIn(character, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL) &&
           !isNumeric(character);
  return categoryIn(character, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool isMark(char32_t character) {
  return categoryIn(character, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool isNonspacingMark(char32_t character) {
  return categoryIn(character, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN);
}

bool isOther(char32_t character) {
  return categoryIn(character, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

bool breaksGrapheme(char32_t left, char32_t right, int &state) {
  return utf8proc_grapheme_break_stateful(static_cast<int32_t>(left),
                                          static_cast<int32_t>(right), &state);
}

static int combiningClass(utf8proc_int32_t point) {
  return utf8proc_get_property(point)->combining_class;
}

/// Sorts each run of marks by class. utf8proc's own function takes quadratic
/// time, which is slow for a long run.
static void orderMarks(std::vector<utf8proc_int32_t> &points) {
  for (size_t at = 0; at < points.size();) {
    size_t end = at;
    while (end < points.size() && combiningClass(points[end]) > 0)
      ++end;
    if (end - at > 1)
      std::stable_sort(points.begin() + at, points.begin() + end,
                       [](utf8proc_int32_t a, utf8proc_int32_t b) {
                         return combiningClass(a) < combiningClass(b);
                       });
    at = std::max(end, at + 1);
  }
}

static void appendNormalized(std::string_view text, NormalForm form,
                             std::string &result) {
  bool compose = form == NormalForm::NFC || form == NormalForm::NFKC;
  bool compatible = form == NormalForm::NFKC || form == NormalForm::NFKD;
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (compatible)
    options |= UTF8PROC_COMPAT;
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t parts[32]; // Unicode's longest decomposition has 18
    auto point = static_cast<int32_t>(takeCharacter(text, at));
    auto count = utf8proc_decompose_char(
        point, parts, 32, static_cast<utf8proc_option_t>(options), nullptr);
    points.insert(points.end(), parts, parts + std::max<long>(count, 0));
  }
  orderMarks(points);
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (compose)
    count = utf8proc_normalize_utf32(
        points.data(), count,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    appendCharacter(result, static_cast<char32_t>(points[i]));
}

void forEachRun(
    std::string_view text,
    FunctionRef<void(size_t begin, size_t end, bool changes)> sink) {
  auto isAscii = [&](size_t at) {
    return static_cast<uint8_t>(text[at]) < 0x80;
  };
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    // ASCII stays, but its last character may combine with the next one.
    while (end < text.size() && isAscii(end))
      ++end;
    size_t begin = end < text.size() && end > at ? end - 1 : end;
    if (at < begin)
      sink(at, begin, false);
    while (end < text.size() && !isAscii(end))
      ++end;
    if (begin < end)
      sink(begin, end, true);
  }
}

std::string normalize(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  forEachRun(text, [&](size_t begin, size_t end, bool changes) {
    std::string_view run = text.substr(begin, end - begin);
    if (changes)
      appendNormalized(run, form, result);
    else
      result += run;
  });
  return result;
}

char32_t toUpper(char32_t character) {
  return static_cast<char32_t>(
      utf8proc_toupper(static_cast<int32_t>(character)));
}

char32_t toLower(char32_t character) {
  return static_cast<char32_t>(
      utf8proc_tolower(static_cast<int32_t>(character)));
}

std::string lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    char32_t character = takeCharacter(text, at);
    if (character == U'\u0130') // the only one that becomes two
      result += "i\u0307";
    else
      appendCharacter(result, toLower(character));
  }
  return result;
}

} // namespace cria
