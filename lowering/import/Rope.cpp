/// Every operation below is one f32 operation of torch. What Python computes
/// in double before a tensor is involved is computed in double here; a scalar
/// that meets a tensor is rounded to f32; `scalar / tensor` is the tensor's
/// reciprocal times the scalar. Compiled without contraction to fused
/// multiply-adds.
#include "lowering/import/Rope.h"

#include <cmath>

using namespace cria;

/// base ** exponent, correctly rounded but for the rarest of cases. Torch's
/// vectorized pow may be one unit in the last place away.
static float power(double base, float exponent) {
  return static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(base)),
               static_cast<double>(exponent)));
}

/// Llama 3.1 stretches low frequencies to a longer context and blends between.
static float scaleLlama3(const RopeConfig &rope, float frequency) {
  const float lowWavelength = rope.originalPositions / rope.lowFreqFactor;
  const float highWavelength = rope.originalPositions / rope.highFreqFactor;
  const float factor = rope.factor;
  const float wavelength =
      (1.0f / frequency) * static_cast<float>(2 * 3.141592653589793);
  const float scaled =
      wavelength > lowWavelength ? frequency / factor : frequency;
  if (wavelength < highWavelength || wavelength > lowWavelength)
    return scaled;
  const float periods =
      (1.0f / wavelength) * static_cast<float>(rope.originalPositions);
  const float smooth =
      (periods - static_cast<float>(rope.lowFreqFactor)) /
      static_cast<float>(rope.highFreqFactor - rope.lowFreqFactor);
  const float stretched = (1.0f - smooth) * scaled / factor;
  const float kept = smooth * scaled;
  return stretched + kept;
}

std::vector<float> cria::inverseFrequencies(const RopeConfig &rope,
                                            int64_t headDim) {
  std::vector<float> result;
  for (int64_t i = 0; i < headDim; i += 2) {
    float exponent = static_cast<float>(i) / static_cast<float>(headDim);
    float frequency = 1.0f / power(rope.theta, exponent);
    if (rope.kind == RopeConfig::Kind::Llama3)
      frequency = scaleLlama3(rope, frequency);
    result.push_back(frequency);
  }
  return result;
}
