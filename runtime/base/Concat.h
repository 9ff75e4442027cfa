/// Texts made of parts, such as messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace cria {

/// A string, or a number in decimal. Refers to a string, which must outlive it.
/// Two words, because messages are made in hundreds of places.
class TextPart {
public:
  TextPart(const char *text) : TextPart(std::string_view(text)) {}
  TextPart(const std::string &text) : TextPart(std::string_view(text)) {}
  TextPart(std::string_view text)
      : text(reinterpret_cast<uintptr_t>(text.data())), value(text.size()) {}
  /// A character is not a number.
  TextPart(char) = delete;
  template <typename Number,
            typename = std::enable_if_t<std::is_integral_v<Number>>>
  TextPart(Number number)
      : text(std::is_signed_v<Number> ? Signed : Unsigned),
        value(static_cast<uint64_t>(number)) {}
  TextPart(double number) : text(Real), real(number) {}

  void appendTo(std::string &whole) const;

private:
  enum Kind : uintptr_t { Unsigned, Signed, Real };

  uintptr_t text; // the address of a string, or the Kind of a number
  union {
    uint64_t value; // a length, or a number
    double real;
  };
};

/// The parts, one after the other. A sum of strings would be as readable, but
/// each of its parts would be a temporary, with code that destroys it.
std::string concat(std::initializer_list<TextPart> parts);

/// A number of bytes as text, such as "12.5 MiB".
std::string mebibytes(uint64_t bytes);

} // namespace cria
