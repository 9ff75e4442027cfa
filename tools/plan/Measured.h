/// Measured times of kernels, from files of cria-bench or cria-run.
#pragma once

#include "lowering/entry/Costs.h"

#include "llvm/Support/Error.h"

#include <map>
#include <string>

namespace cria {

/// One run of a kernel function.
struct MeasuredKernel {
  double seconds = 0, bytes = 0, operations = 0;
};

struct Measurements {
  /// The device: "NVIDIA H200, sm_90"; "" if the file does not say.
  std::string device;
  /// By function: "layers_mlp_gate_up_decode".
  std::map<std::string, MeasuredKernel> kernels;
};

/// Reads a file of `cria-bench --kernels --json` or `cria-run --profile`. From
/// a trace it takes the median of a kernel's runs. A launch counts for its
/// function in `kernels`. Errors begin with the path.
llvm::Expected<Measurements> readMeasured(llvm::StringRef path,
                                          llvm::ArrayRef<KernelCost> kernels);

} // namespace cria
