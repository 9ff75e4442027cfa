/// The pool of pages of a batch on a CUDA device, and the steps of the batch.
///
/// A step copies its state, ids, positions and tables of pages to the device in
/// one copy, launches the kernels of its entry, and copies its logits back. The
/// host draws from the logits.
#pragma once

#include "runtime/cuda/Runner.h"

#include <memory>
#include <vector>

namespace cria::cuda {

class Paged : public Runner {
public:
  /// `model` must outlive it; its artifact must have batches.
  static Result<std::unique_ptr<Backend>> create(const Model &model,
                                                 int64_t pages);

  Status step(const Step &step) override;

private:
  explicit Paged(const Model &model) : Runner(model) {}
  Status allocate(uint64_t pages);
  Status makeLaunches() override;
  Status run(std::vector<Launch> &launches, const Step &step, int64_t positions,
             int64_t pages);
  Status compute(std::vector<Launch> &launches, const Step &step,
                 uint64_t stateBytes);
  uint64_t positionsOffset() const;
  uint64_t pagesOffset() const;

  std::vector<Launch> prefillLaunches, batchLaunches;
};

} // namespace cria::cuda
