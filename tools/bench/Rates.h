/// The best that a model's device can do, measured: how fast it reads the
/// weights, and how many operations per second its multiply-add units do.
#pragma once

#include "runtime/session/Model.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace cria::bench {

class Rates {
public:
  virtual ~Rates() = default;

  /// Bytes per second of the loop that reads all weights fastest. A loop runs
  /// once or for some milliseconds. An error says why it cannot run.
  virtual Result<double> read() = 0;

  /// The name of that loop: "8 far streams".
  virtual std::string readLoopName() const { return "a plain loop"; }

  /// The instructions that can compute products of the weights' type:
  /// "vdpbf16ps".
  const std::vector<std::string> &units() const { return names; }

  /// Operations per second of a unit on the whole device; a multiply-add is
  /// two. An error says why this unit cannot be measured.
  virtual Result<double> compute(size_t unit) = 0;

protected:
  std::vector<std::string> names;
};

/// For a model on the CPU, with `threads` threads, or on a CUDA device. `type`
/// is the type of most weights.
std::unique_ptr<Rates> ratesOf(const Model &model, DType type, int threads);
/// The rates of the slowest of the ranks that share the model: all measure at
/// the same time.
std::unique_ptr<Rates> slowestRates(std::unique_ptr<Rates> own,
                                    const CriaRanks &ranks);
/// Measures with `threads` threads how fast the CPU's units multiply and how
/// fast streams of weights are read. cria-compile --machine chooses schedules
/// by these numbers. Fails if one of them cannot be measured.
Result<nlohmann::json> measureCpu(const Model &model, int threads);
/// The part of ratesOf for CUDA devices.
std::unique_ptr<Rates> cudaRates(const Model &model, DType type);
/// What a CUDA device runs: the image, the log of the driver's compiler, and
/// the registers and memory that each kernel takes.
Result<nlohmann::json> cudaCode(const Model &model);

} // namespace cria::bench
