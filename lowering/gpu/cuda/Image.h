/// The kernels that an artifact holds for NVIDIA GPUs.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace cria {

/// The kernels for one chip, and for the chips that are compatible with it.
struct CudaBinary {
  /// The format is "ptx", which runs on the chip and on later ones, or "cubin",
  /// which runs on the chip's generation. If the chip's name ends in a letter
  /// (sm_90a), the kernels run on that chip only.
  std::string format, chip, bytes;
  /// Every thread of every kernel waits for the launch before, which may still
  /// run when the kernel begins.
  bool dependent = false;
  /// Whether the kernels are those for chips with wgmma.
  bool wgmma = false;
  /// Of a cubin: the output of `ptxas -v`.
  std::string log;

  /// The symbol of this binary in the artifact.
  std::string symbol() const { return "cria_" + format + "_" + chip; }
};

struct CudaImage {
  /// PTX, the oldest chip's first, then the cubins assembled from it.
  std::vector<CudaBinary> binaries;
  /// The manifest's key "cuda" without the images: docs/artifact.md.
  llvm::json::Object plan;
  std::vector<std::string> kernels;

  const std::string &ptx() const { return binaries.front().bytes; }
};

/// Whether launches may overlap on a chip: its kernels can wait for the launch
/// before (griddepcontrol).
bool overlapsLaunches(llvm::StringRef chip);

/// The chips that a module's kernels are for, the oldest first.
std::vector<std::string> chipsOf(mlir::ModuleOp module);

/// Generates PTX for each target of the module's gpu.module, which is in the
/// LLVM and NVVM dialects. MLIR reports errors itself: the returned message is
/// then empty.
llvm::Expected<CudaImage> makeCudaImage(mlir::ModuleOp module);

} // namespace cria
