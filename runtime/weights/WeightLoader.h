/// The weights of a model, for any device: opens where they come from and binds
/// them.
#pragma once

#include "runtime/weights/Binding.h"
#include "runtime/weights/Source.h"

#include <memory>
#include <optional>

namespace cria {

class WeightLoader {
public:
  /// Opens `source` and matches it with the weights of `manifest`, which must
  /// outlive the loader. Reads the matrices of adapters, and makes the file of
  /// quantized weights if the source has a folder for it.
  static Result<std::unique_ptr<const WeightLoader>>
  open(const WeightSource &source, const Manifest &manifest);

  /// The bound weights; the loader must outlive what reads them.
  const Binding &binding() const { return bound; }

private:
  explicit WeightLoader(const Manifest &manifest) : manifest(manifest) {}
  Status match(const WeightSource &source);

  const Manifest &manifest;
  Loras loras;
  std::optional<Checkpoint> checkpoint;
  std::unique_ptr<const File> quantized; // WeightCache.h; null without a cache
  Binding bound;
};

} // namespace cria
