/// Floats of 16 bits as floats of 32.
#pragma once

#include <cstdint>
#include <cstring>

namespace cria::emulator {

inline float floatOfBFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

inline float floatOfHalf(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, 2);
  return float(half);
}

/// The bits of the half that is nearest to `value`.
inline uint16_t bitsOfHalf(float value) {
  auto half = _Float16(value);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

} // namespace cria::emulator
