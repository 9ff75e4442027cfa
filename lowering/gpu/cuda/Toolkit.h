/// What the CUDA toolkit makes of PTX, where there is one: its programs are
/// looked for on PATH and in CUDA_HOME.
#pragma once

#include "lowering/gpu/cuda/Image.h"

namespace cria {

/// Whether there is a program of the toolkit.
bool hasTool(llvm::StringRef name);

/// Assembles an image's PTX for a chip by ptxas.
llvm::Expected<CudaBinary> assemble(const CudaImage &image,
                                    llvm::StringRef chip);

/// What `nvdisasm -c` prints of a cubin.
llvm::Expected<std::string> disassemble(const CudaBinary &cubin);

} // namespace cria
