/// What the toolkit's ptxas makes of kernels, and how much of a GPU that fills.
#pragma once

#include "lowering/gpu/cuda/Image.h"

#include "llvm/Support/raw_ostream.h"

namespace cria {

/// A table for people of each chip that the image is for, or that it has cubins
/// of: each kernel's figures of SASS (Sass.h), registers, memory, the blocks
/// that fit a multiprocessor, and how often these fill the GPU in a call of
/// `chunk` tokens; then what ptxas warns of. `weights` are the manifest's. A
/// line says so where the toolkit is not installed. Errors: ptxas or nvdisasm
/// fail.
llvm::Error printMachineCode(const CudaImage &image,
                             const llvm::json::Array &weights, int64_t chunk,
                             llvm::raw_ostream &os);

} // namespace cria
