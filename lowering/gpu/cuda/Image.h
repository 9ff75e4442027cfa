/// What an artifact holds for NVIDIA GPUs.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace cria {

/// The kernels for some chips.
struct CudaBinary {
  /// "ptx", for the chip and later ones, or "cubin", for the chip's generation.
  std::string format, chip, bytes;

  /// Its symbol in the artifact.
  std::string symbol() const { return "cria_" + format + "_" + chip; }
};

struct CudaImage {
  /// The first is the PTX.
  std::vector<CudaBinary> binaries;
  /// The manifest's key "cuda" but for the images: docs/artifact.md.
  llvm::json::Object plan;
  std::vector<std::string> kernels;

  const std::string &ptx() const { return binaries.front().bytes; }
};

/// Generates PTX from a module whose gpu.module is in the LLVM and NVVM
/// dialects, which the PTX replaces. MLIR reports errors: the message is empty
/// then.
llvm::Expected<CudaImage> makeCudaImage(mlir::ModuleOp module);

/// Assembles PTX for a chip by the ptxas on PATH or of CUDA_HOME.
llvm::Expected<CudaBinary> assemble(const CudaBinary &ptx,
                                    llvm::StringRef chip);

} // namespace cria
