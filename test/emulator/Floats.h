/// Floats of 16 bits for tests, written apart from the emulator's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

namespace cria::emulator {

inline float fromBFloat(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

inline float fromHalf(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, 2);
  return float(half);
}

/// The bits of a half.
inline uint16_t halfBits(float value) {
  auto half = _Float16(value);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

/// Rounds to `digits` binary digits after the first, as .rn, .rna, .rz, .rm or
/// .rp say, where the smallest exponent is `least`. Infinite beyond `most`, or
/// `most`, as the mode wants it.
inline double roundTo(long double value, const std::string &mode, int digits,
                      int least, double most) {
  if (value == 0 || !std::isfinite(value))
    return double(value);
  int exponent = std::max(std::ilogb(value), least);
  long double scaled = std::ldexp(value, digits - exponent);
  long double whole = mode == "rn"    ? std::nearbyint(scaled)
                      : mode == "rna" ? std::round(scaled)
                      : mode == "rz"  ? std::trunc(scaled)
                      : mode == "rm"  ? std::floor(scaled)
                                      : std::ceil(scaled);
  long double result =
      std::copysign(std::ldexp(whole, exponent - digits), value);
  if (std::abs(result) <= most)
    return double(result);
  bool stays = mode == "rz" || mode == (value < 0 ? "rp" : "rm");
  return std::copysign(stays ? most : double(INFINITY), double(value));
}

inline float roundToHalf(double value) {
  return float(roundTo(value, "rn", 10, -14, 65504));
}

inline float roundToBFloat(double value) {
  return float(roundTo(value, "rn", 7, -126, 3.3895313892515355e38));
}

inline uint16_t toBFloat(float value) {
  float rounded = roundToBFloat(value);
  uint32_t word;
  std::memcpy(&word, &rounded, 4);
  return uint16_t(word >> 16);
}

} // namespace cria::emulator
