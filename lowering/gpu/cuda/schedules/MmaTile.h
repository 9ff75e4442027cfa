/// What tiled products on tensor cores share: which sums a lane holds.
///
/// Four warps compute a tile, two down and two across, or all across, as
/// products of 16 x 8 (PTX ISA, mma.m16n8k16). With g = lane / 4 and t = lane %
/// 4 a lane holds these sums of each product: (g, 2t), (g, 2t + 1), (g + 8, 2t)
/// and (g + 8, 2t + 1).
///
/// Rows of weights are placed in the tile in an order that gives each lane the
/// sums of neighbouring units, over several products side by side. If each unit
/// has one sum and a lane holds eight units:
///
///   row of the tile   0 1 2 3 4 5 6 7   8 9 10 ..   16 ..   24 .. 31
///   unit              0 1 8 9 .. 24 25  2 3 10 ..   4 ..    6 ..  31
///   lane t            0 0 1 1 2 2 3 3   0 0 1 ..    0 ..    0 ..  3
///
/// If each unit has two sums, every other product holds the second sums.
#pragma once

#include "lowering/gpu/schedules/GemmTile.h"

namespace cria::simt {

class MmaTile : public GemmTile {
public:
  /// A tile with `warpsDown` warps down.
  MmaTile(Launch &launch, llvm::ArrayRef<Work> works, const GemmShape &shape,
          const GemmRows &rows, int64_t warpsDown)
      : GemmTile(launch, works, shape, rows), warpsDown(warpsDown) {}

protected:
  /// Number of products of a warp, down and across.
  int64_t down() const { return m / 16 / warpsDown; }
  int64_t across() const { return n / 8 / warpsAcross(); }
  /// The first row and column of a warp's products in the tile.
  mlir::Value firstRow(mlir::Value warp) {
    return b.mul(b.div(warp, warpsAcross()), down() * 16);
  }
  mlir::Value firstColumn(mlir::Value warp) {
    return b.mul(b.rem(warp, warpsAcross()), across() * 8);
  }

  UnitSum unitOf(mlir::Value row);
  /// The row and the unit of the lane's Sums number `number`.
  std::pair<mlir::Value, mlir::Value> placeOf(mlir::Value number);
  /// A lane's sums. The four sums of product (i, j) of its warp begin at (i *
  /// across() + j) * 4.
  std::vector<Sums> sumsOf(mlir::ValueRange sums);

private:
  int64_t warpsAcross() const { return kGemmThreads / kWarp / warpsDown; }
  /// The row and the unit of a lane's first sums.
  std::pair<mlir::Value, mlir::Value> firstPlace();
  /// How many neighbouring units a lane holds, and how many rows of the tile
  /// hold the units of four lanes.
  int64_t together() const;
  int64_t groupRows() const { return 4 * together() * sumsOfUnit(); }

  int64_t warpsDown;
};

} // namespace cria::simt
