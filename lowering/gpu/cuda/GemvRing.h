/// Products of few rows whose weights come through shared memory.
///
/// Loads into registers do not stay in flight: ptxas moves them to where they
/// are used. So cp.async copies weights some turns ahead, into a ring of stages
/// that each warp has for each of its rows, from before the input is computed
/// on. A turn is a piece of a row for each lane.
///
///   turn t:    wait for its copies
///              begin to copy turn t + ahead, over that of t - 1
///              multiply
#pragma once

#include "lowering/gpu/Gemv.h"

namespace cria::simt {

class RingGemv : public Gemv {
public:
  using Gemv::Gemv;

protected:
  /// Where a row of weights lies: in a row of memory, from `first` on.
  struct Source {
    Rows rows;
    mlir::Value row, first;
    Access access;
  };
  /// How weights are read, in their elements.
  struct Shape {
    mlir::Type element;
    /// What a lane takes at once, side by side.
    int64_t piece;
    /// What comes before a turn's pieces, from the turn before. Then lanes read
    /// what others have copied.
    int64_t lead;
    /// Pieces that a lane copies ahead, of all of its rows, and turns at least.
    int64_t ahead, turns;
  };
  /// Makes the ring in `left` bytes of shared memory, if need be for fewer rows
  /// side by side or fewer turns ahead. Without one, weights are read where
  /// they lie: where there is no room, or a piece is no word. Returns its
  /// bytes.
  int64_t makeRing(const Shape &shape, int64_t left);
  /// Begins to copy the first turns.
  void prepare() override;

  /// What a lane's sum begins with.
  virtual mlir::Value zero() = 0;
  /// What `step` takes of the input, which is read before the turn's weights
  /// are waited for.
  virtual llvm::SmallVector<mlir::Value> inputs(const Work &,
                                                mlir::ValueRange) {
    return {};
  }
  /// Adds the products at some columns of k, a piece each, to the sums, of each
  /// weight row with each row of the input.
  virtual llvm::SmallVector<mlir::Value> step(llvm::ArrayRef<Source> sources,
                                              mlir::ValueRange columns,
                                              mlir::ValueRange inputs,
                                              mlir::ValueRange sums) = 0;
  llvm::SmallVector<mlir::Value> dots(const Work &work,
                                      llvm::ArrayRef<WeightRow> rows) override;

private:
  int64_t turnLength() const { return kWarp * shape.piece; }
  /// Stages of a row, for so many rows: one for the turn that is multiplied.
  int64_t stagesOf(int64_t rows) const {
    return std::max(shape.turns, shape.ahead / rows) + 1;
  }
  int64_t stagesLength() const;
  /// The stage of turn `first + turn` of the `i`-th of a warp's rows; `first`
  /// is a multiple of the stages of a row.
  Source stage(int64_t rows, int64_t i, mlir::Value first, int64_t turn);
  llvm::SmallVector<Source> stagesAt(int64_t rows, mlir::Value first,
                                     int64_t turn);
  void fetch(llvm::ArrayRef<WeightRow> rows, mlir::Value first, int64_t turn);
  void await(int64_t groups);
  llvm::SmallVector<mlir::Value> dotsInPlace(const Work &work,
                                             llvm::ArrayRef<WeightRow> rows);
  llvm::SmallVector<mlir::Value> turn(const Work &work,
                                      llvm::ArrayRef<WeightRow> rows,
                                      mlir::Value first, int64_t turn,
                                      mlir::ValueRange sums);

  Shape shape = {};
  std::optional<Rows> stages;
};

} // namespace cria::simt
