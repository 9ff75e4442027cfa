#include "tools/bench/Units.h"

#include "runtime/cpu/Features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cria::bench {

#if defined(__x86_64__)

// Each loop keeps 24 independent accumulators in registers: more than latency
// times throughput on every CPU so far. The empty asm hides from the compiler
// that operands do not change.

__attribute__((target("avx512f"))) static double fma512(int64_t rounds) {
  __m512 sums[24] = {}, a = _mm512_set1_ps(1.0f), b = _mm512_set1_ps(0.5f);
  for (__m512 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+v"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(a, b, sum);
  }
  for (__m512 &sum : sums)
    __asm__ volatile("" ::"v"(sum));
  return static_cast<double>(rounds) * 24 * 16 * 2;
}

__attribute__((target("avx2,fma"))) static double fma256(int64_t rounds) {
  __m256 sums[12] = {}, a = _mm256_set1_ps(1.0f), b = _mm256_set1_ps(0.5f);
  for (__m256 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+x"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(a, b, sum);
  }
  for (__m256 &sum : sums)
    __asm__ volatile("" ::"x"(sum));
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

static double multiplyAdd128(int64_t rounds) {
  __m128 sums[12] = {}, a = _mm_set1_ps(1.0f), b = _mm_set1_ps(0.5f);
  for (__m128 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+x"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (__m128 &sum : sums)
      sum = _mm_add_ps(_mm_mul_ps(a, b), sum);
  }
  for (__m128 &sum : sums)
    __asm__ volatile("" ::"x"(sum));
  return static_cast<double>(rounds) * 12 * 4 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) static double
dotBf16(int64_t rounds) {
  __m512 sums[24] = {};
  __m512i ones = _mm512_set1_epi32(0x3f803f80);
  __m512bh a = (__m512bh)ones, b = (__m512bh)ones;
  for (__m512 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+v"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
    for (__m512 &sum : sums)
      sum = _mm512_dpbf16_ps(sum, a, b);
  }
  for (__m512 &sum : sums)
    __asm__ volatile("" ::"v"(sum));
  return static_cast<double>(rounds) * 24 * 32 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) static double
dotBytes512(int64_t rounds) {
  __m512i sums[24] = {}, a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(1);
  for (__m512i &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+v"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
    for (__m512i &sum : sums)
      sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  for (__m512i &sum : sums)
    __asm__ volatile("" ::"v"(sum));
  return static_cast<double>(rounds) * 24 * 64 * 2;
}

__attribute__((target("avx2"))) static double multiplyWords(int64_t rounds) {
  __m256i sums[12] = {}, a = _mm256_set1_epi16(1), b = _mm256_set1_epi16(1);
  for (__m256i &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+x"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (__m256i &sum : sums) {
      __m256i products = _mm256_madd_epi16(a, b);
      __asm__("" : "+x"(products)); // each product anew
      sum = _mm256_add_epi32(sum, products);
    }
  }
  for (__m256i &sum : sums)
    __asm__ volatile("" ::"x"(sum));
  return static_cast<double>(rounds) * 12 * 16 * 2;
}

namespace {
/// What ldtilecfg reads: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);
} // namespace

/// Makes all tiles zeros of 16 rows of 64 bytes.
__attribute__((target("amx-tile"))) static void zeroTiles() {
  // GCC 12's _tile_loadconfig names 8 bytes as the input of ldtilecfg, so that
  // the compiler need not store the others. Here it is the whole object.
  static constexpr TileConfiguration configuration;
  __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

/// 2 x 2 tiles of 16 x 16 sums, from 2 + 2 tiles of 16 x 32 bf16.
__attribute__((target("amx-tile,amx-bf16"))) static double
tilesBf16(int64_t rounds) {
  zeroTiles();
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

/// As tilesBf16, of 16 x 64 integers of 8 bits.
__attribute__((target("amx-tile,amx-int8"))) static double
tilesBytes(int64_t rounds) {
  zeroTiles();
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 64 * 2;
}

std::vector<Unit> unitsFor(DType type) {
  auto has = [](const char *feature) {
    return missingCpuFeatures({feature}).empty();
  };
  std::vector<Unit> units;
  if (has("avx512f"))
    units.push_back({"f32 FMA, 512 bits", fma512});
  else if (has("fma") && has("avx2"))
    units.push_back({"f32 FMA, 256 bits", fma256});
  else
    units.push_back({"f32 multiply and add, 128 bits", multiplyAdd128});
  if (type == DType::BF16 && has("avx512bf16"))
    units.push_back({"vdpbf16ps", dotBf16});
  if (type == DType::BF16 && has("amx-bf16") && permitTiles({"amx-bf16"}))
    units.push_back({"tdpbf16ps", tilesBf16});
  if (!isBlocked(type))
    return units;
  if (has("avx512vnni"))
    units.push_back({"vpdpbusd", dotBytes512});
  else if (has("avx2"))
    units.push_back({"vpmaddwd", multiplyWords});
  if (has("amx-int8") && permitTiles({"amx-int8"}))
    units.push_back({"tdpbssd", tilesBytes});
  return units;
}

#else

static double multiplyAdd(int64_t rounds) {
  float sums[32] = {};
  for (int64_t round = 0; round < rounds; ++round)
    for (float &sum : sums)
      sum = sum * 0.5f + 1.0f;
  for (float &sum : sums)
    __asm__ volatile("" ::"m"(sum));
  return static_cast<double>(rounds) * 32 * 2;
}

std::vector<Unit> unitsFor(DType) { return {{"f32 loop", multiplyAdd}}; }

#endif

} // namespace cria::bench
