/// What the toolkit's ptxas makes of kernels, and how much of a GPU that fills.
#pragma once

#include "lowering/gpu/cuda/Image.h"

#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A kernel in machine code.
struct CodeRow {
  std::string kernel;
  /// Of a block; bytes of shared memory; blocks that fit a multiprocessor.
  int64_t threads = 0, registers = 0, local = 0, shared = 0, blocks = 0;
  /// Figures of SASS (Sass.h), KiB of loads that a multiprocessor has in
  /// flight, and how often `blocks` fill the GPU in the longest call.
  std::optional<double> loads, kib, mma, waves;
};

/// What ptxas makes of the kernels for a chip.
struct ChipCode {
  std::string chip, gpu;
  int64_t multiprocessors = 0;
  std::vector<CodeRow> kernels;
  /// What ptxas warns of.
  std::vector<std::string> warnings;
  /// Why there are no kernels, or "".
  std::string problem;
};

/// Each chip that the image is for, or that it has cubins of, in calls of
/// `chunk` tokens. `weights` are the manifest's. Where the toolkit is not
/// installed, one without name says so. Errors: ptxas or nvdisasm fail.
llvm::Expected<std::vector<ChipCode>>
readMachineCode(const CudaImage &image, const llvm::json::Array &weights,
                int64_t chunk);

/// A table for people.
void printMachineCode(const ChipCode &code, llvm::raw_ostream &os);

/// The same for scripts.
llvm::json::Object machineCodeJson(const ChipCode &code);

} // namespace cria
