/// What an artifact holds for NVIDIA GPUs.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace cria {

struct CudaImage {
  /// The oldest architecture that runs it, such as "sm_80".
  std::string chip;
  std::string ptx;
  /// The manifest's key "cuda" but for the images: docs/artifact.md.
  llvm::json::Object plan;
  std::vector<std::string> kernels;

  /// Of the PTX in the artifact.
  std::string symbol() const { return "cria_ptx_" + chip; }
};

/// Generates PTX from a module whose gpu.module is in the LLVM and NVVM
/// dialects. MLIR reports errors: the message is empty then.
llvm::Expected<CudaImage> makeCudaImage(mlir::ModuleOp module);

} // namespace cria
