/// The change of one weight by adapters: the product of two thin matrices.
#pragma once

#include "runtime/weights/Elements.h"

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

  /// Adds B A to `values`, the elements [first, first + count) of the
  /// checkpoint's tensor, counted row by row.
  void addTo(float *values, uint64_t first, uint64_t count) const;

private:
  /// The rank as it is stored: a multiple of four.
  uint64_t stride() const { return (ranks + 3) / 4 * 4; }
  void addPart(float *values, uint64_t first, uint64_t count) const;

  uint64_t rowCount, columnCount, ranks = 0;
  std::vector<float> a; // (stride, columns)
  std::vector<float> b; // (rows, stride)
};

/// The elements of W + B A, computed in f32, where `x` is the tensor W.
/// `update` must outlive them.
ElementsPtr plus(ElementsPtr x, const LoraUpdate &update);

/// The elements of the update's matrix A, or else B, in rows of `columns`. They
/// are zeros where the matrix has no element, and all zeros if `update` is
/// null. `update` must outlive them.
ElementsPtr matrixOf(const LoraUpdate *update, bool isA, uint64_t columns);

} // namespace cria
