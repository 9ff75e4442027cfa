#include "runtime/RopeTables.h"

#include <cmath>

namespace cria {

void fillRope(const RopeSpec &rope, float *cosines, float *sines) {
  for (uint64_t row = 0; row < rope.rows; ++row)
    for (float frequency : rope.inverseFrequencies) {
      float angle = static_cast<float>(row) * frequency;
      *cosines++ = std::cos(angle) * rope.scale;
      *sines++ = std::sin(angle) * rope.scale;
    }
}

} // namespace cria
