/// The rows of logits and hidden states that a feed returns. Takes them from
/// steps, which compute all rows from one on, to the caller's memory.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/cria.h"
#include "runtime/device/Backend.h"

#include <cstdint>
#include <vector>

namespace cria {

/// Rows of one output that are wanted: of no id, of the last one or of all.
struct WantedRows {
  cria_logits which = CRIA_LOGITS_NONE;
  float *to = nullptr; // (rows, width)
  /// If `count` is not 0, the ids at these indexes instead, in ascending order.
  const int64_t *indexes = nullptr;
  int64_t count = 0;

  bool any() const { return which != CRIA_LOGITS_NONE || count > 0; }
};

/// What a feed returns.
struct Outputs {
  WantedRows logits, hidden;
};

/// Takes the rows of one output from the steps of a feed.
class RowTaker {
public:
  /// For a feed of `total` ids; a row has `width` numbers.
  RowTaker(const WantedRows &rows, int64_t total, int64_t width)
      : rows(rows), total(total), width(width) {}

  /// The number of rows that a step of `tokens` ids, after `done` others, must
  /// compute. They are its last rows and go to `target()`.
  int64_t begin(int64_t done, int64_t tokens);
  float *target() { return place; }
  /// Takes the rows that the step has computed.
  void end();

private:
  WantedRows rows;
  int64_t total, width;
  int64_t next = 0;              // of the indexes
  int64_t first = 0, behind = 0; // the ids of the step's rows
  float *place = nullptr;
  std::vector<float> scratch;
};

/// Takes both outputs from the steps of a feed.
class OutputTaker {
public:
  OutputTaker(const Outputs &outputs, int64_t total, const Manifest &manifest)
      : logits(outputs.logits, total, manifest.vocabSize),
        hidden(outputs.hidden, total, manifest.hiddenSize) {}

  /// Has the step, after `done` positions of the feed, compute its rows.
  void begin(Step &step, int64_t done);
  /// Does the step, and takes the rows.
  Status run(Backend &backend, const Step &step);

private:
  RowTaker logits, hidden;
};

} // namespace cria
