/// Programs of the CUDA toolkit, if it is installed. They are looked for on
/// PATH and in CUDA_HOME.
#pragma once

#include "lowering/gpu/cuda/Image.h"

namespace cria {

/// Whether the toolkit's program `name` is found.
bool hasTool(llvm::StringRef name);

/// Assembles an image's PTX for a chip with ptxas.
llvm::Expected<CudaBinary> assemble(const CudaImage &image,
                                    llvm::StringRef chip);

/// The output of `nvdisasm -c` for a cubin.
llvm::Expected<std::string> disassemble(const CudaBinary &cubin);

} // namespace cria
