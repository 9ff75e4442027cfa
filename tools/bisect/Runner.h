/// Runs a model whose artifact has taps, and reads the results of its kernels.
#pragma once

#include "runtime/session/Session.h"
#include "tools/bisect/Recording.h"
#include "tools/bisect/Taps.h"

#include <functional>

namespace cria {

/// One result of a kernel, in one turn and one step.
struct Made {
  const TapKernel &kernel;
  size_t result;
  int64_t turn;
  int64_t position; // of the first row
  Rows rows;

  /// The names that recordings may have for it, the most likely first.
  std::vector<std::string> names() const;
};

class Runner {
public:
  /// Called with all results, step after step in the order of the kernels.
  using Visitor = std::function<void(const Made &)>;

  static Result<Runner> open(const std::string &path,
                             const WeightSource &weights,
                             const DeviceOptions &device, int threads);

  /// Runs the ids of `prompt` in a new session; only the last id if tokens see
  /// only earlier ones. With `given`, kernels read its results, where it has
  /// them, instead of each other's.
  Status run(const Recording &prompt, const Recording *given,
             const Visitor &visit) const;
  /// All results of these ids.
  Status record(Recording &recording) const;

  const Taps &taps() const { return described; }
  const Manifest &manifest() const { return model->manifest(); }
  std::string device() const { return model->device(); }
  /// The type of activations.
  DType type() const;
  /// Whether weights or caches are in blocks.
  bool isBlocked() const;

private:
  /// One call of an entry.
  struct Call {
    std::string entry;
    const int32_t *ids;
    int64_t tokens, position;
  };
  class Run;
  std::vector<Call> callsOf(const Recording &prompt) const;

  std::shared_ptr<const Model> model;
  Taps described;
  int threads = 0;
};

} // namespace cria
