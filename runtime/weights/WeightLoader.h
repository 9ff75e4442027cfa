/// Fills the weights of a model, on any device: from the tensors of a
/// checkpoint or from random numbers, and with adapters.
#pragma once

#include "runtime/weights/Binding.h"
#include "runtime/weights/blocks/WeightCache.h"
#include "runtime/weights/lora/Lora.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace cria {

/// A weight that has bytes of its own, and the function that writes its
/// elements [begin, end), whole blocks, to memory. Many threads may call
/// `write` at once; it does not throw.
struct WeightFill {
  const WeightSpec *weight;
  uint64_t slot;
  std::function<Status(std::byte *to, uint64_t begin, uint64_t end)> write;
};

/// The weights of `manifest` that hold adapters, filled from `loras`; both must
/// outlive the fills.
std::vector<WeightFill> adapterFills(const Manifest &manifest,
                                     const Loras &loras);

class WeightLoader {
public:
  /// Opens `source` and matches it with the weights of `manifest`, which must
  /// outlive the loader. Reads the matrices of adapters, and makes the file of
  /// quantized weights if the source has a folder for it.
  static Result<std::unique_ptr<const WeightLoader>>
  open(const WeightSource &source, const Manifest &manifest);

  /// The checkpoint and how its tensors are bound. Random weights have no
  /// checkpoint; their binding has only aliases and bytes.
  const std::optional<Checkpoint> &checkpoint() const { return opened; }
  const Binding &binding() const { return bound; }
  /// The file of quantized weights, if there is one.
  const std::optional<WeightCache> &cache() const { return quantized; }

  /// Every weight that has bytes of its own. With `mapped`, without weights
  /// that are used in place in a file: in the checkpoint or in the cache. The
  /// loader must outlive the fills.
  std::vector<WeightFill> fills(bool mapped) const;

private:
  explicit WeightLoader(const Manifest &manifest, uint64_t seed)
      : manifest(manifest), seed(seed) {}
  Status match(const WeightSource &source);
  void addRandom(std::vector<WeightFill> &fills) const;
  void addCheckpoint(bool mapped, std::vector<WeightFill> &fills) const;

  const Manifest &manifest;
  uint64_t seed;
  Loras loras;
  std::optional<Checkpoint> opened;
  Binding bound;
  std::optional<WeightCache> quantized;
};

} // namespace cria
