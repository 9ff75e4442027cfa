/// A model on the CPU: weights are used in place in mapped files if type and
/// alignment allow it.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/artifact/Artifact.h"
#include "runtime/base/Memory.h"
#include "runtime/base/files/FileGuard.h"
#include "runtime/device/Backend.h"

#include <memory>
#include <vector>

namespace cria::cpu {

/// Weights in the host's memory, and the artifact's entry functions.
class Model : public BoundModel {
public:
  /// Binds this rank's share of the weights; null: there are no other ranks.
  static Result<std::unique_ptr<const BoundModel>>
  bind(std::shared_ptr<const Artifact> artifact, const WeightSource &source,
       const CriaRanks *ranks);

  Result<std::unique_ptr<cria::Backend>>
  newBackend(const Threads &threads, const PageCounts &pages) const override;
  Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const override;
  const void *const *slots() const override { return slotTable.data(); }
  std::string device() const override { return "cpu"; }
  Status intact() const override;

private:
  class Builder;

  Model(std::shared_ptr<const Artifact> artifact, const CriaRanks *ranks);

  std::shared_ptr<const Artifact> code;
  const CriaRanks *ranks;
  std::vector<const void *> slotTable;
  std::vector<Mapping> files;
  std::vector<FileGuard> guards; // of the files
  Mapping arena; // rope tables, and the weights that are not used in place
};

} // namespace cria::cpu
