/// The steps of a session on a CUDA device.
///
/// A step is one copy of its state and ids to the device, the launches of its
/// entry, and one copy of its logits back; or launches that draw an id from
/// them, and write it to the host's memory themselves. If ranks share the
/// model, there are sums over ranks between launches. The decode step, whose
/// launches have the same grids each time as well as the same arguments, is
/// recorded once as a graph and then replayed: its first node copies whatever
/// the pinned memory holds by then.
#pragma once

#include "runtime/cuda/Runner.h"

#include <memory>
#include <optional>
#include <vector>

namespace cria::cuda {

class Session : public Runner {
public:
  /// `model` must outlive the session.
  static Result<std::unique_ptr<Backend>> create(const Model &model);

  Status step(const Step &step) override;
  Result<std::optional<CriaSampled>> drawOnDevice(const Step &step,
                                                  Sampler &sampler) override;
  Status encode(const Step &step) override;

  /// Does `step`, launch by launch without a graph, and draws the best id where
  /// it has logits, of its last token alone: how long each launch took.
  Result<std::vector<LaunchTime>> timed(const Step &step);

private:
  /// What a step leaves on the host.
  enum class Wanted { Logits, Id };

  explicit Session(const Model &model);
  Status allocate();
  Status makeLaunches() override;

  Status advance(const Step &step, Wanted wanted);
  Status decode(Wanted wanted);
  Status prefill(const Step &step, Wanted wanted);
  void writeState(const Step &step, const CriaSampling &sampling);
  Status enqueueState(int64_t tokens);
  Status enqueueDecode(Wanted wanted);
  Status enqueuePrefill(const Step &step, Wanted wanted);

  std::vector<Launch> prefillLaunches, decodeLaunches, sampleLaunches,
      encodeLaunches;
  GraphExec graphs[2]; // of a decode step, by what is wanted
};

} // namespace cria::cuda
