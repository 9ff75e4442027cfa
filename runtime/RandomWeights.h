/// Weights that anyone can make again from a number.
#pragma once

#include "runtime/DType.h"
#include "runtime/Manifest.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace cria {

/// Fills `to` with elements [begin, end) of the tensor `name` for `seed`:
///   u = (mix(seed + fnv1a64(name) + (i + 1) * 0x9E3779B97F4A7C15) >> 40) /
///   2^24 (2u - 1) * 0.02 * sqrt(3), or 1 + (2u - 1) * 0.1 for a
///   one-dimensional tensor whose name ends in "norm.weight",
/// in f64, rounded once; mix is the finalizer of splitmix64, and sums are
/// modulo 2^64. `to` is where element `begin` goes, aligned to its type.
void fillRandom(std::byte *to, DType type, const std::string &name,
                const Shape &shape, uint64_t seed, uint64_t begin,
                uint64_t end);

} // namespace cria
