#include "lowering/import/gguf/Rope.h"

#include <algorithm>
#include <cmath>

namespace cria::gguf {

// The factors of Llama 3.1 to 3.3.
static constexpr double lowTurns = 1, highTurns = 4;

/// The divisor of a frequency in Llama 3.
static double llama3Factor(double frequency, double factor, double original) {
  double wavelength = 2 * 3.141592653589793 / frequency;
  if (wavelength < original / highTurns)
    return 1;
  if (wavelength > original / lowTurns)
    return factor;
  double smooth = (original / wavelength - lowTurns) / (highTurns - lowTurns);
  return 1 / ((1 - smooth) / factor + smooth);
}

/// Whether Llama 3's formula gives `factors` with these parameters.
static bool isLlama3(const std::vector<double> &factors, double base,
                     double factor, double original) {
  for (size_t i = 0; i < factors.size(); ++i) {
    double power = std::pow(base, static_cast<double>(i) /
                                      static_cast<double>(factors.size()));
    double expected = llama3Factor(1 / power, factor, original);
    if (!(std::abs(factors[i] - expected) <= 1e-5 * expected))
      return false;
  }
  return true;
}

nlohmann::json ropeOfFactors(const std::vector<double> &factors, double base) {
  double factor =
      factors.empty() ? 1 : *std::max_element(factors.begin(), factors.end());
  if (factor == 1 && isLlama3(factors, base, 1, 1))
    return {{"rope_type", "default"}};
  // 2^13 = 8192 is tried first, because all known models have it.
  for (int power : {13, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17}) {
    double original = std::pow(2.0, power);
    if (factor >= 1 && isLlama3(factors, base, factor, original))
      return {
          {"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", lowTurns},
          {"high_freq_factor", highTurns},
          {"original_max_position_embeddings", static_cast<int64_t>(original)}};
  }
  return {{"rope_type", "longrope"},
          {"short_factor", factors},
          {"long_factor", factors},
          {"attention_factor", 1.0}};
}

} // namespace cria::gguf
