/// Correct kernels, and changes that make them wrong.
#pragma once

#include "tools/emulator/run/Launch.h"

#include <string>
#include <vector>

namespace cria::emulator {

/// A kernel `k(in, out)` with two buffers, run with one block shape.
struct PlantedKernel {
  const char *name;
  const char *ptx;
  Dim grid, block;
  uint64_t inBytes, outBytes; ///< `in` is zeros
  bool cooperative = false;
};

/// One change to a kernel: the first `from` becomes `to`.
struct Mutant {
  const char *kernel;
  const char *name;
  const char *from, *to;
  Finding::Kind kind;
  const char *at; ///< part of the line that must be named; "": any line
};

std::vector<PlantedKernel> plantedKernels();
std::vector<Mutant> plantedMutants();

} // namespace cria::emulator
