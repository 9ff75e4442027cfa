/// A model on a CUDA device: weights in its memory, code in its context. If
/// ranks share the model, this is one rank's part of it.
#pragma once

#include "runtime/cuda/Code.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/cuda/Nccl.h"
#include "runtime/cuda/Upload.h"
#include "runtime/weights/WeightLoader.h"

#include <memory>
#include <string>
#include <vector>

namespace cria::cuda {

class Model : public OpenModel {
public:
  /// See cuda::open.
  static Result<std::unique_ptr<Model>>
  open(std::shared_ptr<const Artifact> artifact, const DeviceOptions &options);

  Status bind(const WeightSource &source) override;

  Result<std::unique_ptr<Backend>>
  newBackend(const Threads &threads, const PageCounts &pages) const override;
  Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const override;
  std::string device() const override;

  const std::shared_ptr<Context> &context() const { return owner; }
  const Manifest &manifest() const { return own; }
  const Code &code() const { return *loaded; }
  const Log &log() const { return said; }
  /// The device's address of the weight or table in `slot`.
  CUdeviceptr slot(uint64_t slot) const { return addresses[slot]; }

  /// The ranks that share the model, and the communicator of their devices.
  /// Both are null if the model is not shared.
  const CriaRanks *sharedWith() const { return ranks; }
  const Communicator *communicator() const { return joined.get(); }
  /// Whether the table of embeddings stays on the host, so that not every
  /// rank's device holds all of it. Each step then copies its rows.
  bool embedsOnHost() const { return loader != nullptr; }
  uint64_t embeddingSlot() const { return table->slot; }
  /// Copies the rows of that table for `count` ids to `to`.
  Status embed(const int32_t *ids, int64_t count, std::byte *to) const;

private:
  Model(std::shared_ptr<const Artifact> artifact, const CriaRanks *ranks)
      : artifact(std::move(artifact)),
        own(this->artifact->manifest().ofRank(ranks ? ranks->rank : 0)),
        ranks(ranks) {}
  Status openContext(const DeviceOptions &options);
  bool mayEmbedOnHost(const Binding &binding) const;
  Status allocate(const std::vector<Binding::Alias> &aliases);
  void addRopes(std::vector<Upload> &uploads) const;

  std::shared_ptr<const Artifact> artifact;
  const Manifest own; // with the shapes of this rank
  const CriaRanks *ranks;
  std::shared_ptr<Context> owner;
  std::unique_ptr<Communicator> joined;
  std::unique_ptr<const WeightLoader> loader; // of `table`, if the host has it
  const BoundWeight *table = nullptr;         // in the loader
  std::unique_ptr<const Code> loaded;
  Log said;
  std::vector<DeviceMemory> memory;
  std::vector<CUdeviceptr> addresses; // by slot
};

} // namespace cria::cuda
