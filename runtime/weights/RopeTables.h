/// The tables of cosines and sines that compiled code reads.
#pragma once

#include "runtime/artifact/Manifest.h"

namespace cria {

/// The angle of a position, in f32 as in the tables.
inline float ropeAngle(uint64_t position, float frequency) {
  return static_cast<float>(position) * frequency;
}

/// Whether texts of `one` and of `other` tokens have the same frequencies.
bool sameFrequencies(const RopeSpec &rope, int64_t one, int64_t other);

/// Computes the two tables of `rope`, rope.bytes() each, for a text that is not
/// longer than rope.original, if that is set.
void fillRope(const RopeSpec &rope, float *cosines, float *sines);

/// Computes rows [first, last) of the tables for a text that began with
/// `prompt` tokens. The frequencies of a row are those for a text of
/// max(prompt, row + 1) tokens. Generation with a cache in Hugging Face
/// transformers does the same: it computes the frequencies for the length of
/// each forward pass. `cosines` and `sines` receive row `first` first.
void fillRopeRows(const RopeSpec &rope, uint64_t prompt, uint64_t first,
                  uint64_t last, float *cosines, float *sines);

} // namespace cria
