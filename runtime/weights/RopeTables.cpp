#include "runtime/weights/RopeTables.h"

#include <algorithm>
#include <cmath>

namespace cria {

static float power(float base, float exponent) {
  return static_cast<float>(
      std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

/// The frequencies for a text of `length` tokens. For dynamic NTK, each
/// operation is one of transformers' _compute_dynamic_ntk_parameters, in f32.
static std::vector<float> frequenciesAt(const RopeSpec &rope, uint64_t length) {
  if (length <= rope.original || !rope.isOfSession())
    return rope.inverseFrequencies;
  if (!rope.longFrequencies.empty())
    return rope.longFrequencies;
  size_t count = rope.inverseFrequencies.size();
  auto dims = static_cast<double>(2 * count);
  float stretch = rope.growth * static_cast<float>(length) /
                      static_cast<float>(rope.original) -
                  (rope.growth - 1.0f);
  float base =
      rope.theta * power(stretch, static_cast<float>(dims / (dims - 2)));
  std::vector<float> frequencies;
  for (size_t i = 0; i < count; ++i)
    frequencies.push_back(
        1.0f /
        power(base, static_cast<float>(2 * i) / static_cast<float>(2 * count)));
  return frequencies;
}

bool sameFrequencies(const RopeSpec &rope, int64_t one, int64_t other) {
  return frequenciesAt(rope, static_cast<uint64_t>(one)) ==
         frequenciesAt(rope, static_cast<uint64_t>(other));
}

static void fillRow(const RopeSpec &rope, const std::vector<float> &frequencies,
                    uint64_t row, float *&cosines, float *&sines) {
  for (float frequency : frequencies) {
    float angle = ropeAngle(row, frequency);
    *cosines++ = std::cos(angle) * rope.scale;
    *sines++ = std::sin(angle) * rope.scale;
  }
}

void fillRope(const RopeSpec &rope, float *cosines, float *sines) {
  for (uint64_t row = 0; row < rope.rows; ++row)
    fillRow(rope, rope.inverseFrequencies, row, cosines, sines);
}

void fillRopeRows(const RopeSpec &rope, uint64_t prompt, uint64_t first,
                  uint64_t last, float *cosines, float *sines) {
  std::vector<float> frequencies = frequenciesAt(rope, prompt);
  for (uint64_t row = first; row < last; ++row) {
    if (row >= prompt && row >= rope.original)
      frequencies = frequenciesAt(rope, row + 1);
    fillRow(rope, frequencies, row, cosines, sines);
  }
}

} // namespace cria
