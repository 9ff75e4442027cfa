/// The steps of a session on a CUDA device.
///
/// A step is one copy of its state and ids to the device, the launches of its
/// entry, and one copy of its logits back; or launches that draw an id from
/// them, and write it to the host's memory themselves. If ranks share the
/// model, there are sums over ranks between launches. The decode step, whose
/// launches have the same grids each time as well as the same arguments, is
/// recorded once as a graph and then replayed: its first node copies whatever
/// the pinned memory holds by then.
///
/// A device that draws the ids of a text need not wait for the host between two
/// steps, because a draw leaves the next step's state and id on the device.
/// Callers that generate text feed each id that they draw. So once a call has
/// fed the id that was drawn last, the host launches the next step before it
/// waits for the current one. If the next call asks for that step, it runs
/// already. If the next call asks for something else, the step was for nothing.
/// It has changed nothing that counts: the position after the text is written
/// again by the step that computes it, and the sampler and the session know
/// nothing of the step. A model with states could not be taken back, so its
/// steps are not launched ahead. In rings see Manifest::reach.
#pragma once

#include "runtime/cuda/Runner.h"

#include <memory>
#include <optional>
#include <vector>

namespace cria::cuda {

class Session : public Runner {
public:
  ~Session() override;

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
  /// What a step leaves on the host. Ids: an id, and later that of the next
  /// step, which is launched as well.
  enum class Wanted { Logits, Id, Ids };

  explicit Session(const Model &model);
  Status allocate();
  Status makeLaunches() override;

  Status run(const Step &step, bool launched, FunctionRef<Status()> work);
  Status advance(const Step &step, Wanted wanted, bool launched = false);
  Status decode(Wanted wanted);
  Status prefill(const Step &step, Wanted wanted);
  void writeState(const Step &step, const CriaSampling &sampling);
  bool isExpected(const Step &step) const;
  void expect(const Step &last, int32_t id);
  Status enqueueState(int64_t tokens);
  Status enqueueDecode(Wanted wanted);
  Status enqueuePrefill(const Step &step, Wanted wanted);

  std::vector<Launch> prefillLaunches, decodeLaunches, sampleLaunches,
      encodeLaunches;
  // Of a decode step, by what is wanted. Ids: of the next step, which finds its
  // state and its id on the device.
  GraphExec graphs[3];
  Event done; // when the current step ends; null: no step is launched ahead
  // The step that feeds the id that was drawn last.
  CriaStepState expected = {};
  int32_t expectedId = -1;
};

} // namespace cria::cuda
