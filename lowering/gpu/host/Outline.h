/// Turns the body of a launch into a kernel.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace cria::simt {

/// Splits each view in the block that the turn of a surrounding loop chooses:
/// into a view of that layer, and a view of the rest.
void splitViews(mlir::Block &block);

/// A view of the memref's first elements, in row-major order: a memref of
/// `type` that has `sizes`.
mlir::Value withSizes(mlir::OpBuilder &b, mlir::Value memref,
                      mlir::MemRefType type,
                      llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// Moves the body into a gpu.func `name` of `kernels`, which a gpu.launch_func
/// launches instead. The kernel takes memrefs and the entry's numbers, and
/// computes what it needs from them: views, sizes, other numbers. Only a layer
/// is chosen on the host.
void outline(mlir::gpu::LaunchOp launch, mlir::gpu::GPUModuleOp kernels,
             llvm::StringRef name);

} // namespace cria::simt
