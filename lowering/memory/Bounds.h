/// Upper bounds of the sizes of buffers and loops.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace cria {

/// Fails if a module reads the size of a dimension that a tensor or memref has
/// not: no bound follows from such a size.
mlir::LogicalResult verifyDimensions(mlir::ModuleOp module);

/// Bounds a size by a constant. The number of tokens is bounded by the
/// function's `cria.chunk`. Follows a few thousand numbers and buffers in all:
/// another size needs another object.
class Bounds {
public:
  explicit Bounds(mlir::func::FuncOp function);
  /// The upper bound of a size; nothing if no bound follows from the ops that
  /// compute the size.
  std::optional<int64_t> most(mlir::Value size) const;
  /// The largest shape of an allocation, or an error at its location.
  mlir::FailureOr<llvm::SmallVector<int64_t>>
  mostShape(mlir::memref::AllocOp alloc) const;

private:
  std::optional<int64_t> most(mlir::OpFoldResult size) const;
  std::optional<int64_t> most(mlir::BlockArgument argument) const;
  std::optional<int64_t> most(mlir::Value buffer, int64_t dim) const;
  std::optional<int64_t> mostCarried(
      mlir::scf::ForOp loop, mlir::BlockArgument argument,
      llvm::function_ref<std::optional<int64_t>(mlir::Value)> bound) const;
  std::optional<int64_t> mostPassed(
      mlir::BlockArgument argument,
      llvm::function_ref<std::optional<int64_t>(mlir::Value)> bound) const;
  std::optional<int64_t> most(mlir::AffineMap map,
                              mlir::ValueRange operands) const;

  int64_t chunk;
  /// The numbers and buffers that were followed.
  mutable int steps = 0;
  /// The calls through which an argument is followed at the moment.
  mutable int calls = 0;
  /// What loops carry and is followed at the moment.
  mutable llvm::SmallVector<mlir::BlockArgument> carried;
};

} // namespace cria
