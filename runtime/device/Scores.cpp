#include "runtime/device/Scores.h"
#include "runtime/Abi.h"
#include "runtime/base/Clones.h"
#include "runtime/weights/Floats.h"

#include <cfloat>
#include <cmath>
#include <cstring>

namespace cria {

static constexpr float powerSeries[] = CRIA_POWER_SERIES;

// No templates: see CRIA_PLAIN_CLONES.
static float larger(float a, float b) { return a < b ? b : a; }
static int32_t larger(int32_t a, int32_t b) { return a < b ? b : a; }

/// The weight before it is rounded down to an integer.
static float power(float score, float best, float scale) {
  // Keeps the difference finite: infinity times a scale of 0 would be NaN.
  float y = larger(score - best, -FLT_MAX) * scale;
  y = larger(y, -float(CRIA_WEIGHT_BITS + 1));
  float whole = (y + 0x1.8p23f) - 0x1.8p23f; // nearest, ties to even
  float rest = y - whole;
  float sum = powerSeries[0];
  for (size_t i = 1; i < sizeof(powerSeries) / sizeof(float); ++i)
    sum = sum * rest + powerSeries[i];
  int32_t exponent = static_cast<int32_t>(whole) + CRIA_WEIGHT_BITS + 127;
  // Times 2^(whole + CRIA_WEIGHT_BITS).
  return sum * floatOf(static_cast<uint32_t>(exponent) << 23);
}

uint64_t weigh(float score, float best, float scale) {
  return static_cast<uint64_t>(static_cast<int64_t>(power(score, best, scale)));
}

CRIA_PLAIN_CLONES uint64_t weighBlock(const float *scores, size_t count,
                                      float best, float scale, float least,
                                      uint64_t leastWeight, uint64_t *weights) {
  float powers[kScoreBlock];
  for (size_t i = 0; i < count; ++i)
    powers[i] = scores[i] < least ? 0 : power(scores[i], best, scale);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    auto weight = static_cast<uint64_t>(static_cast<int64_t>(powers[i]));
    weights[i] = weight < leastWeight ? 0 : weight;
    sum += weights[i];
  }
  return sum;
}

CRIA_PLAIN_CLONES bool areFinite(const float *scores, size_t count) {
  int32_t most = 0;
  for (size_t i = 0; i < count; ++i)
    most = larger(most, static_cast<int32_t>(bitsOf(scores[i]) & INT32_MAX));
  return most < 0x7f800000; // infinity
}

/// The bits of a float as an integer of the same order, or back. Compilers make
/// vectors of loops that compare these.
static int32_t ordered(int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); }

CRIA_PLAIN_CLONES float bestOf(const float *scores, size_t count) {
  int32_t most = INT32_MIN;
  for (size_t i = 0; i < count; ++i)
    most = larger(most, ordered(static_cast<int32_t>(bitsOf(scores[i]))));
  return floatOf(static_cast<uint32_t>(ordered(most)));
}

/// 1 / k! for k = 13 to 0: e^x for |x| <= ln(2) / 2, relative error 5e-18.
static constexpr double expSeries[] = {1.0 / 6227020800,
                                       1.0 / 479001600,
                                       1.0 / 39916800,
                                       1.0 / 3628800,
                                       1.0 / 362880,
                                       1.0 / 40320,
                                       1.0 / 5040,
                                       1.0 / 720,
                                       1.0 / 120,
                                       1.0 / 24,
                                       1.0 / 6,
                                       1.0 / 2,
                                       1.0,
                                       1.0};

/// e^x for x of at most 0, or at least e^-700.
static double expOf(double x) {
  constexpr double magic = 0x1.8p52; // its low bits count ones
  x = x < -700 ? -700 : x;
  double shifted = x * 1.4426950408889634 + magic, whole = shifted - magic;
  double rest = x - whole * 0x1.62e42fefa39efp-1;
  double sum = expSeries[0];
  for (size_t i = 1; i < sizeof(expSeries) / sizeof(double); ++i)
    sum = sum * rest + expSeries[i];
  uint64_t exponent;
  std::memcpy(&exponent, &shifted, sizeof(exponent));
  exponent = (exponent + 1023) << 52;
  double power; // 2^whole
  std::memcpy(&power, &exponent, sizeof(power));
  return sum * power;
}

CRIA_PLAIN_CLONES double sumOfExps(const float *scores, size_t count,
                                   float best) {
  constexpr size_t lanes = 8;
  double sums[lanes] = {};
  size_t whole = count - count % lanes;
  for (size_t i = 0; i < whole; i += lanes)
    for (size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += expOf(static_cast<double>(scores[i + lane]) - best);
  double sum = 0;
  for (double one : sums)
    sum += one;
  for (size_t i = whole; i < count; ++i)
    sum += expOf(static_cast<double>(scores[i]) - best);
  return sum;
}

} // namespace cria
