/// Weights that are a function of a number, the seed.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/DType.h"
#include "runtime/weights/lora/Lora.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// Fills `to` with elements [begin, end) of the tensor `name` for `seed`:
///   h = mix(seed + fnv1a64(name) + (i + 1) * 0x9E3779B97F4A7C15)
///   u = (h >> 40) / 2^24
///   x = (2u - 1) * 0.02 * sqrt(3), or 1 + (2u - 1) * 0.1 for a
///       one-dimensional tensor whose name ends in "norm.weight",
/// in f64, rounded once; mix is the finalizer of splitmix64, and sums are
/// modulo 2^64. `to` receives element `begin` first. `type` is a plain type,
/// and `to` is aligned to it.
void fillRandom(std::byte *to, DType type, const std::string &name,
                const Shape &shape, uint64_t seed, uint64_t begin,
                uint64_t end);

/// A slot that random elements fill.
struct RandomSource {
  const WeightSpec *weight;
  uint64_t slot;
  std::string name; // of the tensor; if tied, of the weight's origin
  /// The type in which elements are drawn before they are converted: that of
  /// the origin, or f32 for blocks.
  DType drawn;
  const LoraUpdate *update; // null for none
};

/// Every slot with random elements; slots that share bytes count once.
std::vector<RandomSource> randomSources(const Manifest &manifest,
                                        const Loras &loras);

/// Writes elements [begin, end) of a slot, whole blocks, for `seed`, and adds
/// adapters.
void fillRandom(std::byte *to, const RandomSource &source, uint64_t seed,
                uint64_t begin, uint64_t end);

} // namespace cria
