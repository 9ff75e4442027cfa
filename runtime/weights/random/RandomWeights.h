/// Weights that are a function of a number, the seed.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/weights/Elements.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace cria {

/// The elements of the tensor `name` for `seed`, drawn as `type`, a plain type.
/// Element i is
///   h = mix(seed + fnv1a64(name) + (i + 1) * 0x9E3779B97F4A7C15)
///   u = (h >> 40) / 2^24
///   x = (2u - 1) * 0.02 * sqrt(3), or 1 + (2u - 1) * 0.1 for a
///       one-dimensional tensor whose name ends in ".weight", a norm's,
/// in f64, rounded once; mix is the finalizer of splitmix64, and sums are
/// modulo 2^64.
ElementsPtr randomElements(DType type, const std::string &name,
                           const Shape &shape, uint64_t seed);

} // namespace cria
