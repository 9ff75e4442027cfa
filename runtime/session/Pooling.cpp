#include "runtime/session/Pooling.h"

#include <algorithm>
#include <cmath>

namespace cria {

int64_t Pooling::rowsOf(int64_t done, int64_t tokens) const {
  switch (kind) {
  case CRIA_POOLING_FIRST:
    return done == 0 ? tokens : 0;
  case CRIA_POOLING_LAST:
    return done + tokens == total ? 1 : 0;
  default:
    return tokens;
  }
}

void Pooling::add(const float *rows, int64_t count) {
  // CRIA_POOLING_FIRST counts only the very first row.
  int64_t taken =
      kind == CRIA_POOLING_FIRST ? std::min<int64_t>(count, 1) : count;
  for (int64_t row = 0; row < taken; ++row)
    for (double &sum : sums)
      sum += static_cast<double>(*rows++);
}

void Pooling::finish(bool normalize, float *embedding) const {
  double scale = kind == CRIA_POOLING_MEAN ? 1 / static_cast<double>(total) : 1;
  double square = 0;
  for (double sum : sums)
    square += sum * scale * sum * scale;
  if (normalize && square > 0)
    scale /= std::sqrt(square);
  for (double sum : sums)
    *embedding++ = static_cast<float>(sum * scale);
}

} // namespace cria
