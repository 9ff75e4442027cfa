/// How far rows of numbers are from the rows of a reference.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <optional>

namespace cria {

/// How much a result may differ.
struct Tolerance {
  /// The sum of a row's squared differences over the sum of its squares.
  double nmse;
  /// The mean difference away from zero, in units of the last place of `type`.
  /// It is near 0 for results that are rounded to nearest, and near -0.5 for
  /// results that are cut off. Infinite if it means nothing: if the inputs of
  /// results were rounded differently, their differences are correlated.
  double bias;
  /// The type that the numbers are stored in.
  DType type;
};

/// The tolerance of results that end in `type` (f32, f16 or bf16). `isSame`:
/// both sides round the same values, so that only the order of sums differs.
/// `isBlocked`: weights are in blocks.
Tolerance toleranceOf(DType type, bool isSame, bool isBlocked);

/// The coarser of two types of floats.
DType coarser(DType a, DType b);

struct Difference {
  double nmse = 0;              // of the worst row
  double bias = 0;              // of all rows
  uint64_t row = 0, column = 0; // the largest difference of that row
  float got = 0, want = 0;      // there

  bool within(const Tolerance &tolerance) const;
};

/// Compares `rows` rows of `width` numbers.
Difference compare(const float *got, const float *want, uint64_t rows,
                   uint64_t width, DType type);

} // namespace cria
