/// The rows of logits and hidden states that a feed returns, and their way from
/// steps, which compute all rows from one on, to the caller's memory.
#pragma once

#include "runtime/cria.h"

#include <cstdint>
#include <vector>

namespace cria {

/// Rows of one output that are wanted: of no id, of the last or of all.
struct WantedRows {
  cria_logits which = CRIA_LOGITS_NONE;
  float *to = nullptr; // (rows, width)
  /// Where `count` is not 0, the ids at these indexes instead, which ascend.
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
  /// Of a feed of `total` ids; a row has `width` numbers.
  RowTaker(const WantedRows &rows, int64_t total, int64_t width)
      : rows(rows), total(total), width(width) {}

  /// The rows that a step of `tokens` ids, behind `done` others, computes: the
  /// last so many. They go to `target()`.
  int64_t begin(int64_t done, int64_t tokens);
  float *target() { return place; }
  /// Takes what the step has computed.
  void end();

private:
  WantedRows rows;
  int64_t total, width;
  int64_t next = 0;              // of the indexes
  int64_t first = 0, behind = 0; // the ids of the step's rows
  float *place = nullptr;
  std::vector<float> scratch;
};

} // namespace cria
