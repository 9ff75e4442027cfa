/// What tells the weights of two models apart, without reading all of them.
#pragma once

#include "runtime/Backend.h"
#include "runtime/Status.h"

#include <cstdint>

namespace cria {

/// A number of the files that `source` names, of their sizes and of samples
/// spread over them, of the scales of its adapters, or of its seed. Where the
/// files lie does not count.
Result<uint64_t> fingerprint(const WeightSource &source);

} // namespace cria
