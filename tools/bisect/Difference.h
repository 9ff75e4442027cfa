/// How far rows of numbers are from those of a reference.
#pragma once

#include "runtime/DType.h"

#include <cstdint>
#include <optional>

namespace cria {

/// What a result may differ by.
struct Tolerance {
  /// Of a row: the sum of squared differences over that of squares.
  double nmse;
  /// The mean difference away from zero, in units of the last place of `type`.
  /// Of results that are rounded to nearest it is near 0, of those that are cut
  /// off -0.5. Infinite where it says nothing: the differences of results that
  /// are made of other roundings go together.
  double bias;
  /// The type that the numbers have in the end.
  DType type;
};

/// The tolerance of results that end in `type` (f32, f16 or bf16). `isSame`: on
/// both sides the same is rounded, so that only sums are taken in other orders.
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
