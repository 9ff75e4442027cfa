/// What an artifact holds for NVIDIA GPUs.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace cria {

/// The kernels for some chips.
struct CudaBinary {
  /// "ptx", for the chip and later ones, or "cubin", for the chip's generation.
  /// Where the chip's name ends in a letter, for that very chip.
  std::string format, chip, bytes;
  /// All threads of all kernels wait for the launch before theirs, which may
  /// still run when they begin.
  bool dependent = false;
  /// Whether its kernels are those for chips with wgmma.
  bool wgmma = false;
  /// Of a cubin, what ptxas says of the kernels.
  std::string log;

  /// Its symbol in the artifact.
  std::string symbol() const { return "cria_" + format + "_" + chip; }
};

struct CudaImage {
  /// PTX, that of the oldest chip first, and what is assembled of it.
  std::vector<CudaBinary> binaries;
  /// The manifest's key "cuda" but for the images: docs/artifact.md.
  llvm::json::Object plan;
  std::vector<std::string> kernels;

  const std::string &ptx() const { return binaries.front().bytes; }
};

/// Whether launches may overlap on a chip: kernels can wait for the launch
/// before theirs (griddepcontrol).
bool overlapsLaunches(llvm::StringRef chip);

/// The chips that a module's kernels are for, the oldest first.
std::vector<std::string> chipsOf(mlir::ModuleOp module);

/// Generates PTX for each target of a module's gpu.module, which is in the LLVM
/// and NVVM dialects. MLIR reports errors: the message is empty then.
llvm::Expected<CudaImage> makeCudaImage(mlir::ModuleOp module);

} // namespace cria
