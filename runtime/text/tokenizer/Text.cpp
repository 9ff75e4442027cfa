#include "runtime/text/tokenizer/Text.h"

#include <array>
#include <cstring>

namespace cria {

namespace {

/// The result of reading the bytes at a place in a text.
struct Scan {
  size_t length; // bytes read: of the character, or of the wrong sequence
  bool valid;
  bool cut; // valid so far, and the text ends here
};

} // namespace

/// Table 3-7 of the Unicode standard: the lead byte says how many bytes follow
/// and in which range the second one lies.
static Scan scan(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  uint8_t lead = byte(0);
  if (lead < 0x80)
    return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4)
    return {1, false, false};
  size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (at + i == text.size())
      return {i, false, true};
    if (byte(i) < least || byte(i) > most)
      return {i, false, false};
    least = 0x80;
    most = 0xBF;
  }
  return {length, true, false};
}

size_t findInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    Scan found = scan(text, at);
    if (!found.valid)
      return at;
    at += found.length;
  }
  return std::string_view::npos;
}

size_t findText(std::string_view text, std::string_view what, size_t from) {
  if (from > text.size() || text.size() - from < what.size())
    return text.npos; // an empty text may have no address
  const void *found =
      memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return found ? static_cast<const char *>(found) - text.data() : text.npos;
}

size_t characterLength(std::string_view text, size_t at) {
  return scan(text, at).length;
}

std::string takeUtf8(std::string &pending, bool last) {
  std::string taken;
  size_t at = 0;
  while (at < pending.size()) {
    Scan found = scan(pending, at);
    if (found.cut && !last)
      break;
    if (found.valid)
      taken.append(pending, at, found.length);
    else
      taken += "\uFFFD";
    at += found.length;
  }
  pending.erase(0, at);
  return taken;
}

static bool printsAsItself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

namespace {

/// The two-way table: U+0000 to U+0143 as one or two bytes of UTF-8.
struct Spellings {
  struct Spelling {
    char bytes[2];
    uint8_t length;
  };
  std::array<Spelling, 256> of{};
  std::array<int16_t, 0x144> byteOf{};

  Spellings() {
    byteOf.fill(-1);
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      unsigned point = printsAsItself(byte) ? byte : next++;
      byteOf[point] = static_cast<int16_t>(byte);
      if (point < 0x80)
        of[byte] = {{static_cast<char>(point), 0}, 1};
      else
        of[byte] = {{static_cast<char>(0xC0 | point >> 6),
                     static_cast<char>(0x80 | (point & 0x3F))},
                    2};
    }
  }
};

} // namespace

static const Spellings &spellings() {
  static const Spellings table;
  return table;
}

std::string_view byteSpelling(uint8_t byte) {
  const Spellings::Spelling &spelling = spellings().of[byte];
  return {spelling.bytes, spelling.length};
}

std::string spellBytes(std::string_view text) {
  std::string spelled;
  spelled.reserve(text.size() + text.size() / 4);
  for (char c : text)
    spelled += byteSpelling(static_cast<uint8_t>(c));
  return spelled;
}

std::string unspellBytes(std::string_view token) {
  const Spellings &table = spellings();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    size_t length = characterLength(token, at);
    unsigned point = static_cast<uint8_t>(token[at]);
    if (length == 2)
      point = (point & 0x1F) << 6 | (token[at + 1] & 0x3F);
    if (length > 2 || point >= table.byteOf.size() || table.byteOf[point] < 0)
      return std::string(token);
    bytes += static_cast<char>(table.byteOf[point]);
    at += length;
  }
  return bytes;
}

} // namespace cria
