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
#include <vector>

namespace cria::cuda {

class Session : public Backend, private Runner {
public:
  /// `model` must outlive the session.
  static Result<std::unique_ptr<Backend>> create(const Model &model);

  Status step(const Step &step) override;
  Result<int32_t> draw(const Step &step, Sampler &sampler) override;
  Status encode(const int32_t *ids, int64_t count) override;
  Status use(const BoundLoras *loras) override;
  Status trace(std::vector<KernelTime> *into) override {
    return setTrace(into);
  }

  Status readCache(size_t cache, uint64_t begin, std::byte *to,
                   uint64_t bytes) override;
  Status writeCache(size_t cache, uint64_t begin, const std::byte *from,
                    uint64_t bytes) override;

  /// Does `step`, launch by launch without a graph, and draws the best id where
  /// it has logits, of its last token alone: how long each launch took.
  Result<std::vector<LaunchTime>> timed(const Step &step);

private:
  /// What a step leaves on the host.
  enum class Wanted { Logits, Id };

  explicit Session(const Model &model);
  Status allocate();
  Status expand();
  Status roomForHidden(int64_t rows);

  /// Copies the embeddings of a step to pinned memory, and makes its ids 0, 1,
  /// ..., if the host has the table.
  Status stepPart(const Step &step);
  Result<CriaSampled> drawOnDevice(const Step &step, Sampler &sampler);
  Result<int32_t> drawFromPart(const Step &step, Sampler &sampler);
  Status advance(const Step &step, Wanted wanted);
  Status decode(Wanted wanted);
  Status prefill(const Step &step, Wanted wanted);
  Status capture(Wanted wanted);
  void writeState(const Step &step, const CriaSampling &sampling);
  Status enqueueState(int64_t tokens);
  Status enqueueDecode(Wanted wanted);
  Status enqueuePrefill(const Step &step, Wanted wanted);
  uint64_t hiddenBytes() const;
  uint64_t seenBytes() const;

  DeviceMemory hidden; // (hiddenRows, hidden size), once some are wanted
  int64_t hiddenRows = 0;
  // Where the device reads and writes by itself: the ids of the text, as bits,
  // and CriaSampled.
  PinnedMemory seen, sampled;
  std::vector<float> part; // of logits that ranks share, (rows, columns)
  std::vector<Launch> prefillLaunches, decodeLaunches, sampleLaunches,
      encodeLaunches;
  GraphExec graphs[2]; // of a decode step, by what is wanted
  bool usesGraph;
};

} // namespace cria::cuda
