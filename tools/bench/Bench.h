/// Times a model and compares it with what the machine can do.
///
/// The bandwidth of memory doubles and halves within minutes on shared
/// machines. So every burst of decoding lies between two passes of a read loop
/// over the same weights (the fastest of several loops), and every prefill
/// between two runs of the multiply-add loops. The report has the median of
/// their ratios.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/Device.h"
#include "tools/WeightOptions.h"
#include "tools/bench/Kernels.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cria::bench {

/// The command line.
struct BenchOptions {
  std::string artifact;
  std::string weights; // "": random weights
  uint64_t seed = 1;
  WeightOptions binding;
  std::vector<int64_t> promptLengths; // empty: 512, or what fits
  int64_t genLength = 32;
  std::vector<int64_t> depths = {0};
  int threads = 0;
  DeviceOptions device;
  std::vector<int64_t> batches; // sequences at once
  bool kernels = false;
  bool json = false;
  std::string saveMachine; // a file, or ""
};

/// A rate of the machine: the median, or why there is none.
struct Rate {
  std::string name; // "tdpbf16ps", "8 far streams"
  double perSecond = 0;
  std::string problem; // "": it was measured
};

/// One thing measured; medians.
struct Measured {
  double seconds = 0; // a token of decode, a whole prompt of prefill
  double tokensPerSecond = 0;
  double floorSeconds = 0; // 0: no rate was measured that makes a floor
  double fraction = 0;     // floor over time, the median over repetitions
  bool boundByBytes = false;
};

/// Decoding of `sequences` sequences at once, at a depth. The measured seconds
/// are those of a step, which gives each sequence a token.
struct BatchRow {
  int64_t sequences = 0, depth = 0;
  Measured measured;
  double ratio = 0; // to the tokens per second of one sequence; 0: not measured
};

/// All results.
struct Report {
  std::string artifact, compiler, target, device, type;
  uint64_t artifactBytes = 0, weightBytes = 0, cacheBytes = 0;
  uint64_t residentBytes = 0;
  double openSeconds = 0, bindSeconds = 0;
  int threads = 0;
  int64_t ranks = 1;         // that share the model; the bytes are a rank's
  Rate read;                 // bytes
  std::vector<Rate> compute; // operations
  std::vector<std::pair<int64_t, Measured>> decode;  // by depth
  std::vector<std::pair<int64_t, Measured>> prefill; // by length of the prompt
  std::vector<BatchRow> batches;
  int64_t firstLength = 0;
  Measured firstToken;
  std::vector<KernelTable> kernels;
  nlohmann::json code; // see cudaCode; null on the CPU

  /// Resident memory over weights and KV caches.
  double residentFraction() const;
};

/// Loads and measures. If ranks share the model, all of them call it with the
/// same options; the rates are those of the slowest rank. `ranks` is set to
/// them once they are joined, and else stays null.
Result<Report> runBench(const BenchOptions &options, const CriaRanks *&ranks);

/// The report for scripts.
nlohmann::json toJson(const Report &report);

} // namespace cria::bench
