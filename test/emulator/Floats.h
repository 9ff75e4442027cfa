/// Floats of 16 bits for tests, written apart from the emulator's.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace cria::emulator {

inline float fromBFloat(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

/// Rounds to `digits` binary digits after the first, nearest even, where the
/// smallest exponent is `least`. Infinite beyond `most`.
inline double roundTo(double value, int digits, int least, double most) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), least);
  double unit = std::ldexp(1.0, exponent - digits);
  double result = std::nearbyint(value / unit) * unit;
  return std::abs(result) > most ? std::copysign(INFINITY, value) : result;
}

inline float roundToHalf(double value) {
  return float(roundTo(value, 10, -14, 65504));
}

inline float roundToBFloat(double value) {
  return float(roundTo(value, 7, -126, 3.3895313892515355e38));
}

inline uint16_t toBFloat(float value) {
  float rounded = roundToBFloat(value);
  uint32_t word;
  std::memcpy(&word, &rounded, 4);
  return uint16_t(word >> 16);
}

} // namespace cria::emulator
