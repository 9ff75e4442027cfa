#include "runtime/weights/WeightLoader.h"

#include "runtime/weights/ReadWeight.h"
#include "runtime/weights/random/RandomWeights.h"

namespace cria {

/// Opens the checkpoint and finds the tensor of each weight.
Status WeightLoader::match(const WeightSource &source) {
  Result<Checkpoint> checkpoint = Checkpoint::open(*source.checkpoint);
  if (!checkpoint.ok())
    return checkpoint.status();
  opened.emplace(std::move(*checkpoint));
  if (Status saved = loras.replaceIn(*opened); !saved.ok())
    return saved;
  bound = matchWeights(manifest, *opened, loras, source.allowUnused);
  Status status = bound.status(*source.checkpoint);
  if (status.ok())
    status = shareTied(manifest, *opened, loras, bound);
  if (status.ok())
    status = loadPacked(*opened, bound);
  return status;
}

Result<std::unique_ptr<const WeightLoader>>
WeightLoader::open(const WeightSource &source, const Manifest &manifest) {
  std::unique_ptr<WeightLoader> loader(new WeightLoader(manifest, source.seed));
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
    loader->bound.aliases = sharedSlots(manifest, loader->loras);
    loader->bound.copiedBytes = manifest.weightBytes();
  }
  if (Status status = loader->loras.read(); !status.ok())
    return status;
  if (loader->opened)
    loader->quantized = WeightCache::open(source.cache, *loader->opened,
                                          loader->bound, source.progress);
  return std::unique_ptr<const WeightLoader>(std::move(loader));
}

std::vector<WeightFill> adapterFills(const Manifest &manifest,
                                     const Loras &loras) {
  std::vector<WeightFill> fills;
  for (const WeightSpec &weight : manifest.weights)
    for (uint64_t i = 0; i < weight.tensors() && weight.adapter; ++i)
      fills.push_back({&weight, weight.slot + i,
                       [&weight, update = loras.kept(weight, i)](
                           std::byte *to, uint64_t begin, uint64_t end) {
                         fillAdapter(weight, update, to, begin, end);
                         return Status();
                       }});
  return fills;
}

void WeightLoader::addRandom(std::vector<WeightFill> &fills) const {
  for (const RandomSource &source : randomSources(manifest, loras))
    fills.push_back(
        {source.weight, source.slot,
         [source, seed = seed](std::byte *to, uint64_t begin, uint64_t end) {
           fillRandom(to, source, seed, begin, end);
           return Status();
         }});
}

void WeightLoader::addCheckpoint(bool mapped,
                                 std::vector<WeightFill> &fills) const {
  for (const Binding::Source &source : bound.sources) {
    auto kept = quantized ? quantized->find(source.slot) : std::nullopt;
    if (mapped && (source.inPlace || kept))
      continue;
    fills.push_back(
        {source.weight, source.slot,
         [this, &source, kept](std::byte *to, uint64_t begin, uint64_t end) {
           if (!kept)
             return readWeight(*opened, source, to, begin, end);
           DType type = source.weight->type;
           return quantized->file().read(*kept + bytesOf(type, begin), to,
                                         bytesOf(type, end - begin));
         }});
  }
}

std::vector<WeightFill> WeightLoader::fills(bool mapped) const {
  std::vector<WeightFill> all = adapterFills(manifest, loras);
  if (opened)
    addCheckpoint(mapped, all);
  else
    addRandom(all);
  return all;
}

} // namespace cria
