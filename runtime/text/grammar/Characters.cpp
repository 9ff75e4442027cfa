#include "runtime/text/grammar/Characters.h"

#include "runtime/text/tokenizer/Text.h"

#include <algorithm>

namespace cria::grammar {

Characters::Characters(std::vector<Range> ranges) {
  constexpr uint32_t high = 0xD800, low = 0xDFFF; // the surrogates
  std::vector<Range> parts;
  for (auto [first, end] : ranges) {
    parts.push_back({first, std::min(end, high - 1)});
    parts.push_back({std::max(first, low + 1), std::min(end, last)});
  }
  std::sort(parts.begin(), parts.end());
  for (auto [first, end] : parts) {
    if (first > end)
      continue;
    if (!sorted.empty() && first <= sorted.back().second + 1)
      sorted.back().second = std::max(sorted.back().second, end);
    else
      sorted.push_back({first, end});
  }
}

Characters Characters::complement() const {
  std::vector<Range> gaps;
  uint32_t next = 0;
  for (auto [first, end] : sorted) {
    if (first > next)
      gaps.push_back({next, first - 1});
    next = end + 1;
  }
  gaps.push_back({next, last});
  return Characters(std::move(gaps));
}

Characters Characters::intersection(const Characters &other) const {
  std::vector<Range> outside = complement().sorted,
                     more = other.complement().sorted;
  outside.insert(outside.end(), more.begin(), more.end());
  return Characters(std::move(outside)).complement();
}

std::string utf8Of(uint32_t character) {
  auto byte = [](uint32_t value) { return static_cast<char>(value); };
  auto tail = [&](int shift) {
    return byte(0x80 | (character >> shift & 0x3F));
  };
  if (character < 0x80)
    return {byte(character)};
  if (character < 0x800)
    return {byte(0xC0 | character >> 6), tail(0)};
  if (character < 0x10000)
    return {byte(0xE0 | character >> 12), tail(6), tail(0)};
  return {byte(0xF0 | character >> 18), tail(12), tail(6), tail(0)};
}

uint32_t takeCharacter(std::string_view text, size_t &at) {
  size_t length = std::min(characterLength(text, at), text.size() - at);
  uint32_t character = static_cast<uint8_t>(text[at]);
  if (length > 1)
    character &= 0x7Fu >> length;
  for (size_t i = 1; i < length; ++i)
    character = character << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3F);
  at += length;
  return character;
}

} // namespace cria::grammar
