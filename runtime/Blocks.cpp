#include "runtime/Blocks.h"

#include "runtime/Floats.h"
#include "runtime/cpu/Clones.h"

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

/// The 6-bit numbers of group `j` in [0, 8): s and t in the terms of Blocks.h.
/// Bytes 0 to 3 and 4 to 7 hold those of groups 0 to 3, and in their upper bits
/// the upper bits of the others; bytes 8 to 11 have the lower bits of those.
static std::pair<int, int> groupScales(const uint8_t *packed, int j) {
  if (j < 4)
    return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | packed[j - 4] >> 6 << 4,
          packed[j + 4] >> 4 | packed[j] >> 6 << 4};
}

/// Byte i of 32 holds element i of one group and of the next.
CRIA_VECTOR_CLONES static void dequantizeQ4_K(const std::byte *from, float *to,
                                              uint64_t count) {
  for (uint64_t first = 0; first < count; first += 256, from += 144)
    for (int j = 0; j < 8; ++j) {
      auto *packed = reinterpret_cast<const uint8_t *>(from + 4);
      auto [s, t] = groupScales(packed, j);
      float d = scaleAt(from) * static_cast<float>(s);
      float m = scaleAt(from + 2) * static_cast<float>(t);
      const uint8_t *q = packed + 12 + j / 2 * 32;
      for (int i = 0; i < 32; ++i)
        to[first + j * 32 + i] =
            d * static_cast<float>(q[i] >> j % 2 * 4 & 15) - m;
    }
}

/// Of each half of a block, byte i of 64 holds the lower bits of elements i and
/// i + 64, and byte i of 32 the upper bits of i, i + 32, i + 64 and i + 96.
CRIA_VECTOR_CLONES static void dequantizeQ6_K(const std::byte *from, float *to,
                                              uint64_t count) {
  for (uint64_t first = 0; first < count; first += 256, from += 210)
    for (int j = 0; j < 8; ++j) { // groups of 32
      int half = j / 4, part = j % 4;
      auto *bytes = reinterpret_cast<const uint8_t *>(from);
      const uint8_t *low = bytes + half * 64 + part % 2 * 32;
      const uint8_t *high = bytes + 128 + half * 32;
      auto *scales = reinterpret_cast<const int8_t *>(from + 192);
      for (int i = 0; i < 32; ++i) {
        float d =
            scaleAt(from + 208) * static_cast<float>(scales[j * 2 + i / 16]);
        int q = (low[i] >> part / 2 * 4 & 15) | (high[i] >> part * 2 & 3) << 4;
        to[first + j * 32 + i] = d * static_cast<float>(q - 32);
      }
    }
}

void dequantize(const std::byte *from, DType type, float *to, uint64_t count) {
  if (type == DType::Q8_0)
    dequantizeQ8_0(from, to, count);
  else if (type == DType::Q4_0)
    dequantizeQ4_0(from, to, count);
  else if (type == DType::Q4_K)
    dequantizeQ4_K(from, to, count);
  else
    dequantizeQ6_K(from, to, count);
}

/// 1 / d; 0 where that is not finite, as if all of the block were zero.
static float inverse(float d) {
  float inverted = 1 / d;
  return std::abs(inverted) <= FLT_MAX ? inverted : 0;
}

/// The bits of the largest magnitude of a block. As integers magnitudes compare
/// like numbers, and NaN is the largest.
static uint32_t mostBits(const float *from) {
  uint32_t most = 0;
  for (int i = 0; i < 32; ++i)
    most = std::max(most, bitsOf(from[i]) & 0x7fffffff);
  return most;
}

/// `value`, or 0 where an integer cannot hold it: a block has no such values
/// unless its scale is not finite.
static float small(float value) {
  return value > -256 && value < 256 ? value : 0;
}

CRIA_VECTOR_CLONES static void quantizeQ8_0(const float *from, std::byte *to,
                                            uint64_t count) {
  for (uint64_t first = 0; first < count; first += 32, to += 34) {
    const float *x = from + first;
    float d = floatOf(mostBits(x)) / 127;
    float inverted = inverse(d);
    putScale(to, d);
    auto *q = reinterpret_cast<int8_t *>(to + 2);
    for (int i = 0; i < 32; ++i) {
      // To the nearest, ties away from zero.
      float value = small(x[i] * inverted);
      auto whole = static_cast<int32_t>(value);
      float rest = value - static_cast<float>(whole);
      q[i] = static_cast<int8_t>(whole + (rest >= 0.5f) - (rest <= -0.5f));
    }
  }
}

/// The element of largest magnitude with its sign: the first of several; 0
/// where all are zeros of either sign.
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
    for (int i = 0; i < 16; ++i) {
      int low = static_cast<int32_t>(small(x[i] * inverted) + 8.5f);
      int high = static_cast<int32_t>(small(x[i + 16] * inverted) + 8.5f);
      q[i] = static_cast<uint8_t>(std::min(low, 15) | std::min(high, 15) << 4);
    }
  }
}

void quantize(const float *from, std::byte *to, DType type, uint64_t count) {
  if (type == DType::Q8_0)
    quantizeQ8_0(from, to, count);
  else
    quantizeQ4_0(from, to, count);
}

} // namespace cria
