/// Builds loops over vectors.
#pragma once

#include "lowering/cpu/VectorUnit.h"
#include "lowering/kernel/LoopBuilder.h"

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
  void store(mlir::Value vector, mlir::Value memref, mlir::ValueRange at);
  /// Asks for the cache line of memref[at], which is read soon: for the cache
  /// `level`, 1 the nearest.
  void prefetch(mlir::Value memref, mlir::ValueRange at, unsigned level);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// acc[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1], of bf16.
  mlir::Value dotPairs(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// The result of an instruction that LLVM has as an intrinsic.
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type,
                        mlir::ValueRange arguments);
  /// The columns of a square of vectors, of a power of two.
  llvm::SmallVector<mlir::Value> transposed(llvm::ArrayRef<mlir::Value> rows);
  /// f32 of the element memref[at], in every lane.
  mlir::Value splat(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  /// The size of a memref's dimension, constant where it is static.
  mlir::Value size(mlir::Value memref, unsigned dim);

  /// A loop of parallel iterations, 0 to end.
  void parallel(mlir::Value end, llvm::function_ref<void(mlir::Value)> body);

  /// `one` where there is one row, `many` where there are more; without rows
  /// nothing runs.
  void byRows(mlir::Value rows, llvm::function_ref<void()> one,
              llvm::function_ref<void()> many);
};

} // namespace cria
