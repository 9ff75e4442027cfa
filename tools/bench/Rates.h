/// What the device of a model can do at best, measured: how fast it reads the
/// weights, how many operations a second its multiply-add units do.
#pragma once

#include "runtime/Model.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace cria::bench {

class Rates {
public:
  virtual ~Rates() = default;

  /// Bytes a second of the loop that reads all weights fastest, once or for
  /// some milliseconds. An error says why it cannot run.
  virtual Result<double> read() = 0;

  /// That loop: "8 far streams".
  virtual std::string readLoopName() const { return "a plain loop"; }

  /// The instructions that can compute products of the weights' type:
  /// "vdpbf16ps".
  const std::vector<std::string> &units() const { return names; }

  /// Operations a second of a unit on the whole device, a multiply-add being
  /// two. An error says why this unit cannot be measured.
  virtual Result<double> compute(size_t unit) = 0;

protected:
  std::vector<std::string> names;
};

/// For a model on the CPU, on `threads` threads, or on a CUDA device; `type` is
/// that of most weights.
std::unique_ptr<Rates> ratesOf(const Model &model, DType type, int threads);
/// What the CPU's units multiply and how fast streams of weights are read, by
/// `threads` threads: what cria-compile --machine chooses schedules by. Fails
/// where one cannot be measured.
Result<nlohmann::json> measureCpu(const Model &model, int threads);
/// The second half of ratesOf.
std::unique_ptr<Rates> cudaRates(const Model &model, DType type);

} // namespace cria::bench
