/// How fast a CPU's units are beside each other. Schedules are chosen by these
/// rates, and by what a CPU can do; never by whose it is.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <functional>
#include <string>

namespace cria {

struct CpuRates {
  /// Where they come from: the table's row, or a file.
  std::string origin;
  /// Multiply-adds of bf16 for each of f32 FMA, by vdpbf16ps and by tdpbf16ps
  /// (AMX); 0 for a unit that is not there.
  double dotBf16 = 0, tilesBf16 = 0;
  /// How many rows of a matrix, far from each other, are read fastest together.
  int64_t readStreams = 1;
  /// Whether products of many rows are faster in blocks for the second cache.
  bool blocksForL2 = true;
  /// Of the whole machine: bytes it reads and operations it does in a second,
  /// by its fastest unit and by f32 FMA. 0 where it was not measured.
  double bytesPerSecond = 0, flops = 0, f32Flops = 0;
};

/// Those measured on CPUs that have the same features.
CpuRates knownRates(const std::function<bool(llvm::StringRef)> &has);

/// Takes over what a file has measured, as cria-bench --save-machine writes it:
///
///   {"cpu": "...",
///    "operations_per_second": {"f32 FMA": 4.2e11, "tdpbf16ps": 6.2e12},
///    "read_bytes_per_second": {"1": 1.9e10, "8": 2.6e10}}
///
/// Reads are by streams. A unit that the file leaves out keeps its rate; one
/// that the CPU lacks is ignored. Messages begin with the path.
llvm::Error readRates(llvm::StringRef path, CpuRates &rates);

} // namespace cria
