#include "runtime/weights/Blocks.h"

#include "runtime/base/Clones.h"
#include "runtime/weights/Floats.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

namespace cria {

/// The f16 at `from`.
static float scaleAt(const std::byte *from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return widenF16(bits);
}

static void putScale(std::byte *to, float scale) {
  uint16_t bits = narrowToF16(scale);
  std::memcpy(to, &bits, sizeof(bits));
}

CRIA_VECTOR_CLONES static void dequantizeQ8_0(const std::byte *from, float *to,
                                              uint64_t count) {
  for (uint64_t first = 0; first < count; first += 32, from += 34) {
    float d = scaleAt(from);
    auto *q = reinterpret_cast<const int8_t *>(from + 2);
    for (int i = 0; i < 32; ++i)
      to[first + i] = d * static_cast<float>(q[i]);
  }
}

CRIA_VECTOR_CLONES static void dequantizeQ4_0(const std::byte *from, float *to,
                                              uint64_t count) {
  for (uint64_t first = 0; first < count; first += 32, from += 18) {
    float d = scaleAt(from);
    auto *q = reinterpret_cast<const uint8_t *>(from + 2);
    for (int i = 0; i < 16; ++i) {
      to[first + i] = d * static_cast<float>((q[i] & 15) - 8);
      to[first + i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
    }
  }
}

/// The 6-bit numbers s and t (see Blocks.h) of group `j` in [0, 8). Groups 0 to
/// 3: s is the lower 6 bits of bytes 0 to 3, t those of bytes 4 to 7. Groups 4
/// to 7: the lower 4 bits of s and t are the halves of bytes 8 to 11; the upper
/// 2 bits of s are those of bytes 0 to 3, of t those of bytes 4 to 7.
static std::pair<int, int> groupScales(const uint8_t *packed, int j) {
  if (j < 4)
    return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | packed[j - 4] >> 6 << 4,
          packed[j + 4] >> 4 | packed[j] >> 6 << 4};
}

/// Q4_K and Q5_K. Byte i of 32 holds element i of two groups: the first group's
/// in the lower half, the next group's in the upper half. Bit j of byte i of
/// `high` is bit 4 of element i of group j.
CRIA_VECTOR_CLONES static void dequantizeK(const std::byte *from, DType type,
                                           float *to, uint64_t count) {
  uint64_t bytes = blockOf(type).bytes;
  int one = type == DType::Q5_K; // Q4_K has no bit 4
  for (uint64_t first = 0; first < count; first += 256, from += bytes)
    for (int j = 0; j < 8; ++j) {
      auto *packed = reinterpret_cast<const uint8_t *>(from + 4);
      auto [s, t] = groupScales(packed, j);
      float d = scaleAt(from) * static_cast<float>(s);
      float m = scaleAt(from + 2) * static_cast<float>(t);
      const uint8_t *high = packed + 12, *low = high + 32 * one + j / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        int q = (low[i] >> j % 2 * 4 & 15) | (high[i] >> j & one) << 4;
        to[first + j * 32 + i] = d * static_cast<float>(q) - m;
      }
    }
}

/// Q2_K and Q3_K. In each half of a block (128 elements), byte i of 32 holds
/// the lower 2 bits of elements i, i + 32, i + 64 and i + 96. Bit j of byte i
/// of Q3_K's 32 bytes is bit 2 of element 32 j + i. The s of group j of Q3_K
/// has its lower 4 bits in byte j % 8, in the upper half of the byte from group
/// 8 on; its upper 2 bits are bits 2 (j / 4) and above of byte 8 + j % 4.
static void dequantizeFewBits(const std::byte *from, DType type, float *to,
                              uint64_t count) {
  bool hasHigh = type == DType::Q3_K;
  uint64_t bytes = blockOf(type).bytes;
  for (uint64_t first = 0; first < count; first += 256, from += bytes)
    for (int j = 0; j < 16; ++j) { // groups of 16
      auto *block = reinterpret_cast<const uint8_t *>(from);
      const uint8_t *s = hasHigh ? block + 96 : block;
      const uint8_t *high = block + j % 2 * 16,
                    *low =
                        block + (hasHigh ? 32 : 16) + j / 8 * 32 + j % 2 * 16;
      float d, m = 0;
      if (hasHigh) {
        int scale =
            (s[j % 8] >> j / 8 * 4 & 15) | (s[8 + j % 4] >> j / 4 * 2 & 3) << 4;
        d = scaleAt(from + 108) * static_cast<float>(scale - 32);
      } else {
        d = scaleAt(from + 80) * static_cast<float>(s[j] & 15);
        m = scaleAt(from + 82) * static_cast<float>(s[j] >> 4);
      }
      for (int i = 0; i < 16; ++i) {
        int q = low[i] >> j / 2 % 4 * 2 & 3;
        if (hasHigh)
          q += (high[i] >> j / 2 & 1) * 4 - 4;
        to[first + static_cast<uint64_t>(j * 16 + i)] =
            d * static_cast<float>(q) - m;
      }
    }
}

/// IQ4_NL and IQ4_XS. The s of group j of IQ4_XS has its upper 2 bits in two
/// bytes for all groups, and its lower 4 bits in the four bytes after them.
static void dequantizeValues(const std::byte *from, DType type, float *to,
                             uint64_t count) {
  static constexpr float v[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
  auto [elements, bytes] = blockOf(type);
  for (uint64_t first = 0; first < count; first += elements, from += bytes)
    for (uint64_t j = 0; j < elements / 32; ++j) {
      auto *block = reinterpret_cast<const uint8_t *>(from);
      float d = scaleAt(from);
      if (type == DType::IQ4_XS) {
        int scale = (block[4 + j / 2] >> j % 2 * 4 & 15) |
                    (block[2 + j / 4] >> j % 4 * 2 & 3) << 4;
        d *= static_cast<float>(scale - 32);
      }
      const uint8_t *q = block + bytes - elements / 2 + j * 16;
      for (uint64_t i = 0; i < 16; ++i) {
        to[first + j * 32 + i] = d * v[q[i] & 15];
        to[first + j * 32 + i + 16] = d * v[q[i] >> 4];
      }
    }
}

/// Q4_1, Q5_0 and Q5_1.
static void dequantizeHalves(const std::byte *from, DType type, float *to,
                             uint64_t count) {
  uint64_t bytes = blockOf(type).bytes;
  bool hasHigh = type != DType::Q4_1, hasMin = type != DType::Q5_0;
  for (uint64_t first = 0; first < count; first += 32, from += bytes) {
    auto *q = reinterpret_cast<const uint8_t *>(from + bytes - 16);
    float d = scaleAt(from), m = hasMin ? scaleAt(from + 2) : 0;
    uint32_t high = 0;
    if (hasHigh)
      std::memcpy(&high, q - 4, sizeof(high));
    for (int i = 0; i < 32; ++i) {
      int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
      int whole = low | static_cast<int>(high >> i & 1) << 4;
      float x = d * static_cast<float>(hasMin ? whole : whole - 16);
      to[first + static_cast<uint64_t>(i)] = hasMin ? x + m : x;
    }
  }
}

/// In each half of a block (128 elements), byte i of 64 holds the lower 4 bits
/// of elements i and i + 64. Byte i of 32 holds the upper 2 bits of elements i,
/// i + 32, i + 64 and i + 96.
CRIA_VECTOR_CLONES static void dequantizeQ6_K(const std::byte *from, float *to,
                                              uint64_t count) {
  for (uint64_t first = 0; first < count; first += 256, from += 210)
    for (int j = 0; j < 16; ++j) { // groups of 16
      int half = j / 8, part = j / 2 % 4, at = j % 2 * 16;
      auto *bytes = reinterpret_cast<const uint8_t *>(from);
      const uint8_t *low = bytes + half * 64 + part % 2 * 32 + at;
      const uint8_t *high = bytes + 128 + half * 32 + at;
      auto s = static_cast<int8_t>(bytes[192 + j]);
      float d = scaleAt(from + 208) * static_cast<float>(s);
      for (int i = 0; i < 16; ++i) {
        int q = (low[i] >> part / 2 * 4 & 15) | (high[i] >> part * 2 & 3) << 4;
        to[first + j * 16 + i] = d * static_cast<float>(q - 32);
      }
    }
}

/// A float of 4 bits has a sign, 2 bits of an exponent and one of a fraction.
/// An exponent of 255 makes 2^128, which only 0.5 has as a finite product.
static void dequantizeMxfp4(const std::byte *from, float *to, uint64_t count) {
  static constexpr float twice[] = {0, 1,  2,  3,  4,  6,  8,  12,
                                    0, -1, -2, -3, -4, -6, -8, -12};
  for (uint64_t first = 0; first < count; first += 32, from += 17) {
    auto s = static_cast<uint32_t>(*from);
    // 2^(s - 128), which is subnormal for the first two.
    float half = floatOf(s < 2 ? 0x00200000u << s : (s - 1) << 23);
    auto *q = reinterpret_cast<const uint8_t *>(from + 1);
    for (int i = 0; i < 16; ++i) {
      to[first + i] = half * twice[q[i] & 15];
      to[first + i + 16] = half * twice[q[i] >> 4];
    }
  }
}

void dequantize(const std::byte *from, DType type, float *to, uint64_t count) {
  if (type == DType::Q8_0)
    dequantizeQ8_0(from, to, count);
  else if (type == DType::Q4_0)
    dequantizeQ4_0(from, to, count);
  else if (type == DType::Q4_K || type == DType::Q5_K)
    dequantizeK(from, type, to, count);
  else if (type == DType::Q6_K)
    dequantizeQ6_K(from, to, count);
  else if (type == DType::Q2_K || type == DType::Q3_K)
    dequantizeFewBits(from, type, to, count);
  else if (type == DType::IQ4_NL || type == DType::IQ4_XS)
    dequantizeValues(from, type, to, count);
  else if (type == DType::MXFP4)
    dequantizeMxfp4(from, to, count);
  else
    dequantizeHalves(from, type, to, count);
}

/// 1 / d, or 0 if that is not finite: the whole block then becomes zeros.
static float inverse(float d) {
  float inverted = 1 / d;
  return std::abs(inverted) <= FLT_MAX ? inverted : 0;
}

/// The bits of the largest magnitude of a block. Magnitudes have the same order
/// as their bits have as integers, and NaN is the largest.
static uint32_t mostBits(const float *from) {
  uint32_t most = 0;
  for (int i = 0; i < 32; ++i)
    most = std::max(most, bitsOf(from[i]) & 0x7fffffff);
  return most;
}

/// Rounds to the nearest integer, ties away from zero, for |value| < 2^22. Adds
/// the float just below one half and truncates. A value below a tie stays below
/// the next integer; for a tie, the addition itself rounds up to the next
/// integer.
static int roundAway(float value) {
  uint32_t half = (bitsOf(value) & 0x80000000) | 0x3effffff;
  return static_cast<int>(value + floatOf(half));
}

CRIA_VECTOR_CLONES static void quantizeQ8_0(const float *from, std::byte *to,
                                            uint64_t count) {
  for (uint64_t first = 0; first < count; first += 32, to += 34) {
    const float *x = from + first;
    float d = floatOf(mostBits(x)) / 127;
    float inverted = inverse(d);
    putScale(to, d);
    auto *q = reinterpret_cast<int8_t *>(to + 2);
    if (!std::isfinite(d)) {
      std::memset(q, 0, 32);
      continue;
    }
    for (int i = 0; i < 32; ++i)
      q[i] = static_cast<int8_t>(roundAway(x[i] * inverted));
  }
}

/// The element of largest magnitude, with its sign: the first one if there are
/// several, 0 if all are zeros of either sign.
static float extreme(const float *from) {
  uint32_t most = mostBits(from);
  int at = 31;
  for (int i = 0; i < 32; ++i)
    at = std::min(at, (bitsOf(from[i]) & 0x7fffffff) == most ? i : 31);
  return most ? from[at] : 0;
}

CRIA_VECTOR_CLONES static void quantizeQ4_0(const float *from, std::byte *to,
                                            uint64_t count) {
  for (uint64_t first = 0; first < count; first += 32, to += 18) {
    const float *x = from + first;
    float d = extreme(x) / -8;
    float inverted = inverse(d);
    putScale(to, d);
    auto *q = reinterpret_cast<uint8_t *>(to + 2);
    if (!std::isfinite(d)) {
      std::memset(q, 0x88, 16);
      continue;
    }
    for (int i = 0; i < 16; ++i) {
      int low = static_cast<int>(x[i] * inverted + 8.5f);
      int high = static_cast<int>(x[i + 16] * inverted + 8.5f);
      q[i] = static_cast<uint8_t>(std::min(low, 15) | std::min(high, 15) << 4);
    }
  }
}

/// The product with an inverse may be a little above 448, the largest float.
CRIA_VECTOR_CLONES static void quantizeFp8(const float *from, std::byte *to,
                                           uint64_t count) {
  for (uint64_t first = 0; first < count; first += 32, to += 34) {
    const float *x = from + first;
    putScale(to, floatOf(mostBits(x)) * (256.0f / 448));
    float d = scaleAt(to), inverted = inverse(d) * 256;
    if (!std::isfinite(d)) {
      std::memset(to + 2, 0, 32);
      continue;
    }
    for (int i = 0; i < 32; ++i)
      to[2 + i] = static_cast<std::byte>(narrowToF8(x[i] * inverted));
  }
}

void quantize(const float *from, std::byte *to, DType type, uint64_t count) {
  if (type == DType::Q8_0)
    quantizeQ8_0(from, to, count);
  else if (type == DType::FP8)
    quantizeFp8(from, to, count);
  else
    quantizeQ4_0(from, to, count);
}

} // namespace cria
