/// Inverse frequencies of the rotary position embedding.
#pragma once

#include "lowering/import/Config.h"

#include <vector>

namespace cria {

/// The rope.dims / 2 inverse frequencies of a text of at most
/// rope.originalPositions tokens. They are computed in f32, operation by
/// operation, as in transformers (modeling_rope_utils.py).
std::vector<float> inverseFrequencies(const RopeConfig &rope);

/// For longrope: the inverse frequencies of a longer text.
std::vector<float> longInverseFrequencies(const RopeConfig &rope);

} // namespace cria
