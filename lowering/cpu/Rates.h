/// How fast the multiplying instructions of a CPU are, relative to f32 FMA.
/// These rates and the CPU's features choose schedules; its vendor does not.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <functional>
#include <string>

namespace cria {

struct CpuRates {
  /// The origin of the rates: a row of the table, or a file.
  std::string origin;
  /// Multiply-adds of bf16 in the time of one of f32 FMA, by vdpbf16ps and by
  /// tdpbf16ps (AMX), or by Arm's bfdot and bfmmla; 0 if the CPU lacks the
  /// instruction.
  double dotBf16 = 0, tilesBf16 = 0;
  /// The number of distant rows of a matrix that are read fastest together.
  int64_t readStreams = 1;
  /// Whether products of many rows are faster in blocks for the L2 cache.
  bool blocksForL2 = true;
  /// Rates of the whole machine: bytes read per second, and operations per
  /// second by the fastest instruction and by f32 FMA. 0 if not measured.
  double bytesPerSecond = 0, flops = 0, f32Flops = 0;
};

/// The rates measured on CPUs with the same features.
CpuRates knownRates(const std::function<bool(llvm::StringRef)> &has);

/// Reads measured rates from a file that cria-bench --save-machine wrote:
///
///   {"cpu": "...",
///    "operations_per_second": {"f32 FMA": 4.2e11, "tdpbf16ps": 6.2e12},
///    "read_bytes_per_second": {"1": 1.9e10, "8": 2.6e10}}
///
/// The keys of reads are numbers of streams. An instruction that is not in the
/// file keeps its rate; one that the CPU lacks is ignored. Errors begin with
/// the path.
llvm::Error readRates(llvm::StringRef path, CpuRates &rates);

} // namespace cria
