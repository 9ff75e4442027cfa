/// What a session holds on a CUDA device: a stream, KV caches and scratch.
///
/// A step is one copy of its state and ids to the device, the launches of its
/// entry, and one copy of its logits back; or launches that draw an id from
/// them, and write it to the host's memory themselves. All launches of a
/// session have the same arguments each time, for what changes lies in the
/// state; so the decode step, whose grids are the same each time as well, is
/// recorded once as a graph and then replayed: its first node copies whatever
/// the pinned memory holds by then.
#pragma once

#include "runtime/Abi.h"
#include "runtime/Backend.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/Manifest.h"
#include "runtime/cuda/Ropes.h"
#include "runtime/cuda/Timer.h"

#include <memory>
#include <vector>

namespace cria::cuda {

class Model;

/// A launch with its arguments.
struct Launch {
  const LaunchStep *step;
  CUfunction function;
  std::vector<CUdeviceptr> values;
  std::vector<CUtensorMap> maps;  // of the arguments that have one
  std::vector<void *> parameters; // the addresses of `values`, or of `maps`
};

class Session : public Backend {
public:
  /// `model` must outlive the session.
  static Result<std::unique_ptr<Backend>> create(const Model &model);

  Status step(const Step &step) override;
  Result<int32_t> draw(const Step &step, Sampler &sampler) override;
  Status encode(const int32_t *ids, int64_t count) override;
  Status use(const BoundLoras *loras) override;
  Status trace(std::vector<KernelTime> *into) override;

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
  Result<CUdeviceptr> zeroed(uint64_t bytes, const char *purpose);
  Status clearWorkspace();
  Status expand();
  Status expand(const Entry &entry, std::vector<Launch> &launches) const;
  Status bind(const LaunchStep &step, uint64_t layer, Launch &launch) const;
  Status encode(const TensorMap &map, CUdeviceptr address,
                const std::string &kernel, CUtensorMap &encoded) const;
  CUdeviceptr address(const Argument &argument, uint64_t layer) const;
  void redirect(Argument::Kind kind, uint64_t value, CUdeviceptr to);
  Status roomFor(int64_t rows);
  Status roomForHidden(int64_t rows);
  Status placeEmbeddings(const Step &step);

  Status advance(const Step &step, Wanted wanted);
  template <typename Work> Status traced(const Work &work);
  Status ended(const Status &status, const char *doing);
  Status decode(Wanted wanted);
  Status prefill(const Step &step, Wanted wanted);
  Status capture(Wanted wanted);
  void writeState(const Step &step, const CriaSampling &sampling);
  Status copyIn(CUdeviceptr to, const void *from, uint64_t bytes,
                const char *doing = "copying ids to the device");
  Status copyOut(void *to, CUdeviceptr from, uint64_t bytes,
                 const char *doing = "copying logits from the device");
  Status enqueueState(int64_t tokens);
  Status enqueueDecode(Wanted wanted);
  Status enqueuePrefill(const Step &step, Wanted wanted);
  Status launch(const Launch &launch, const unsigned (&grid)[3], bool overlaps);
  Status launch(const std::vector<Launch> &launches, int64_t tokens,
                int64_t rows, int64_t hiddenRows = 0, bool follows = false);
  uint64_t rowBytes() const;
  uint64_t hiddenBytes() const;
  uint64_t seenBytes() const;

  const Model &model;
  const BoundLoras *loras = nullptr; // of the session, else the model's
  std::shared_ptr<Context> context;
  Stream stream;
  std::vector<DeviceMemory> memory;
  std::vector<CUdeviceptr> caches;
  Ropes ropes;
  CUdeviceptr arena = 0;
  CUdeviceptr state = 0;     // the state, then the ids
  CUdeviceptr logitsRow = 0; // (vocab)
  DeviceMemory logits;       // (logitsRows, vocab), for more than one row
  int64_t logitsRows = 0;
  DeviceMemory hidden; // (hiddenRows, hidden size), once some are wanted
  int64_t hiddenRows = 0;
  DeviceMemory embeddings; // of a chunk, where a feed brings its own
  // As the memory of that name.
  PinnedMemory pinnedState, pinnedRow;
  // Where the device reads and writes by itself: the ids of the text, as bits,
  // and CriaSampled.
  PinnedMemory seen, sampled;
  std::vector<Launch> prefillLaunches, decodeLaunches, sampleLaunches,
      encodeLaunches;
  GraphExec graphs[2]; // of a decode step, by what is wanted
  bool usesGraph;
  Timer *timer = nullptr; // of a step that is timed, while it runs
  std::vector<KernelTime> *kernelTimes = nullptr; // that the user wants
};

} // namespace cria::cuda
