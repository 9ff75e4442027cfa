/// The kernels that an artifact holds for NVIDIA GPUs.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace cria {

/// A part of a text.
struct TextSpan {
  size_t offset, size;
};

/// The kernels for one chip, and for the chips that are compatible with it.
struct CudaBinary {
  /// The format is "ptx", which runs on the chip and on later ones, or "cubin",
  /// which runs on the chip's generation. If the chip's name ends in a letter
  /// (sm_90a), the kernels run on that chip only.
  std::string format, chip, bytes;
  /// Of PTX: the parts of the image's shared text that `bytes` is joined from,
  /// in ascending order.
  std::vector<TextSpan> spans;
  /// Every thread of every kernel waits for the launch before, which may still
  /// run when the kernel begins.
  bool dependent = false;
  /// The kernels are those for this generation of chips, as in Chips.h.
  int generation = 0;
  /// Of a cubin: the output of `ptxas -v`.
  std::string log;

  /// The symbol in the artifact: a cubin has its own, PTX lies in the shared
  /// text.
  std::string symbol() const {
    return format == "ptx" ? "cria_ptx" : "cria_cubin_" + chip;
  }
};

struct CudaImage {
  /// The PTX of all chips. A piece that several chips have is there once.
  std::string text;
  /// PTX, the oldest chip's first, then the cubins assembled from it.
  std::vector<CudaBinary> binaries;
  /// The manifest's key "cuda" without the images: docs/artifact.md.
  mlir::DictionaryAttr plan;
  std::vector<std::string> kernels;

  const std::string &ptx() const { return binaries.front().bytes; }
};

/// The chips that a module's kernels are for, the oldest first.
std::vector<std::string> chipsOf(mlir::ModuleOp module);

/// Generates PTX for each target of the module's gpu.module, which is in the
/// LLVM and NVVM dialects. LLVM compiles each kernel once, for the oldest chip
/// that runs it. MLIR reports errors itself: the returned message is then
/// empty.
llvm::Expected<CudaImage> makeCudaImage(mlir::ModuleOp module);

} // namespace cria
