/// Products of few rows whose weights come through shared memory.
///
/// Loads into registers do not stay in flight: ptxas moves them to where they
/// are used. So weights are copied some stages ahead, into a ring that each
/// warp has for each of its rows, from before the input is computed on. A turn
/// is a piece of a row for each lane; a stage has some turns. By cp.async lanes
/// copy a turn each:
///
///   stage s:   wait for its copies
///              begin to copy stage s + ahead, over that of s - 1
///              multiply
///
/// By cp.async.bulk (sm_90a) one lane copies a stage of all rows, and each
/// stage has a barrier that counts its bytes:
///
///   stage s:   wait for its barrier
///              multiply
///              barrier of the warp: all lanes have read the stage
///              begin to copy stage s + stages, over that of s
///
/// Lanes add the same products in the same order either way.
#pragma once

#include "lowering/gpu/cuda/Warpgroups.h"
#include "lowering/gpu/schedules/Gemv.h"

namespace cria::simt {

class RingGemv : public Gemv {
public:
  /// With `bulk` weights come by cp.async.bulk, where rows allow it.
  RingGemv(Launch &launch, llvm::ArrayRef<Work> works, const GemvSizes &sizes,
           int64_t length, bool bulk)
      : Gemv(launch, works, sizes, length), bulk(bulk) {}
  bool isBulk() const { return bulk; }

protected:
  /// Where a row of weights lies: in a row of memory, from `first` on.
  struct RowAddress {
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
    /// Turns of a stage.
    int64_t grain = 1;
  };
  /// Makes the ring in `left` bytes of shared memory, if need be for fewer rows
  /// side by side or fewer turns ahead. Without one, weights are read where
  /// they lie: where there is no room, or a piece is no word. Returns its
  /// bytes.
  int64_t makeRing(const Shape &shape, int64_t left);
  /// Begins to copy the first stages.
  void prepare() override;
  mlir::Value warp() override { return bulk ? ownWarp : Gemv::warp(); }
  mlir::Value uniform(mlir::Value number) override {
    return bulk ? b.shuffleFrom(number, b.i32(0)) : number;
  }

  /// What a lane's sum begins with.
  virtual mlir::Value zero() = 0;
  /// What `step` takes of the input, which is read before the turn's weights
  /// are waited for.
  virtual llvm::SmallVector<mlir::Value>
  inputs(const Work &, llvm::ArrayRef<WeightRow>, mlir::ValueRange) {
    return {};
  }
  /// Adds the products at some columns of k, a piece each, to the sums, of each
  /// weight row with each row of the input.
  virtual llvm::SmallVector<mlir::Value>
  step(llvm::ArrayRef<RowAddress> sources, mlir::ValueRange columns,
       mlir::ValueRange inputs, mlir::ValueRange sums) = 0;
  llvm::SmallVector<mlir::Value> dots(const Work &work,
                                      llvm::ArrayRef<WeightRow> rows) override;

private:
  int64_t turnLength() const { return kWarp * shape.piece; }
  int64_t stageLength() const { return shape.grain * turnLength(); }
  int64_t elementBytes() const {
    return shape.element.getIntOrFloatBitWidth() / 8;
  }
  /// Stages of each row if there are `rows` rows. One of them is for the turn
  /// that is multiplied.
  int64_t stagesOf(int64_t rows) const;
  /// Stages that are copied ahead.
  int64_t aheadOf(int64_t rows) const { return stagesOf(rows) - !bulk; }
  int64_t stagesLength() const;
  int64_t mostStages() const;
  /// The stage of number `first + turn` of the `i`-th of a warp's rows; `first`
  /// is a multiple of the stages of a row.
  RowAddress stage(int64_t rows, int64_t i, mlir::Value first, int64_t turn);
  llvm::SmallVector<RowAddress> stagesAt(int64_t rows, mlir::Value first,
                                         int64_t turn);
  mlir::Value columnAt(mlir::Value first, int64_t turn, int64_t inStage);
  void fetch(llvm::ArrayRef<WeightRow> rows, mlir::Value first, int64_t turn);
  void await(int64_t rows, mlir::Value first, int64_t turn);
  void makeBarriers();
  mlir::Value barrierOf(int64_t rows, int64_t turn);
  void fetchBulk(llvm::ArrayRef<WeightRow> rows, mlir::Value first,
                 int64_t turn);
  void copyBulk(llvm::ArrayRef<WeightRow> rows, mlir::Value first, int64_t turn,
                int64_t count);
  llvm::SmallVector<mlir::Value> dotsInPlace(const Work &work,
                                             llvm::ArrayRef<WeightRow> rows);
  llvm::SmallVector<mlir::Value> multiply(const Work &work,
                                          llvm::ArrayRef<WeightRow> rows,
                                          mlir::Value first, int64_t turn,
                                          mlir::ValueRange sums);
  llvm::SmallVector<mlir::Value> multiplyRest(const Work &work,
                                              llvm::ArrayRef<WeightRow> rows,
                                              mlir::Value first, int64_t turn,
                                              mlir::ValueRange sums);

  Shape shape = {};
  std::optional<Rows> stages;
  bool bulk;
  /// With `bulk`: the warp's number, and whether this lane copies.
  mlir::Value ownWarp, leads;
  std::optional<cuda::PhaseBarriers> barriers;
};

} // namespace cria::simt
