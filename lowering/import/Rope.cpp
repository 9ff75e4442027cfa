/// Every operation below is one f32 operation of torch. Values that Python
/// computes in double, before a tensor is involved, are computed in double
/// here. A scalar that is combined with a tensor is rounded to f32.
/// `scalar / tensor` is the tensor's reciprocal times the scalar. This file is
/// compiled without contraction to fused multiply-adds.
#include "lowering/import/Rope.h"

#include <algorithm>
#include <cmath>

using namespace cria;

/// base ** exponent, correctly rounded except in very rare cases. Torch's
/// vectorized pow may differ by one unit in the last place.
static float power(double base, float exponent) {
  return static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(base)),
               static_cast<double>(exponent)));
}

/// Llama 3.1 stretches low frequencies to a longer context, keeps high ones,
/// and blends between them.
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

/// Blends a kept frequency and a stretched one: `kept` is the weight of the
/// former, from 0 to 1.
static float scaleYarn(const RopeConfig &rope, float frequency, float power,
                       float kept) {
  const float factor = rope.factor;
  const float stretched = 1.0f / (factor * power);
  return stretched * (1.0f - kept) + frequency * kept;
}

/// The weight `kept` of yarn for each frequency.
static std::vector<float> yarnRamp(const RopeConfig &rope) {
  const double dims = rope.dims, pi = 3.141592653589793;
  auto dimension = [&](double turns) {
    return dims * std::log(rope.originalPositions / (turns * 2 * pi)) /
           (2 * std::log(rope.theta));
  };
  double low = dimension(rope.betaFast), high = dimension(rope.betaSlow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high)
    high += 0.001;
  std::vector<float> kept;
  for (int64_t i = 0; i < rope.dims / 2; ++i) {
    float ramp = (static_cast<float>(i) - static_cast<float>(low)) /
                 static_cast<float>(high - low);
    kept.push_back(1.0f - std::clamp(ramp, 0.0f, 1.0f));
  }
  return kept;
}

/// base ** (2i / dims) for each frequency.
static std::vector<float> powers(const RopeConfig &rope) {
  std::vector<float> result;
  for (int64_t i = 0; i < rope.dims; i += 2)
    result.push_back(power(rope.theta, static_cast<float>(i) /
                                           static_cast<float>(rope.dims)));
  return result;
}

/// 1 / (factor * power) of longrope.
static std::vector<float> divided(const RopeConfig &rope,
                                  const std::vector<double> &factors) {
  std::vector<float> result = powers(rope);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = 1.0f / (static_cast<float>(factors[i]) * result[i]);
  return result;
}

std::vector<float> cria::longInverseFrequencies(const RopeConfig &rope) {
  return divided(rope, rope.longFactors);
}

std::vector<float> cria::inverseFrequencies(const RopeConfig &rope) {
  using Kind = RopeConfig::Kind;
  if (rope.kind == Kind::LongRope)
    return divided(rope, rope.shortFactors);
  std::vector<float> result = powers(rope), kept;
  if (rope.kind == Kind::Yarn)
    kept = yarnRamp(rope);
  for (size_t i = 0; i < result.size(); ++i) {
    const float power = result[i];
    result[i] = 1.0f / power;
    if (rope.kind == Kind::Linear)
      result[i] /= static_cast<float>(rope.factor);
    else if (rope.kind == Kind::Llama3)
      result[i] = scaleLlama3(rope, result[i]);
    else if (rope.kind == Kind::Yarn)
      result[i] = scaleYarn(rope, result[i], power, kept[i]);
    else if (rope.kind == Kind::Proportional &&
             static_cast<int64_t>(i) >= rope.zerosFrom)
      result[i] = 0;
  }
  return result;
}
