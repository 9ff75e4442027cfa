/// An artifact and its weights: everything that sessions share.
#pragma once

#include "runtime/Artifact.h"
#include "runtime/Memory.h"
#include "runtime/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cria {

/// A bound model. Immutable; share it between threads.
class Model {
public:
  /// Binds the checkpoint at `weights` (a folder or a file).
  static Result<std::shared_ptr<const Model>>
  bind(std::shared_ptr<const Artifact> artifact, const std::string &weights);

  /// Weights drawn from `seed`; see RandomWeights.h.
  static Result<std::shared_ptr<const Model>>
  random(std::shared_ptr<const Artifact> artifact, uint64_t seed);

  const Artifact &artifact() const { return *code; }
  const Manifest &manifest() const { return code->manifest(); }
  /// The pointers that compiled code reads its weights and tables through.
  const void *const *slots() const { return slotTable.data(); }

  /// Lines for the user, without line ends.
  const std::vector<std::string> &warnings() const { return notes; }
  uint64_t mappedBytes() const { return mapped; }
  uint64_t copiedBytes() const { return copied; }
  double bindSeconds() const { return seconds; }

private:
  class Builder;

  explicit Model(std::shared_ptr<const Artifact> artifact);

  std::shared_ptr<const Artifact> code;
  std::vector<const void *> slotTable;
  std::vector<Mapping> files;
  Mapping arena; // rope tables, and the weights that are not used in place
  std::vector<std::string> notes;
  uint64_t mapped = 0;
  uint64_t copied = 0;
  double seconds = 0;
};

} // namespace cria
