/// A model on a CUDA device: weights in its memory, code in its context.
#pragma once

#include "runtime/Artifact.h"
#include "runtime/Backend.h"
#include "runtime/Device.h"
#include "runtime/WeightLoader.h"
#include "runtime/cuda/Code.h"
#include "runtime/cuda/Context.h"
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

  /// Uploads the weights; once, and before sessions are made.
  Status bind(const WeightSource &source);

  Result<std::unique_ptr<Backend>>
  newBackend(const Threads &threads) const override;
  Result<std::unique_ptr<PagedBackend>>
  newPagedBackend(const Threads &threads, int64_t pages) const override;
  Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const override;
  std::string device() const override;

  const std::shared_ptr<Context> &context() const { return owner; }
  const Manifest &manifest() const { return artifact->manifest(); }
  const Code &code() const { return *loaded; }
  const Log &log() const { return said; }
  /// The device's address of the weight or table in `slot`.
  CUdeviceptr slot(uint64_t slot) const { return addresses[slot]; }

private:
  explicit Model(std::shared_ptr<const Artifact> artifact)
      : artifact(std::move(artifact)) {}
  Status allocate(const std::vector<Binding::Alias> &aliases);
  void addRopes(std::vector<Upload> &uploads) const;

  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<Context> owner;
  std::unique_ptr<const Code> loaded;
  Log said;
  std::vector<DeviceMemory> memory;
  std::vector<CUdeviceptr> addresses; // by slot
};

} // namespace cria::cuda
