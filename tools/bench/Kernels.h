/// How long each kernel of a step takes, beside what it reads.
#pragma once

#include "runtime/Model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria::bench {

/// All launches of one kernel in a step, or on the CPU all calls.
struct KernelRow {
  std::string name;
  int64_t launches = 0;
  double seconds = 0; // of all of them; the median over repetitions
  /// Of weights and caches that they read at least.
  double bytes = 0;
  /// Of their products with weights.
  double operations = 0;
  double floorSeconds = 0; // 0: no rate was measured
};

/// The kernels of a call for `tokens` tokens after `depth` others, in the
/// order of their first launches.
struct KernelTable {
  int64_t tokens = 0, depth = 0;
  std::vector<KernelRow> rows;

  /// The row called `name`, which is added where there is none.
  KernelRow &rowOf(const std::string &name);
  /// Of all kernels.
  double seconds() const;
  /// By what a byte and an operation take at least; 0: unknown.
  void setFloors(double secondsPerByte, double secondsPerOperation);
};

/// Times the kernels of a model, in a session of its own.
class KernelTimes {
public:
  /// `model` outlives this. On the CPU `threads` threads compute.
  static Result<KernelTimes> create(const Model &model, int threads);

  /// A call for `tokens` tokens, 1 being a decode step, after `depth` others;
  /// of a longer prompt than a chunk all chunks.
  Result<KernelTable> measure(int64_t tokens, int64_t depth);

private:
  KernelTimes(const Model &model, std::unique_ptr<Backend> backend)
      : model(&model), backend(std::move(backend)) {}
  Status once(int64_t tokens, int64_t depth, bool last, KernelTable &table);
  Status onceOnCpu(const Step &step, KernelTable &table);
  Status onceOnCuda(const Step &step, KernelTable &table);

  const Model *model;
  std::unique_ptr<Backend> backend;
};

} // namespace cria::bench
