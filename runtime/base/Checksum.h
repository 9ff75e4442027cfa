/// A checksum as fast as memory: 28 GB/s on a core of an AMD EPYC that reads 31
/// GB/s and computes FNV-1a, the artifact's, at 1 GB/s.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

/// Finds damage, not forgery. Any one changed word of 64 bits changes the sum.
uint64_t checksum(const std::byte *bytes, uint64_t size);

} // namespace cria
