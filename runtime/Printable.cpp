#include "runtime/Printable.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstdio>

namespace cria {

static bool hasShape(utf8proc_int32_t character) {
  switch (utf8proc_category(character)) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return false;
  default:
    return true;
  }
}

static std::string escape(utf8proc_int32_t character) {
  if (character == '\n')
    return "\\n";
  if (character == '\t')
    return "\\t";
  if (character == '\r')
    return "\\r";
  char text[16];
  auto point = static_cast<unsigned>(character);
  if (point < 0x10000)
    snprintf(text, sizeof(text), "\\u%04x", point);
  else // in UTF-16, as JSON has it
    snprintf(text, sizeof(text), "\\u%04x\\u%04x",
             0xd800 + ((point - 0x10000) >> 10), 0xdc00 + (point & 0x3ff));
  return text;
}

static std::string escapeAllBut(std::string_view kept, std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    auto *bytes = reinterpret_cast<const uint8_t *>(text.data()) + at;
    utf8proc_int32_t character = 0;
    utf8proc_ssize_t length = utf8proc_iterate(
        bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    if (length <= 0) {
      char text[8];
      snprintf(text, sizeof(text), "\\x%02x", *bytes);
      shown += text;
      ++at;
      continue;
    }
    std::string_view raw = text.substr(at, static_cast<size_t>(length));
    if (hasShape(character) || kept.find(raw) != kept.npos)
      shown += raw;
    else
      shown += escape(character);
    at += raw.size();
  }
  return shown;
}

std::string printable(std::string_view text) { return escapeAllBut("", text); }

std::string printableLines(std::string_view text) {
  return escapeAllBut("\n\t", text);
}

} // namespace cria
