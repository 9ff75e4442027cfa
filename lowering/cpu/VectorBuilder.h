/// Builds loops over vectors.
#pragma once

#include "lowering/cpu/VectorUnit.h"
#include "lowering/kernel/LoopBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include <array>

namespace cria {

/// Builds vector code at one location.
class VectorBuilder : public LoopBuilder {
public:
  VectorBuilder(mlir::Location loc, mlir::OpBuilder &builder,
                const VectorUnit &unit)
      : LoopBuilder(loc, builder), unit(unit) {}

  const VectorUnit &unit;

  mlir::Value index(int64_t value);
  mlir::VectorType vectorType(int64_t lanes, mlir::Type element);
  mlir::Value zero(int64_t lanes);
  mlir::Value load(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  /// A load of 16-bit or 32-bit floats as f32.
  mlir::Value loadWide(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  /// A load of bf16, two for each lane, as f32: those in even places, and those
  /// in odd ones. This takes two instructions, and wide loads of each half
  /// four.
  std::array<mlir::Value, 2> loadHalves(mlir::Value memref,
                                        mlir::ValueRange at);
  void store(mlir::Value vector, mlir::Value memref, mlir::ValueRange at);
  /// Prefetches the cache line of memref[at] to the cache `level`; 1 is the
  /// nearest.
  void prefetch(mlir::Value memref, mlir::ValueRange at, unsigned level);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// acc[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1], of bf16.
  mlir::Value dotPairs(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// acc[i] + the sum of w[4i + j] * x[4i + j] for j < 4, of bytes. x is
  /// signed; w is signed on Arm, and unsigned on x86. Expects `unit.dotBytes`.
  mlir::Value dotBytes(mlir::Value w, mlir::Value x, mlir::Value acc);
  /// acc[2i + j] + the sum over k of a[K i + k] * b[K j + k], for i, j < 2: two
  /// rows of K numbers times two others, by Arm's mmla.
  mlir::Value multiplyRows(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// From two rows of four lanes to the sums that `multiplyRows` adds to, of
  /// the first two lanes and of the last two; and back.
  std::pair<mlir::Value, mlir::Value> swappedHalves(mlir::Value a,
                                                    mlir::Value b);
  /// The result of an instruction that LLVM has as an intrinsic.
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type,
                        mlir::ValueRange arguments);
  /// The columns of a square of vectors. Its size is a power of two.
  llvm::SmallVector<mlir::Value> transposed(llvm::ArrayRef<mlir::Value> rows);
  /// The sum of each vector's lanes. The number of vectors is a power of two.
  /// The upper half of the lanes is added to the lower half until one lane is
  /// left, so a sum's bits do not depend on the other vectors.
  llvm::SmallVector<mlir::Value> sums(llvm::ArrayRef<mlir::Value> vectors);
  /// The element memref[at] as f32, in every lane.
  mlir::Value splat(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  /// `count` adjacent elements from memref[at] on, of at most 64 bits, again
  /// and again in a vector of `elements`.
  mlir::Value repeated(mlir::Value memref, mlir::ValueRange at, int64_t count,
                       int64_t elements);
  /// The bf16 elements [column, column + lanes) of rows `row` and `row` + 1 of
  /// a matrix, in turns.
  mlir::Value pairedRows(mlir::Value matrix, mlir::Value row,
                         mlir::Value column, int64_t lanes);
  /// The size of a memref's dimension, a constant if it is static.
  mlir::Value size(mlir::Value memref, unsigned dim);

  /// Memory that each thread has in the parallel loop here, aligned to cache
  /// lines.
  mlir::Value scratch(llvm::ArrayRef<int64_t> shape, mlir::Type type);
  /// A loop of parallel iterations, 0 to end.
  void parallel(mlir::Value end, llvm::function_ref<void(mlir::Value)> body);
  /// The same, for a body that does iterations [first, last) in less time
  /// together than one by one: a thread then runs as many as are its own,
  /// `most` or fewer at once. In the IR a range is one iteration, whose end is
  /// opaque; LowerToAbi makes longer ones.
  void parallelRanges(
      mlir::Value end, int64_t most,
      llvm::function_ref<void(mlir::Value first, mlir::Value count)> body);

  /// Runs `one` if there is one row, `many` if there are more, and nothing if
  /// there are no rows.
  void byRows(mlir::Value rows, llvm::function_ref<void()> one,
              llvm::function_ref<void()> many);

private:
  mlir::scf::ForallOp inParallel; // the innermost that is being built
};

} // namespace cria
