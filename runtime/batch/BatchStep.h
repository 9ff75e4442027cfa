/// What a step of a batch computes, as steps of its backend, and the ids that
/// it draws.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/batch/Schedule.h"
#include "runtime/device/Backend.h"
#include "runtime/device/Sampler.h"

#include <cstdint>
#include <vector>

namespace cria {

class BatchStep {
public:
  /// `greedy` draws the likeliest id. The first two must outlive this.
  BatchStep(const Manifest &manifest, Backend &backend, const Sampler &greedy)
      : manifest(manifest), backend(backend), greedy(1, greedy) {}

  /// Computes what was chosen, and draws. Orders the rows, and changes no
  /// sequence but for its sampler. FAILED_PRECONDITION if another thread uses a
  /// sampler.
  Status run(Chosen &chosen);
  /// Whether the backend has begun to compute.
  bool hasBegun() const { return begun; }

  /// Calls `body(row, id, logits)` for each draw: of the prompt, then of rows.
  template <typename Body> void forEachDraw(Body body) const {
    for (size_t i = 0; i < draws.size(); ++i)
      body(drawing[i], draws[i].id, draws[i].logits);
  }

  /// Lets other threads use the samplers again.
  void end();

private:
  Status collect(Chosen &chosen);
  void roomForHidden(Chosen &chosen);
  Status addPrompt(Chosen &chosen);
  Status addRows(std::vector<Row> &rows);
  Status addRows(Row *begin, Row *end);
  Status addDraw(const Row &row);
  void addWindows(const Sequence &sequence);
  Result<Sampler *> samplerOf(const Row &row);

  const Manifest &manifest;
  Backend &backend;
  std::vector<Step> steps; // of the prompt, and of rows with the same adapters
  std::vector<int32_t> ids, positions, tables; // of all rows
  std::vector<int32_t> windowTables;           // of the prompt, and of all rows
  std::vector<StateNumbers> numbers;           // of the prompt, and of all rows
  std::vector<float> states;                   // hidden, of all steps
  float *nextState = nullptr;                  // in these, of the next step
  std::vector<Draw> draws;
  std::vector<Row> drawing;     // the row of each draw
  std::vector<Sampler *> inUse; // by the step, so by no other thread
  // As many as ever drew in a step: for sequences without a sampler, and for
  // drafts, which draw as the sequence's sampler will after the ids before.
  std::vector<Sampler> greedy, ahead;
  bool begun = false;
  size_t greedyInUse = 0, aheadInUse = 0;
};

} // namespace cria
