/// Which element of a tile a thread holds, or gives the address of.
///
/// All layouts of tensor cores are linear in bits, as in Triton's LinearLayout:
/// each bit of a lane's number, and of a register's, moves the place by a row
/// and a column of its own. So a layout is a list of such moves, the lowest bit
/// first. For example the sums of mma.m16n8k16, for which the PTX ISA has
///
///   row = lane / 4 + (i < 2 ? 0 : 8),  column = lane % 4 * 2 + i % 2
///
/// are
///
///   lanes      (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)
///   registers  (0, 1) (8, 0)
///
/// The moves of a lane and of a register add up: no two have a bit in common.
#pragma once

#include "lowering/gpu/build/KernelBuilder.h"

namespace cria::simt {

/// A place in a tile, or a move from one place to another.
struct Place {
  int64_t row = 0, column = 0;
  bool operator==(const Place &other) const {
    return row == other.row && column == other.column;
  }
};

struct Layout {
  llvm::ArrayRef<Place> lanes, registers;

  /// The place of a lane's first element, and how far after it the element of
  /// a register is.
  Place ofLane(int64_t lane) const { return placeOf(lane, lanes); }
  Place ofRegister(int64_t number) const { return placeOf(number, registers); }

  /// The same row and column, of a lane that the kernel knows.
  mlir::Value row(KernelBuilder &b, mlir::Value lane) const;
  mlir::Value column(KernelBuilder &b, mlir::Value lane) const;

private:
  static Place placeOf(int64_t number, llvm::ArrayRef<Place> moves);
};

/// The sum of `values[i]` over the bits i that are set in `number`. `hasMore`
/// says that the number has more bits, which do not count.
mlir::Value spreadBits(KernelBuilder &b, mlir::Value number,
                       llvm::ArrayRef<int64_t> values, bool hasMore = false);

} // namespace cria::simt
