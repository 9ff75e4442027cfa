/// A number that tells the weights of two models apart, without reading all.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/Source.h"

#include <cstdint>

namespace cria {

/// A hash of the files that `source` names: their sizes, samples spread over
/// them, and the scales of adapters; or a hash of the seed. The paths of the
/// files do not count.
Result<uint64_t> fingerprint(const WeightSource &source);

} // namespace cria
