/// Makes the body of a launch a kernel.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace cria::simt {

/// Makes of each view in the block that the turn of a loop around chooses a
/// view of that layer, and one of the rest.
void splitViews(mlir::Block &block);

/// Moves the body into a gpu.func `name` of `kernels`, which a gpu.launch_func
/// launches instead. It takes memrefs and the entry's numbers, and computes in
/// itself what it needs of them: views, sizes, other numbers. A layer alone is
/// chosen on the host.
void outline(mlir::gpu::LaunchOp launch, mlir::gpu::GPUModuleOp kernels,
             llvm::StringRef name);

} // namespace cria::simt
