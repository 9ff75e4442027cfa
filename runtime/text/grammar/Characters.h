/// Sets of Unicode characters, as ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::grammar {

/// A set of code points. Surrogates are no characters: no set has them.
class Characters {
public:
  using Range = std::pair<uint32_t, uint32_t>; // both ends are in it
  static constexpr uint32_t last = 0x10FFFF;

  Characters() = default;
  Characters(std::initializer_list<Range> ranges)
      : Characters(std::vector<Range>(ranges)) {}
  /// In any order; a range may be empty.
  explicit Characters(std::vector<Range> ranges);
  static Characters one(uint32_t character) { return {{character, character}}; }
  static Characters all() { return {{0, last}}; }

  Characters complement() const;
  Characters intersection(const Characters &other) const;

  bool empty() const { return sorted.empty(); }
  /// Ascending, with gaps between them.
  const std::vector<Range> &ranges() const { return sorted; }

private:
  std::vector<Range> sorted;
};

/// The UTF-8 of a character.
std::string utf8Of(uint32_t character);

/// The character at `at` in valid UTF-8; moves `at` past it.
uint32_t takeCharacter(std::string_view text, size_t &at);

} // namespace cria::grammar
