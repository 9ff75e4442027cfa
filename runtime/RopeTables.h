/// The tables of cosines and sines that compiled code reads.
#pragma once

#include "runtime/Manifest.h"

namespace cria {

/// Computes the two tables of `rope`, rope.bytes() each.
void fillRope(const RopeSpec &rope, float *cosines, float *sines);

} // namespace cria
