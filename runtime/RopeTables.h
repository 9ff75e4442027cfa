/// The tables of cosines and sines that compiled code reads.
#pragma once

#include "runtime/Manifest.h"

namespace cria {

/// The angle of a position, in f32 as the tables have it.
inline float ropeAngle(uint64_t position, float frequency) {
  return static_cast<float>(position) * frequency;
}

/// Computes the two tables of `rope`, rope.bytes() each, of a text that is not
/// longer than rope.original where there is one.
void fillRope(const RopeSpec &rope, float *cosines, float *sines);

/// Computes rows [first, last) of the tables for a text that began with
/// `prompt` tokens: a row's frequencies are those of as many tokens, or of the
/// row's own position and all before it, where that is more. So does generation
/// with a cache in Hugging Face transformers, which computes them anew for the
/// length of each forward pass. `cosines` and `sines` are where row `first`
/// goes.
void fillRopeRows(const RopeSpec &rope, uint64_t prompt, uint64_t first,
                  uint64_t last, float *cosines, float *sines);

} // namespace cria
