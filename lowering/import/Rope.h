/// Inverse frequencies of the rotary position embedding.
#pragma once

#include "lowering/import/Config.h"

#include <vector>

namespace cria {

/// The headDim / 2 inverse frequencies, in f32 operation by operation as
/// transformers computes them (`compute_default_rope_parameters`,
/// `_compute_llama3_parameters`).
std::vector<float> inverseFrequencies(const RopeConfig &rope, int64_t headDim);

} // namespace cria
