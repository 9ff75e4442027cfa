/// How long each kernel of a step takes, and how much it reads.
#pragma once

#include "runtime/session/Model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria::bench {

/// All launches of one kernel in a step; on the CPU, all calls.
struct KernelRow {
  std::string name;
  int64_t launches = 0;
  double seconds = 0; // of all of them; the median over repetitions
  /// The least bytes of weights and caches that they read.
  double bytes = 0;
  /// The operations of their products with weights.
  double operations = 0;
  double floorSeconds = 0; // 0: no rate was measured
};

/// The kernels of a call for `tokens` tokens after `depth` others, in the
/// order of their first launches.
struct KernelTable {
  int64_t tokens = 0, depth = 0;
  std::vector<KernelRow> rows;

  /// The row called `name`; added if there is none.
  KernelRow &rowOf(const std::string &name);
  /// The seconds of all kernels.
  double seconds() const;
  /// Sets the floors from the least time of a byte and of an operation; 0:
  /// unknown.
  void setFloors(double secondsPerByte, double secondsPerOperation);
};

/// Times the kernels of a model, in a session of its own.
class KernelTimes {
public:
  /// `model` must outlive this object. On the CPU, `threads` threads compute.
  static Result<KernelTimes> create(const Model &model, int threads);

  /// A call for `tokens` tokens after `depth` others; 1 token is a decode step.
  /// If a prompt is longer than a chunk, all its chunks.
  Result<KernelTable> measure(int64_t tokens, int64_t depth);

private:
  KernelTimes(const Model &model, std::unique_ptr<Backend> backend)
      : model(&model), backend(std::move(backend)) {}
  Status once(int64_t tokens, int64_t depth, bool last, KernelTable &table);
  Status onceOnCpu(Step step, KernelTable &table);
  Status onceOnCuda(const Step &step, KernelTable &table);

  const Model *model;
  std::unique_ptr<Backend> backend;
};

} // namespace cria::bench
