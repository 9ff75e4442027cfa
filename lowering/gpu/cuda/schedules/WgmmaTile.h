/// What tiled products by warpgroups (wgmma, sm_90a) share, 128 rows of the
/// input x 256 or 128 of weights:
///
///   warpgroup 2   one thread copies the rows of input and weights of a step to
///                 a slot of a ring, as soon as the slot is free
///   0 and 1       multiply when the slot is full, and finish the tile
///
/// Blocks are clusters of two, whose tiles nearly always have the same weights:
/// each block copies half of them to both, else all of its own. So a slot is
/// free when the warpgroups of both blocks have multiplied what it had, and a
/// block ends when the other one, too, needs its memory and its barriers no
/// more.
///
/// The grid is persistent, one block on each multiprocessor: while warpgroups
/// finish a tile, the first steps of the next one are on their way. Weights of
/// the first tile's first steps are on their way before the launch before has
/// ended, which makes the input.
///
/// Copies take boxes, which tensor maps describe: zeros where the input has no
/// row, or a row no element. A slot has boxes of the input, 64 terms each, then
/// rows of weights: all of the first sum, then all of the second.
#pragma once

#include "lowering/gpu/cuda/Ring.h"
#include "lowering/gpu/schedules/Choose.h"

namespace cria::simt {

class WgmmaTile : public GemmTile {
public:
  /// Tiles with `n` rows of weights, in steps of `terms` terms.
  WgmmaTile(Launch &launch, const GemmProblem &problem, int64_t n,
            int64_t terms);

  /// Threads that multiply.
  static constexpr int64_t kMultiply = 2 * cuda::kWarpgroup;

  /// Makes tensor maps of the operands; false where they cannot be copied so.
  bool addMaps();
  /// Begins the kernel's shared memory.
  virtual void begin();

protected:
  static constexpr int64_t kTileM = 128;
  /// Rows of weights of a tile: `wide` or `narrow` ones.
  static int64_t columnsOf(const GemmProblem &problem);

  /// A weight's boxes: `units` units each, and where the box of a unit begins.
  struct Boxes {
    mlir::Value map;
    llvm::SmallVector<int64_t> box;
    int64_t units;
  };
  virtual Boxes boxesOf(const Operand &weight, int64_t units) = 0;
  /// Units whose rows a box has in an order of its own: a box has a multiple of
  /// these. They depend on `together`, the neighbouring units of a lane, which
  /// `addMaps` halves, but not below `leastTogether`, until boxes fit.
  virtual int64_t group() const = 0;
  int64_t together, leastTogether;

  /// The first element of a row of weights that is copied for a step, and where
  /// row `row` of the weights lies in a slot.
  virtual mlir::Value firstW(mlir::Value step) = 0;
  virtual Address rowW(mlir::Value slot, mlir::Value row) = 0;
  virtual int64_t bytesOfW() const = 0;
  int64_t bytesOfX() const { return kTileM * terms * 2; }
  int64_t slotBytes() const { return bytesOfX() + bytesOfW(); }
  int64_t launchedBytes() const override { return stages * slotBytes(); }

  /// A thread's sums over the steps of a tile. `before` steps of other tiles
  /// were before this tile's.
  virtual std::vector<Sums> sum(cuda::Ring &ring, const Corner &corner,
                                mlir::Value before) = 0;
  /// Threads that are done with a slot together: a warpgroup, whose products
  /// alone read it, or a warp.
  int64_t readers = cuda::kWarpgroup;
  /// Whether a thread is one of two of these, that tell each block of the
  /// cluster that they are done; and which block.
  std::pair<mlir::Value, mlir::Value> teller();
  /// The steps done after this tile, if `before` were done before it.
  mlir::Value behind(const Corner &corner, mlir::Value before) {
    return b.add(before, b.sub(corner.end, corner.first));
  }

  int64_t terms, stages;
  /// The slots, as rows of a box of the input.
  Rows slots;

private:
  void multiplyTiles(mlir::Value rows) override;
  Rows freeMemory() const override { return flag; }
  void barrier() override { cuda::barrierOf(b, kMultiply); }

  bool takesInput();
  std::optional<int64_t> unitsOfBox(const Work &work, const Operand &weight);

  /// A copy of weights, but for the step's terms.
  struct Copy {
    const Boxes &from;
    mlir::Value group, row; // of the map, and of the slot's weights
  };
  std::vector<Copy> copiesOf(const Corner &corner, size_t i, mlir::Value half);
  enum Operands { Input, Weights, Both };
  void copyWork(cuda::Ring &ring, const Corner &corner, size_t i,
                mlir::Value before, mlir::Value first, mlir::Value end,
                Operands operands);
  /// The end of the steps whose slots are free when the first tile begins.
  mlir::Value endOfFree(const Corner &corner) {
    return b.min(b.add(corner.first, stages), corner.end);
  }
  void forTiles(mlir::Value rows,
                llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body);

  int64_t blocks;
  mlir::Value mapX;
  std::vector<llvm::SmallVector<Boxes>> boxes; // of each sum of each work
  Rows flag;
};

/// Begins a kernel of such tiles, unless its operands cannot be copied so.
template <typename Tile>
GemmKernel beginWgmma(const GemmProblem &problem, const llvm::Twine &name) {
  auto launch = std::make_unique<Launch>(
      problem.function, name, cuda::specializedThreads(Tile::kMultiply));
  auto tile = std::make_unique<Tile>(*launch, problem);
  if (!tile->addMaps()) {
    launch->erase();
    return {};
  }
  tile->begin();
  return {std::move(launch), std::move(tile)};
}

} // namespace cria::simt
