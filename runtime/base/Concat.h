/// Texts made of parts, such as messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace cria {

/// A string, or a number in decimal. Refers to a string, which must outlive it.
class TextPart {
public:
  TextPart(const char *text) : TextPart(std::string_view(text)) {}
  TextPart(const std::string &text) : TextPart(std::string_view(text)) {}
  TextPart(std::string_view text) : text(text.data()), value(text.size()) {}
  /// A character is not a number.
  TextPart(char) = delete;
  template <typename Number,
            typename = std::enable_if_t<std::is_integral_v<Number>>>
  TextPart(Number number)
      : value(static_cast<uint64_t>(number)), isSigned(number < 0) {}
  TextPart(double number) : real(number), isReal(true) {}

  void appendTo(std::string &whole) const;

private:
  const char *text = nullptr; // null for a number
  union {
    uint64_t value; // a length, or a number
    double real;
  };
  bool isSigned = false, isReal = false;
};

/// The parts, one after the other. A sum of strings would be as readable, but
/// each of its parts would be a temporary, with code that destroys it.
std::string concat(std::initializer_list<TextPart> parts);

/// A number of bytes as text, such as "12.5 MiB".
std::string mebibytes(uint64_t bytes);

} // namespace cria
