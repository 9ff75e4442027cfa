/// Makes an op of an entry a kernel and its launch.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/IRMapping.h"

namespace cria::cuda {

/// Numbers that the host would have to read from memory: where a kernel has
/// put each.
using Spills = llvm::DenseMap<mlir::Value, mlir::Value>;

/// A gpu.func that takes memrefs and the entry's numbers, and computes in
/// itself what it needs of them: views, sizes, other numbers. A layer alone is
/// chosen on the host, by a view of the cache.
class Outline {
public:
  /// Begins a kernel of blocks of `threads` threads; `before` is what it is
  /// launched for.
  Outline(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
          mlir::Operation *before, int64_t threads, const Spills &spills);

  /// Builds the kernel's body.
  mlir::OpBuilder &body() { return b; }
  /// A value of the entry in the kernel.
  mlir::Value capture(mlir::Value value);
  /// A copy of the op in the kernel.
  mlir::Operation *clone(mlir::Operation *op);
  /// Ends the kernel and launches it.
  void launch(const mlir::gpu::KernelDim3 &grid);

private:
  mlir::Value parameter(mlir::Value value);
  mlir::Value captureSubview(mlir::Value view);
  mlir::Value captureGlobal(mlir::Value memref);
  void captureUses(mlir::Operation *op);

  mlir::gpu::GPUFuncOp kernel;
  mlir::Operation *before;
  int64_t threads;
  const Spills &spills;
  mlir::OpBuilder b;
  mlir::IRMapping mapping;
  llvm::SmallVector<mlir::Value> operands;
};

/// Whether a number depends on the turn of a loop of the entry.
bool dependsOnLoop(mlir::Value number);

} // namespace cria::cuda
