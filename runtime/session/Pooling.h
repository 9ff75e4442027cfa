/// One embedding made of the hidden states of a text.
#pragma once

#include "runtime/cria.h"

#include <cstdint>
#include <vector>

namespace cria {

/// Pools the rows of a text as they come, chunk by chunk; sums in f64.
class Pooling {
public:
  /// For `total` tokens with rows of `width` numbers.
  Pooling(cria_pooling kind, int64_t total, int64_t width)
      : kind(kind), total(total), sums(static_cast<size_t>(width)) {}

  /// How many of the last rows are wanted of a step of `tokens` tokens that
  /// comes after `done` others.
  int64_t rowsOf(int64_t done, int64_t tokens) const;
  /// Takes those rows.
  void add(const float *rows, int64_t count);
  /// Writes the embedding, of length 1 if `normalize`. Zeros stay zeros.
  void finish(bool normalize, float *embedding) const;

private:
  cria_pooling kind;
  int64_t total;
  std::vector<double> sums;
};

} // namespace cria
