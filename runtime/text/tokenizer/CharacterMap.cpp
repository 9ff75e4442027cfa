/// A map is the byte size of a trie, the trie, and texts. The values of the
/// trie are offsets into the texts. The trie is a double array, as Darts-clone
/// writes it: a node is an index of an array of 32-bit units. The index of a
/// node's children, xor a byte of the key, is the next node; it is right if its
/// unit holds that byte. A unit holds the byte (bits 0-7, and bit 31 clear),
/// whether a key ends there (bit 8) and the distance to the children (bits
/// 10-30, times 256 if bit 9 is set). The value of a key is the first of the
/// children.
#include "runtime/text/tokenizer/CharacterMap.h"

#include "runtime/base/Base64.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace cria {

/// Longer sequences are looked up character by character.
static constexpr size_t maxGraphemeBytes = 5;

static uint32_t word(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i)
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

CharacterMap CharacterMap::read(const JsonCursor &base64) {
  CharacterMap map;
  std::optional<std::string> bytes = decodeBase64(base64.string());
  size_t size = bytes && bytes->size() >= 4 ? word(*bytes, 0) : 0;
  if (size == 0 || size % 4 != 0 || size > bytes->size() - 4) {
    base64.fail("expected a character map of sentencepiece in base64");
    return map;
  }
  for (size_t at = 4; at < 4 + size; at += 4)
    map.units.push_back(word(*bytes, at));
  map.texts = bytes->substr(4 + size);
  if (findInvalidUtf8(map.texts) != std::string::npos)
    base64.fail("has texts that are not UTF-8");
  return map;
}

static uint32_t childrenOf(uint32_t unit) {
  return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/// The text of the shortest key that `key` begins with.
std::optional<std::string_view> CharacterMap::find(std::string_view key) const {
  uint32_t place = childrenOf(units[0]);
  for (char c : key) {
    auto byte = static_cast<uint8_t>(c);
    place ^= byte;
    if (byte == 0 || place >= units.size() ||
        (units[place] & (1u << 31 | 0xFF)) != byte)
      return std::nullopt;
    bool ends = units[place] >> 8 & 1;
    place ^= childrenOf(units[place]);
    if (!ends)
      continue;
    size_t begin = place < units.size() ? units[place] & ~(1u << 31) : SIZE_MAX;
    if (begin > texts.size() ||
        (begin < texts.size() && (texts[begin] & 0xC0) == 0x80))
      return std::nullopt;
    std::string_view rest = std::string_view(texts).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void CharacterMap::writeGrapheme(std::string_view text, size_t begin,
                                 size_t end, Rewriting &writing) const {
  std::string_view grapheme = text.substr(begin, end - begin);
  if (grapheme.size() <= maxGraphemeBytes)
    if (auto found = find(grapheme))
      return writing.replace(begin, end, *found);
  for (size_t next; begin < end; begin = next) {
    next = begin + characterLength(text, begin);
    std::string_view character = text.substr(begin, next - begin);
    writing.replace(begin, next, find(character).value_or(character));
  }
}

bool CharacterMap::apply(TracedText &text, size_t limit) const {
  const std::string &bytes = text.bytes;
  Rewriting writing(text);
  int state = 0;
  size_t begin = 0; // of the current grapheme
  for (size_t at = 0;
       at < bytes.size() && writing.result.bytes.size() <= limit;) {
    char32_t left = takeCharacter(bytes, at);
    size_t next = at;
    if (at < bytes.size() &&
        !breaksGrapheme(left, takeCharacter(bytes, next), state))
      continue;
    writeGrapheme(bytes, begin, at, writing);
    begin = at;
  }
  text = std::move(writing.result);
  return text.bytes.size() <= limit;
}

} // namespace cria
