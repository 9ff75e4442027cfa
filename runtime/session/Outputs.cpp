#include "runtime/session/Outputs.h"

#include <algorithm>

namespace cria {

int64_t RowTaker::begin(int64_t done, int64_t tokens) {
  behind = done + tokens;
  first = behind;
  place = rows.to;
  if (rows.count > 0) {
    if (next < rows.count)
      first = std::min(rows.indexes[next], behind);
    scratch.resize(static_cast<size_t>((behind - first) * width));
    place = scratch.data();
  } else if (rows.which == CRIA_LOGITS_ALL) {
    first = done;
    place = rows.to + done * width;
  } else if (rows.which == CRIA_LOGITS_LAST && behind == total) {
    first = behind - 1;
  }
  return behind - first;
}

void RowTaker::end() {
  for (; next < rows.count && rows.indexes[next] < behind; ++next)
    std::copy_n(
        &scratch[static_cast<size_t>((rows.indexes[next] - first) * width)],
        width, rows.to + next * width);
}

void OutputTaker::begin(Step &step, int64_t done) {
  step.firstLogit = step.tokens - logits.begin(done, step.tokens);
  step.logits = logits.target();
  step.hiddenRows = hidden.begin(done, step.tokens);
  step.hidden = hidden.target();
}

Status OutputTaker::run(Backend &backend, const Step &step) {
  Status done = backend.step(step);
  if (done.ok()) {
    logits.end();
    hidden.end();
  }
  return done;
}

} // namespace cria
