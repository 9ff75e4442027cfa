/// A model on a CUDA device: weights in its memory, code in its context. Of a
/// model that ranks share, this rank's part.
#pragma once

#include "runtime/Artifact.h"
#include "runtime/Backend.h"
#include "runtime/Device.h"
#include "runtime/WeightLoader.h"
#include "runtime/cuda/Code.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/Nccl.h"
#include "runtime/cuda/Upload.h"

#include <memory>
#include <string>
#include <vector>

namespace cria::cuda {

class Model : public BoundModel {
public:
  /// Finds the device and loads the code: all that can fail for want of a
  /// device that can run the artifact. `kind` is not Cpu.
  static Result<std::unique_ptr<Model>>
  open(std::shared_ptr<const Artifact> artifact, const DeviceOptions &options);

  /// Joins the other ranks, where there are some, and uploads the weights;
  /// once, and before sessions are made.
  Status bind(const WeightSource &source);

  Result<std::unique_ptr<Backend>>
  newBackend(const Threads &threads) const override;
  Result<std::unique_ptr<PagedBackend>>
  newPagedBackend(const Threads &threads, int64_t pages) const override;
  Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const override;
  std::string device() const override;

  const std::shared_ptr<Context> &context() const { return owner; }
  const Manifest &manifest() const { return own; }
  const Code &code() const { return *loaded; }
  const Log &log() const { return said; }
  /// The device's address of the weight or table in `slot`.
  CUdeviceptr slot(uint64_t slot) const { return addresses[slot]; }

  /// The processes that share the model, and what joins their devices; null:
  /// there are no others.
  const CriaRanks *sharedWith() const { return ranks; }
  const Communicator *communicator() const { return joined.get(); }
  /// Whether the table of embeddings stays with the host, so that not every
  /// rank's device holds all of it: steps bring their rows.
  bool embedsOnHost() const { return loader != nullptr; }
  uint64_t embeddingSlot() const { return table.slot; }
  /// The rows of that table for `count` ids.
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
  const Manifest own; // of this rank
  const CriaRanks *ranks;
  std::shared_ptr<Context> owner;
  std::unique_ptr<Communicator> joined;
  std::unique_ptr<const WeightLoader> loader; // of `table`, where it is here
  WeightFill table = {};
  std::unique_ptr<const Code> loaded;
  Log said;
  std::vector<DeviceMemory> memory;
  std::vector<CUdeviceptr> addresses; // by slot
};

} // namespace cria::cuda
