/// The pools of pages and states of a batch on a CUDA device, and the steps of
/// the batch.
///
/// A step copies its state, ids, positions, numbers of states and tables of
/// pages to the device at once, and then the tables of window pages, if there
/// are any. It launches the kernels of its entry, and the device draws an id
/// from each row of logits. Logits are copied to the host where they are wanted
/// there.
#pragma once

#include "runtime/cuda/Runner.h"

#include <memory>
#include <vector>

namespace cria::cuda {

class Paged : public Runner {
public:
  /// `model` must outlive it; its artifact must have batches.
  static Result<std::unique_ptr<Backend>> create(const Model &model,
                                                 const PageCounts &pages);

  Status step(const Step &step) override;
  Status draw(const Step *steps, size_t count, Draw *draws,
              size_t rows) override;

private:
  explicit Paged(const Model &model) : Runner(model) {}
  Status allocate(const PageCounts &pages);
  Status makeLaunches() override;
  /// Does a step whose first row of logits is row `first` of `rows`, and draws
  /// from all rows, if there are `draws`.
  Status run(const Step &step, int64_t first, int64_t rows, const Draw *draws);
  Status place(const Step &step, int64_t first, int64_t rows);
  Status enqueue(const Step &step, int64_t draws);
  GraphExec *graphOf(const Step &step, int64_t draws);
  int64_t tableSize(const Step &step) const;
  void writeStep(const Step &step);
  void writeDraws(const Draw *draws, int64_t rows);
  Status finishDraws(Draw *draws, int64_t rows);
  Status copyLogits(Draw *draws, int64_t rows);
  /// Where pinned memory has what the device has in a place of its own.
  std::byte *pinned(Argument::Kind kind) const {
    return static_cast<std::byte *>(pinnedState.get()) +
           (places[kind] - places[Argument::State]);
  }

  std::vector<Launch> &launchesOf(const Step &step) {
    return step.isBatch() ? batchLaunches : prefillLaunches;
  }

  /// Of steps with as many rows.
  struct Recorded {
    bool met = false; // a step that comes once is not worth a graph
    GraphExec graph;
  };

  std::vector<Launch> prefillLaunches, batchLaunches, sampleLaunches;
  std::vector<Recorded> graphs;
  CUdeviceptr logitsOfGraphs = 0;
  PinnedMemory hostLogits; // (hostRows, vocab), once some are wanted
  int64_t hostRows = 0;
};

} // namespace cria::cuda
