/// The kernels that are measured.
#pragma once

#include "tools/emulator/run/Launch.h"

#include <string>
#include <vector>

namespace cria::emulator {

/// A kernel with pointers to `buffers` and then `size` as parameters.
struct BenchKernel {
  std::string name;
  std::string ptx;
  Dim grid, block;
  std::vector<uint64_t> buffers; ///< bytes of each
  uint32_t size;
};

std::vector<BenchKernel> benchKernels();

} // namespace cria::emulator
