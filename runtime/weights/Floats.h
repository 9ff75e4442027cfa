/// Conversions between storage types: exact where they widen, rounded once to
/// nearest even where they narrow.
///
/// A narrowing goes through f32. Rounding twice would be wrong in rare ties, so
/// a double first becomes the f32 *rounded to odd*: truncated, with its last
/// bit set if anything was lost. f32 has more than two bits beyond f16 and
/// bf16, so that bit keeps the second rounding on the right side of every tie.
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cria {

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float widenBf16(uint16_t bits) {
  return floatOf(static_cast<uint32_t>(bits) << 16);
}

/// The bf16 nearest to `value`, ties to even; NaN stays NaN.
inline uint16_t narrowToBf16(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>((isNan ? bits | 0x400000 : rounded) >> 16);
}

inline float widenF16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t rest = static_cast<uint32_t>(bits & 0x7fff) << 13;
  if (rest >= 0x7c00u << 13) // infinity, NaN
    return floatOf(sign | 0x7f800000 | (rest & 0x7fffff));
  // The exponent's bias grows from 15 to 127; a product does so for subnormal
  // numbers as well.
  return floatOf(sign | bitsOf(floatOf(rest) * 0x1p112f));
}

/// A float of 8 bits, 4 of exponent and 3 of mantissa: no infinities, and NaN
/// where all seven bits are set (OCP's E4M3).
inline float widenF8(uint8_t bits) {
  uint32_t rest = bits & 0x7f;
  uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  if (rest == 0x7f)
    return floatOf(sign | 0x7fc00000);
  // As with f16, from a bias of 7.
  return floatOf(sign | bitsOf(floatOf(rest << 20) * 0x1p120f));
}

/// The E4M3 nearest to a finite `value`, ties to even; at most 448.
inline uint8_t narrowToF8(float value) {
  uint32_t bits = bitsOf(value), sign = bits >> 24 & 0x80;
  bits &= 0x7fffffff;
  uint32_t result;
  if (bits < 0x3c800000) // subnormal, below 2^-6, in units of 2^-9
    result = bitsOf(floatOf(bits) + 0x1p14f) - bitsOf(0x1p14f);
  else
    result = (bits - (120u << 23) + 0x7ffff + (bits >> 20 & 1)) >> 20;
  return static_cast<uint8_t>(sign | (result < 0x7e ? result : 0x7e));
}

/// The f16 nearest to `value`, ties to even; NaN stays NaN.
inline uint16_t narrowToF16(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  uint32_t result;
  if (bits > 0x7f800000)
    result = 0x7e00 | (bits >> 13 & 0x3ff); // NaN
  else if (bits >= 0x47800000)              // 65536 and more
    result = 0x7c00;
  else if (bits < 0x38800000) // subnormal: let the FPU round, in units of 2^-24
    result = bitsOf(floatOf(bits) + 0.5f) - bitsOf(0.5f);
  else
    result = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  return static_cast<uint16_t>(sign | result);
}

/// `value` rounded to odd; see above.
inline float roundToOdd(double value) {
  float nearest = static_cast<float>(value);
  double back = static_cast<double>(nearest);
  uint32_t bits = bitsOf(nearest);
  // Rounded away from zero: step back to the truncated value. What is beyond
  // f32 has become infinity and steps back to the largest finite number.
  bool away = (value > 0 && back > value) || (value < 0 && back < value);
  bits -= away ? 1 : 0;
  return floatOf(bits | (back != value && value == value ? 1 : 0));
}

/// Converts `count` elements, whole blocks; source and target need no
/// alignment. Any type may become a plain one, Q8_0, Q4_0 or FP8. Conversions
/// from or to a block format go through f32.
void convertElements(const std::byte *from, DType fromType, std::byte *to,
                     DType toType, uint64_t count);

/// Whether every value of type `from` exists in type `to`. The values of a
/// block format are the results of `dequantize`.
bool isExact(DType from, DType to);

} // namespace cria
