/// A report of the machine code that ptxas makes of kernels: the resources of
/// each kernel, and how far it fills a GPU.
#pragma once

#include "lowering/gpu/cuda/Image.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A kernel in machine code.
struct CodeRow {
  std::string kernel;
  /// Threads of a block; registers and bytes of local memory of a thread; bytes
  /// of shared memory of a block; blocks that fit a multiprocessor.
  int64_t threads = 0, registers = 0, local = 0, shared = 0, blocks = 0;
  /// Figures from SASS (Sass.h), KiB of loads that a multiprocessor has in
  /// flight, and how often `blocks` on each multiprocessor fill the GPU in the
  /// longest call.
  std::optional<double> loads, kib, mma, waves;
};

/// The machine code of the kernels for a chip.
struct ChipCode {
  std::string chip, gpu;
  int64_t multiprocessors = 0;
  std::vector<CodeRow> kernels;
  /// The warnings of ptxas.
  std::vector<std::string> warnings;
  /// Why there are no kernels; else "".
  std::string problem;
};

/// Reads each chip that the image has cubins for or, without cubins, each chip
/// that it has PTX for. Calls have `chunk` tokens, and `weights` is the
/// manifest's list. If the toolkit is not installed, the result is one ChipCode
/// without a name whose `problem` says so. Errors: ptxas or nvdisasm fails.
llvm::Expected<std::vector<ChipCode>>
readMachineCode(const CudaImage &image, mlir::ArrayAttr weights, int64_t chunk);

/// A table for people.
void printMachineCode(const ChipCode &code, llvm::raw_ostream &os);

/// The same for scripts.
llvm::json::Object machineCodeJson(const ChipCode &code);

} // namespace cria
