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

} // namespace cria
