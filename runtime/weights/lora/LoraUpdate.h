/// The change of one weight by adapters: the product of two thin matrices.
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria {

/// B A, (rows, rank) by (rank, columns), in f32. Several adapters are one
/// update: their A matrices are stacked, and their B matrices, each multiplied
/// by its scale, are put side by side.
class LoraUpdate {
public:
  LoraUpdate(uint64_t rows, uint64_t columns)
      : rowCount(rows), columnCount(columns) {}

  /// Makes room for another adapter's `rank`.
  void widen(uint64_t rank);
  uint64_t rank() const { return ranks; }
  uint64_t rows() const { return rowCount; }
  uint64_t columns() const { return columnCount; }

  /// Allocates zeros, once all room is made.
  void allocate();
  /// Elements of A and B.
  float &ofA(uint64_t k, uint64_t column) {
    return a[k * columnCount + column];
  }
  float &ofB(uint64_t row, uint64_t k) { return b[row * stride() + k]; }
  float ofA(uint64_t k, uint64_t column) const {
    return a[k * columnCount + column];
  }
  float ofB(uint64_t row, uint64_t k) const { return b[row * stride() + k]; }

  /// W + B A for the elements [first, first + count) of the checkpoint's
  /// tensor, counted row by row: computed in f32, rounded once. `from` and `to`
  /// point to the first of them and may be the same memory.
  void merge(const std::byte *from, DType fromType, std::byte *to, DType type,
             uint64_t first, uint64_t count) const;

private:
  /// The rank as it is stored: a multiple of four.
  uint64_t stride() const { return (ranks + 3) / 4 * 4; }
  void mergePart(const std::byte *from, DType fromType, std::byte *to,
                 DType type, uint64_t first, uint64_t count) const;

  uint64_t rowCount, columnCount, ranks = 0;
  std::vector<float> a; // (stride, columns)
  std::vector<float> b; // (rows, stride)
};

} // namespace cria
