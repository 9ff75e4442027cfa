#include "runtime/base/Printable.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <utility>

namespace cria {

/// Ranges of characters without a shape: Unicode 15's categories Cc (controls),
/// Cf (formats), Zl and Zp (separators).
static constexpr std::pair<uint32_t, uint32_t> shapeless[] = {
    {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},
    {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},
    {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
    {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x2064},   {0x2066, 0x206f},   {0xfeff, 0xfeff},
    {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
    {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};

static bool hasShape(uint32_t character) {
  return std::none_of(
      std::begin(shapeless), std::end(shapeless), [=](auto range) {
        return character >= range.first && character <= range.second;
      });
}

/// Reads the character at the start of `text`, which is not empty. Returns its
/// length in bytes, 0 if the bytes are not UTF-8.
static size_t readCharacter(std::string_view text, uint32_t &character) {
  auto first = static_cast<uint8_t>(text[0]);
  size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  character = first & (0xff >> (length + (length > 1)));
  if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i) {
    auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xc0) != 0x80)
      return 0;
    character = character << 6 | (next & 0x3f);
  }
  static constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isHalf = character >= 0xd800 && character < 0xe000;
  return character < least[length] || character > 0x10ffff || isHalf ? 0
                                                                     : length;
}

static std::string escape(uint32_t character) {
  if (character == '\n')
    return "\\n";
  if (character == '\t')
    return "\\t";
  if (character == '\r')
    return "\\r";
  char text[16];
  if (character < 0x10000)
    snprintf(text, sizeof(text), "\\u%04x", character);
  else // in UTF-16, as in JSON
    snprintf(text, sizeof(text), "\\u%04x\\u%04x",
             0xd800 + ((character - 0x10000) >> 10),
             0xdc00 + (character & 0x3ff));
  return text;
}

static std::string escapeAllBut(std::string_view kept, std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    uint32_t character = 0;
    size_t length = readCharacter(text.substr(at), character);
    if (length == 0) {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\x%02x",
               static_cast<uint8_t>(text[at]));
      shown += escaped;
      ++at;
      continue;
    }
    std::string_view raw = text.substr(at, length);
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
