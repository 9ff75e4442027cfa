/// A session's own tables of rope on the device: those that depend on its text.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/cuda/Context.h"
#include "runtime/device/Backend.h"

#include <memory>
#include <vector>

namespace cria::cuda {

class Ropes {
public:
  /// Memory for every table of `manifest` that is a session's; there may be
  /// none. In the current context; `manifest` must outlive this.
  Status allocate(const std::shared_ptr<Context> &context,
                  const Manifest &manifest);

  /// The device's address of a slot that is one of these tables, else 0.
  CUdeviceptr slot(uint64_t slot) const;

  /// Computes the rows that `step` reads and begins to copy them in `stream`.
  /// What was copied for the step before must have landed.
  Status enqueue(const Step &step, CUstream stream);

private:
  /// Cosines and sines of one rope.
  struct Tables {
    const RopeSpec *rope;
    DeviceMemory device; // all rows of cosines, then of sines
    PinnedMemory pinned; // those of a step
  };

  std::shared_ptr<Context> context;
  std::vector<Tables> tables;
};

} // namespace cria::cuda
