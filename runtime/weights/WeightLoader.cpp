#include "runtime/weights/WeightLoader.h"

#include "runtime/weights/cache/WeightCache.h"

namespace cria {

/// Opens the checkpoint and finds the tensors of each weight.
Status WeightLoader::match(const WeightSource &source) {
  Result<Checkpoint> opened = Checkpoint::open(*source.checkpoint);
  if (!opened.ok())
    return opened.status();
  checkpoint.emplace(std::move(*opened));
  if (Status saved = loras.replaceIn(*checkpoint); !saved.ok())
    return saved;
  bound = matchWeights(manifest, *checkpoint, loras, source.allowUnused);
  Status status = bound.status(*source.checkpoint);
  if (status.ok())
    status = shareTied(manifest, *checkpoint, loras, bound);
  if (status.ok())
    status = load(bound);
  return status;
}

Result<std::unique_ptr<const WeightLoader>>
WeightLoader::open(const WeightSource &source, const Manifest &manifest) {
  std::unique_ptr<WeightLoader> loader(new WeightLoader(manifest));
  Result<Loras> loras = Loras::open(source, manifest);
  if (!loras.ok())
    return loras.status();
  loader->loras = std::move(*loras);
  if (source.checkpoint) {
    if (Status status = loader->match(source); !status.ok())
      return status;
  } else if (loader->loras.haveSaved()) {
    return Status(CRIA_UNIMPLEMENTED,
                  "an adapter replaces tensors of a checkpoint, and the "
                  "weights are random");
  } else {
    loader->bound = drawWeights(manifest, source.seed, loader->loras);
  }
  if (Status status = loader->loras.read(); !status.ok())
    return status;
  if (loader->checkpoint)
    loader->quantized = keepQuantized(source.cache, *loader->checkpoint,
                                      loader->loras.changeAny(), loader->bound,
                                      source.progress);
  return std::unique_ptr<const WeightLoader>(std::move(loader));
}

} // namespace cria
