/// Runs entries on a CUDA device. A runner holds a stream, KV caches, scratch,
/// and the launches of entries with their arguments.
///
/// A launch has the same arguments in every step. The data of a step changes in
/// place: its state, its ids, and for batches its positions and pages lie in
/// device memory one after the other.
#pragma once

#include "runtime/Abi.h"
#include "runtime/artifact/CudaPlan.h"
#include "runtime/base/FunctionRef.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/Ropes.h"
#include "runtime/cuda/Timer.h"
#include "runtime/device/Backend.h"

#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace cria::cuda {

class Model;

/// A launch with its arguments, or a sum over ranks.
struct Launch {
  const LaunchStep *step;
  CUfunction function; // null: a sum
  std::vector<CUdeviceptr> values;
  std::vector<CUtensorMap> maps;  // of the arguments that have one
  std::vector<void *> parameters; // the addresses of `values`, or of `maps`
};

/// The base of sessions and of batches. Its protected functions are called with
/// the context current.
class Runner : public Backend {
public:
  Status trace(std::vector<KernelTime> *into) override;
  Status clearPage(PageKind kind, int32_t page) override;
  Status copyPage(PageKind kind, int32_t from, int32_t to) override;
  Status readPage(size_t cache, int32_t page, uint64_t begin, std::byte *to,
                  uint64_t bytes) override;
  Status writePage(size_t cache, int32_t page, uint64_t begin,
                   const std::byte *from, uint64_t bytes) override;

protected:
  /// The ids follow the state at this distance, in pinned and device memory.
  static constexpr uint64_t idsOffset = 128;

  /// `model` must outlive it.
  explicit Runner(const Model &model);

  /// Makes the stream, the caches with `counts` pages, the scratch, a row of
  /// logits, and `stepBytes` bytes for the data of a step.
  Status allocate(const PageCounts &counts, uint64_t stepBytes);

  struct Expanded {
    const Entry *entry;
    std::vector<Launch> *launches;
  };
  /// Replaces the launches of entries, layer after layer; none after an error.
  Status expand(std::initializer_list<Expanded> entries) const;
  /// Makes launches take `to` as the address of an argument.
  static void redirect(std::vector<Launch> &launches, Argument::Kind kind,
                       uint64_t value, CUdeviceptr to);
  /// Makes the launches of all entries again, and replaces the old ones.
  virtual Status makeLaunches() = 0;
  /// Begins a step: computes with `others`, or with the model's own adapters if
  /// it is null, from now on. Makes the launches again if the adapters change.
  /// After an error the old adapters stay.
  Status use(const BoundLoras *others);
  /// Makes room for `rows` rows of logits, and launches write them, or read
  /// them, from row `first` on.
  Status roomFor(std::vector<Launch> &launches, int64_t rows,
                 int64_t first = 0);
  /// The device memory of `rows` rows of logits.
  CUdeviceptr logitsOf(int64_t rows) const {
    return rows > 1 ? logits.get() : places[Argument::Logits];
  }
  /// Makes room for `rows` rows of hidden states, which launches write.
  Status roomForHidden(std::vector<Launch> &launches, int64_t rows);
  /// Copies the hidden states of a step that has ended to the host.
  Status copyHidden(const Step &step);
  /// Makes launches look ids up in `embeddings`, which have `tokens` rows, or
  /// in the model's if `embeddings` is null.
  Status placeEmbeddings(std::vector<Launch> &launches,
                         const std::byte *embeddings, int64_t tokens);

  /// If the host has the table of embeddings, brings those of `ids`, or
  /// `given`, to pinned memory. The ids there become 0, 1, 2, ... Call it after
  /// writeState.
  Status bringEmbeddings(const int32_t *ids, int64_t tokens,
                         const std::byte *given);
  /// Copies them to the device.
  Status enqueueEmbeddings(int64_t tokens);

  /// Makes the memory through which ids are drawn from `rows` rows of logits;
  /// the device leaves ids in `answers` places.
  Status allocateDraws(int64_t rows, int64_t answers);
  /// Whether the host draws the sampler's next id: devices know no biases and
  /// no allowed ids, and have limited room for the ids that penalties weaken.
  static bool drawsOnHost(const Sampler &sampler);
  /// What the device needs to draw the sampler's next id from a row.
  CriaSampling ask(Sampler &sampler, int64_t row);
  /// What the device drew from a row; in a session see CriaSampled.
  CriaSampled answer(int64_t row) const;

  /// Copies the state and the ids of a step to pinned memory.
  void writeState(const CriaStepState &header, const int32_t *ids);
  /// Copies the first `bytes` bytes of that memory to the device.
  Status enqueueState(uint64_t bytes);
  Status copyIn(CUdeviceptr to, const void *from, uint64_t bytes,
                const char *doing = "copying ids to the device");
  Status copyOut(void *to, CUdeviceptr from, uint64_t bytes,
                 const char *doing = "copying logits from the device");

  /// Launches kernels. Each may overlap the launch before it. The first one may
  /// do so only if it `follows` a launch, not a copy.
  Status launch(const std::vector<Launch> &launches, int64_t tokens,
                int64_t rows, int64_t hiddenRows = 0, bool follows = false);
  /// Whether steps are replayed as graphs: not while launches are timed.
  bool replays() const { return usesGraphs && !kernelTimes; }
  /// Replays what `enqueue` puts into the stream, or does it. It is recorded
  /// the first time; `what` is "a decode step", say. Addresses, grids and sizes
  /// must be the same each time.
  Status replay(GraphExec &graph, const char *what,
                FunctionRef<Status()> enqueue);
  /// Waits until all work in the stream has ended, because it may use memory
  /// that is freed next. Returns `status`, or the error of the wait.
  Status ended(const Status &status, const char *doing);
  /// Does the `work` of a step, which launches it and waits for it, with the
  /// embeddings of its ids. Appends the times of its launches if the user wants
  /// them.
  Status perform(const Step &step, FunctionRef<Status()> work);

  /// The bytes of a row of logits on the device: all logits, or this rank's
  /// part.
  uint64_t rowBytes() const;
  /// The most bytes of the embeddings of a call.
  uint64_t chunkOfEmbeddings() const;
  /// Allocates the embeddings of a chunk, if they have no memory yet.
  Status roomForEmbeddings();

  const Model &model;
  const BoundLoras *loras = nullptr; // while launches are made with them
  std::shared_ptr<Context> context;
  Stream stream;
  PageCounts pages; // of the caches
  std::vector<CUdeviceptr> caches;
  Ropes ropes;
  /// The device memory for each kind of argument that has one place.
  CUdeviceptr places[Argument::kinds] = {};
  // The embeddings of a chunk, if a feed brings its own, or if the host has the
  // table.
  DeviceMemory embeddings;
  PinnedMemory pinnedState, pinnedRow; // the data of a step, a row of logits
  PinnedMemory pinnedEmbeddings;       // of a call, if the host has the table
  Timer *timer = nullptr;              // of a step that is timed, while it runs
  /// OK if the last work in the stream is a step that no call has asked for
  /// yet; or why that step could not be launched.
  std::optional<Status> ahead;

private:
  /// New device memory, zeroed in the stream.
  Result<CUdeviceptr> zeroed(uint64_t bytes, const char *purpose);
  /// Zeroes the part of the scratch whose values outlive a launch.
  Status clearWorkspace();
  Status setPage(PageKind kind, std::optional<int32_t> from, int32_t to);
  Status bind(const LaunchStep &step, uint64_t layer, Launch &launch) const;
  Status expand(const Entry &entry, std::vector<Launch> &launches) const;
  CUdeviceptr address(const Argument &argument, uint64_t layer) const;
  /// The address of a page of a cache.
  CUdeviceptr at(size_t cache, int32_t page) const;
  uint64_t pageBytes(size_t cache) const;
  Status launch(const Launch &launch, const unsigned (&grid)[3], bool overlaps);
  Status appendTimes(const Timer &marks);

  Status record(GraphExec &graph, const char *what,
                FunctionRef<Status()> enqueue);
  /// The i32 of the seen ids of a row, at most.
  uint64_t seenRoom() const;

  bool usesGraphs;
  uint64_t lorasNumber = 0; // of the adapters in the launches; 0: none
  std::vector<DeviceMemory> memory;
  DeviceMemory logits; // (logitsRows, vocab), for more than one row
  int64_t logitsRows = 0;
  DeviceMemory hidden; // (hiddenRows, hidden size), once some are wanted
  int64_t hiddenRows = 0;
  // Where the device reads and writes by itself: for each row the ids that it
  // has seen, and CriaSampled.
  PinnedMemory seen, sampled;
  std::vector<KernelTime> *kernelTimes = nullptr; // that the user wants
};

} // namespace cria::cuda
