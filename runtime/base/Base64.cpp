#include "runtime/base/Base64.h"

#include <array>
#include <cstdint>

namespace cria {

static constexpr std::string_view letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string encodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k)
      three = three << 8 |
              (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : letters[three >> (18 - 6 * k) & 63];
  }
  return text;
}

std::optional<std::string> decodeBase64(std::string_view text) {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> all;
    all.fill(-1);
    for (size_t i = 0; i < letters.size(); ++i)
      all[static_cast<uint8_t>(letters[i])] = static_cast<int8_t>(i);
    return all;
  }();
  if (text.size() % 4 != 0)
    return std::nullopt;
  for (int padding = 0; padding < 2 && !text.empty() && text.back() == '=';
       ++padding)
    text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (char letter : text) {
    int8_t value = values[static_cast<uint8_t>(letter)];
    if (value < 0)
      return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) >= 8)
      bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

} // namespace cria
