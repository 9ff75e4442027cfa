/// What a session holds on a CUDA device: a stream, KV caches and scratch.
///
/// A step is one copy of its state and ids to the device, the launches of its
/// entry, and one copy of its logits back. All launches of a session have the
/// same arguments each time, for what changes lies in the state; so the decode
/// step, whose grids are the same each time as well, is recorded once as a
/// graph and then replayed: its first node copies whatever the pinned memory
/// holds by then.
#pragma once

#include "runtime/Abi.h"
#include "runtime/Backend.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/Manifest.h"

#include <memory>
#include <vector>

namespace cria::cuda {

class Model;

/// A launch with its arguments.
struct Launch {
  const LaunchStep *step;
  CUfunction function;
  std::vector<CUdeviceptr> values;
  std::vector<void *> parameters; // the addresses of `values`
};

class Session : public Backend {
public:
  /// `model` must outlive the session.
  static Result<std::unique_ptr<Backend>> create(const Model &model);

  Status step(const Step &step) override;

private:
  explicit Session(const Model &model);
  Status allocate();
  Result<CUdeviceptr> zeroed(uint64_t bytes, const char *purpose);
  Status clearWorkspace();
  std::vector<Launch> expand(const Entry &entry) const;
  CUdeviceptr address(const Argument &argument, uint64_t layer) const;
  Status roomFor(int64_t rows);

  Status decode(const Step &step);
  Status prefill(const Step &step);
  Status capture();
  Status replay();
  void writeState(const Step &step);
  Status enqueueState(int64_t tokens);
  Status enqueueDecode();
  Status launch(const std::vector<Launch> &launches, int64_t tokens,
                int64_t rows);
  Status copyOut(CUdeviceptr from, float *to, int64_t rows);

  const Model &model;
  std::shared_ptr<Context> context;
  Stream stream;
  std::vector<DeviceMemory> memory;
  std::vector<CUdeviceptr> caches;
  CUdeviceptr arena = 0;
  CUdeviceptr state = 0;     // the state, then the ids
  CUdeviceptr logitsRow = 0; // (vocab)
  DeviceMemory logits;       // (logitsRows, vocab), for more than one row
  int64_t logitsRows = 0;
  PinnedMemory pinnedState; // as `state`
  PinnedMemory pinnedRow;   // as `logitsRow`
  std::vector<Launch> prefillLaunches, decodeLaunches;
  GraphExec graph; // of a decode step
  bool usesGraph;
};

} // namespace cria::cuda
