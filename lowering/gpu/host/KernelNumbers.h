/// A kernel's parameters are device addresses only. A number that the host
/// passes is computed in the kernel instead:
///
///   gpu.func @k(%w, %position)  =>  gpu.func @k(%w, %state) {
///                                     %field = memref.view %state[0][]
///                                     %position = memref.load %field[]
#pragma once

#include "lowering/entry/Entry.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/IRMapping.h"

namespace cria::simt {

/// Numbers that a kernel computes from the step's state, in place of
/// parameters.
class KernelNumbers {
public:
  KernelNumbers(mlir::gpu::GPUFuncOp kernel, const EntryArguments &arguments)
      : kernel(kernel), arguments(arguments),
        b(mlir::OpBuilder::atBlockBegin(&kernel.front())) {}

  /// Whether a number of the host is computed only from constants and numbers
  /// of the step.
  static bool canCompute(mlir::Value number);
  /// Computes a number of the host in the kernel, in place of parameter `i`.
  /// Fails if the kernel cannot know it.
  mlir::LogicalResult compute(unsigned i, mlir::Value number);
  /// Removes the parameters that are computed. Returns whether the kernel has a
  /// new last parameter, the step's state.
  bool finish();

private:
  mlir::Value rebuild(mlir::Value number);
  mlir::Value rebuild(mlir::BlockArgument number);
  mlir::Value field(size_t offset);

  mlir::gpu::GPUFuncOp kernel;
  const EntryArguments &arguments;
  mlir::OpBuilder b;
  mlir::IRMapping known;
  llvm::BitVector computed;
  mlir::BlockArgument state;
};

} // namespace cria::simt
