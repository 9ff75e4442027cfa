/// Rows of a matrix in shared memory, as copies of boxes leave them (sm_90a).
///
/// A box has rows of 128 bytes, 64 elements of 16 bits. A matrix with longer
/// rows is several boxes, one after the other:
///
///   rows 0.. of columns 0-63, rows 0.. of columns 64-127, ...
#pragma once

#include "lowering/gpu/cuda/Warpgroups.h"

namespace cria::cuda {

struct BoxTile {
  /// Elements of a box's row.
  static constexpr int64_t kColumns = 64;

  simt::Rows memory;  // rows of kColumns
  mlir::Value first;  // the tile's first row there
  int64_t rows, size; // the matrix

  int64_t boxes() const { return size / kColumns; }
  int64_t bytes() const { return rows * size * 2; }
  /// Begins to copy the tile. `at` is the place of its first element in the
  /// tensor of `map`, whose fastest dimension is the columns, and `box` are the
  /// sizes of a box there.
  void copy(simt::KernelBuilder &b, PhaseBarriers &barriers,
            mlir::Value barrier, mlir::Value map,
            llvm::SmallVector<mlir::Value> at,
            llvm::ArrayRef<int64_t> box) const {
    for (int64_t i = 0; i < boxes(); ++i) {
      at[0] = b.i32(i * kColumns);
      barriers.copyBox(map, at, box, barrier,
                       b.address(memory, b.add(first, i * rows), b.i32(0)));
    }
  }
  /// How far in 16 bytes, as descriptors count, element (row, column) is from
  /// the tile's begin; the row is a multiple of 8, the column of 8.
  int64_t chunksTo(int64_t row, int64_t column) const {
    return (column / kColumns * rows + row) * kBoxBytes / 16 +
           column % kColumns / 8;
  }
};

} // namespace cria::cuda
