/// What all products of few rows m of an input with rows n of weights share:
///
///   ask for the first weights (GemvRing.h)
///   (compute the input's rows into shared memory)
///   for the block's outputs, each warp:
///     some units of weight rows: sums[r][m] += w[r, k ...] * x[m, k ...],
///     lanes side by side along k, 16 bytes each
///     add up over lanes; lane 0 computes and stores the units
///
/// If rows choose their weights, as tokens choose experts, m is 1, and each row
/// has blocks of its own: row i is block i along y.
///
/// Each weight is read once. Bandwidth needs bytes in flight: latency times
/// bandwidth, 23 KiB a multiprocessor on an H200 (4.3 TB/s, 0.7 us).
#pragma once

#include "lowering/gpu/schedules/Rows.h"
#include "lowering/gpu/schedules/Tuning.h"
#include "lowering/gpu/schedules/Work.h"

namespace cria::simt {

/// How many rows of the input a block reads: all of them; or, where rows choose
/// their weights, the rows of one token, which may have one for each choice.
int64_t gemvRows(const Work &work);

class Gemv {
public:
  /// `length` elements of memory are a row of weights.
  Gemv(Launch &launch, llvm::ArrayRef<Work> works, const GemvSizes &sizes,
       int64_t length);
  virtual ~Gemv() = default;

  /// Builds all outputs; returns the blocks they take.
  int64_t emit();
  /// Bytes of shared memory that the launch gives.
  virtual int64_t launchedBytes() const { return 0; }

protected:
  /// Rows of weights that a warp multiplies: an operand, and the row; its
  /// product, and the loops of its unit.
  struct WeightRow {
    Operand weight;
    mlir::Value row, column;
    const Dot *dot;
    llvm::SmallVector<mlir::Value> loops;
  };
  /// Begins the kernel: what the block has in shared memory.
  virtual void prepare() = 0;
  /// A lane's sums over k of each weight row with each row of the input.
  virtual llvm::SmallVector<mlir::Value>
  dots(const Work &work, llvm::ArrayRef<WeightRow> rows) = 0;

  /// Builds `body` for each work, with the first unit of the warp.
  void forEachWork(
      llvm::function_ref<void(const Work &work, mlir::Value first)> body);
  /// The warp's units. Past the end, the last unit is repeated.
  llvm::SmallVector<mlir::Value> unitsFrom(const Work &work, mlir::Value first);
  llvm::SmallVector<WeightRow> rowsOf(const Work &work, mlir::ValueRange units);
  /// Row `number` of the block's rows of the input.
  mlir::Value row(int64_t number);
  /// The warp's number in the block.
  virtual mlir::Value warp() { return b.warp(); }
  /// A number that is the same in all lanes of a warp, in a form that says so.
  virtual mlir::Value uniform(mlir::Value number) { return number; }
  /// Warps of a block.
  int64_t warps() const { return b.threads() / kWarp; }
  /// Rows of weights that a warp multiplies side by side.
  int64_t rowsOfWarp(const Work &work) const {
    return unitsOfWarp(work) * sumsOf(work);
  }

  Launch &launch;
  KernelBuilder &b;
  llvm::ArrayRef<Work> works;
  /// Rows of the input, the length of one of weights, and how many of these a
  /// warp takes side by side if units allow it.
  int64_t m, length, warpRows;

private:
  void units(const Work &work, mlir::Value firstUnit);
  static int64_t sumsOf(const Work &work) {
    return static_cast<int64_t>(work.sums.size());
  }
  int64_t unitsOfWarp(const Work &work) const {
    return std::max<int64_t>(1, warpRows / sumsOf(work));
  }
  int64_t unitsOfBlock(const Work &work) const {
    return unitsOfWarp(work) * warps();
  }
};

/// Bytes of shared memory that a block takes for rows of `numbers` numbers
/// with weights in blocks (GemvBlocks.cpp).
int64_t blockGemvBytes(int64_t numbers, int64_t bits);
/// The same with floats in blocks (GemvWidened.cpp).
int64_t widenedGemvBytes(int64_t numbers);

/// The most bytes of normalized input that a block holds in shared memory.
inline constexpr int64_t kGemvShared = 40 << 10;
/// The most of an input that meets floats in blocks, whose numbers have twice
/// the bytes of the weights. With the ring it fits what all chips give.
inline constexpr int64_t kWidenedGemvShared = 60 << 10;

} // namespace cria::simt
