#include "tools/bench/Units.h"

#include "runtime/base/Features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cria::bench {

#if defined(__x86_64__)

/// Defines a loop that keeps COUNT independent sums in registers: more than
/// latency times throughput on every CPU so far. Each turn computes every `sum`
/// from the operands a and b, which are ONES at first, by the expression STEP;
/// it counts OPERATIONS for each sum. (It is a macro because a template does
/// not have its argument's target.) The empty asm hides from the compiler that
/// operands do not change and that sums are equal.
#define CRIA_UNIT(NAME, TARGET, SUM, COUNT, ONES, STEP, OPERATIONS)            \
  __attribute__((target(TARGET))) static double NAME(int64_t rounds) {         \
    SUM sums[COUNT] = {};                                                      \
    auto a = ONES, b = ONES;                                                   \
    for (SUM & sum : sums)                                                     \
      __asm__ volatile("" : "+v"(sum));                                        \
    for (int64_t round = 0; round < rounds; ++round) {                         \
      __asm__("" : "+v"(a), "+v"(b));                                          \
      _Pragma("GCC unroll 24") for (SUM & sum : sums) sum = STEP;              \
    }                                                                          \
    for (SUM & sum : sums)                                                     \
      __asm__ volatile("" ::"v"(sum));                                         \
    return static_cast<double>(rounds) * (COUNT) * (OPERATIONS);               \
  }

/// sum + a * b of pairs of words. Each product is computed again.
__attribute__((target("avx2"))) static inline __m256i
addWords(__m256i sum, __m256i a, __m256i b) {
  __m256i products = _mm256_madd_epi16(a, b);
  __asm__("" : "+x"(products));
  return _mm256_add_epi32(sum, products);
}

CRIA_UNIT(fma512, "avx512f", __m512, 24, _mm512_set1_ps(1),
          _mm512_fmadd_ps(a, b, sum), 16 * 2)
CRIA_UNIT(fma256, "avx2,fma", __m256, 12, _mm256_set1_ps(1),
          _mm256_fmadd_ps(a, b, sum), 8 * 2)
CRIA_UNIT(multiplyAdd128, "sse2", __m128, 12, _mm_set1_ps(1),
          _mm_add_ps(_mm_mul_ps(a, b), sum), 4 * 2)
CRIA_UNIT(dotBf16, "avx512f,avx512bf16", __m512, 24,
          (__m512bh)_mm512_set1_epi32(0x3f803f80), _mm512_dpbf16_ps(sum, a, b),
          32 * 2)
CRIA_UNIT(dotBytes512, "avx512f,avx512vnni", __m512i, 24, _mm512_set1_epi8(1),
          _mm512_dpbusd_epi32(sum, a, b), 64 * 2)
CRIA_UNIT(multiplyWords, "avx2", __m256i, 12, _mm256_set1_epi16(1),
          addWords(sum, a, b), 16 * 2)

#undef CRIA_UNIT

namespace {
/// The operand of ldtilecfg: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);
} // namespace

/// Sets all tiles to zeros of 16 rows of 64 bytes.
__attribute__((target("amx-tile"))) static void zeroTiles() {
  // GCC 12's _tile_loadconfig names only 8 bytes as the input of ldtilecfg, so
  // that the compiler need not store the others. Here the input is the whole
  // object.
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

/// 2 x 2 tiles of 16 x 16 sums, from two tiles of A and two of B of 16 x 32
/// bf16.
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

/// Like tilesBf16, with 16 x 64 integers of 8 bits.
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
