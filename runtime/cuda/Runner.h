/// What runs entries on a CUDA device: a stream, KV caches, scratch, and the
/// launches of entries with their arguments.
///
/// All launches of a runner have the same arguments each time, for what changes
/// lies in memory at fixed places: the state of a step, its ids, and behind
/// them what else the entries read.
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

/// A launch with its arguments, or a sum over ranks.
struct Launch {
  const LaunchStep *step;
  CUfunction function; // null: a sum
  std::vector<CUdeviceptr> values;
  std::vector<CUtensorMap> maps;  // of the arguments that have one
  std::vector<void *> parameters; // the addresses of `values`, or of `maps`
};

/// The base of sessions and of batches. Its functions are called with the
/// context current.
class Runner {
protected:
  /// The ids follow the state at this distance, in pinned and device memory.
  static constexpr uint64_t idsOffset = 64;

  /// `model` must outlive it.
  explicit Runner(const Model &model);
  ~Runner() = default;

  /// Makes the stream, caches of so many `pages` (1 of caches without pages),
  /// scratch, a row of logits, and so many bytes of state and ids.
  Status allocate(uint64_t pages, uint64_t stateBytes);
  /// New device memory, zeroed in the stream.
  Result<CUdeviceptr> zeroed(uint64_t bytes, const char *purpose);
  /// Zeroes the part of the scratch whose values outlive a launch.
  Status clearWorkspace();

  /// The launches of an entry, layer after layer.
  Status expand(const Entry &entry, std::vector<Launch> &launches) const;
  /// Makes launches take `to` as the address of an argument.
  static void redirect(std::vector<Launch> &launches, Argument::Kind kind,
                       uint64_t value, CUdeviceptr to);
  /// Computes with other adapters. The launches are those of before: expand
  /// them anew.
  void setLoras(const BoundLoras *chosen) { loras = chosen; }
  /// Makes launches write `rows` rows of logits to where there is room.
  Status roomFor(std::vector<Launch> &launches, int64_t rows);
  /// Where that is.
  CUdeviceptr logitsOf(int64_t rows) const {
    return rows > 1 ? logits.get() : places[Argument::Logits];
  }
  /// Makes launches look ids up in the embeddings of so many tokens, or, if
  /// these are null, in the model's.
  Status placeEmbeddings(std::vector<Launch> &launches,
                         const std::byte *embeddings, int64_t tokens);

  /// Copies the state of a step to the pinned memory, and its ids.
  void writeState(const CriaStepState &header, const int32_t *ids);
  /// Copies so many bytes of it to the device.
  Status enqueueState(uint64_t bytes);
  Status copyIn(CUdeviceptr to, const void *from, uint64_t bytes,
                const char *doing = "copying ids to the device");
  Status copyOut(void *to, CUdeviceptr from, uint64_t bytes,
                 const char *doing = "copying logits from the device");

  /// Launches kernels. Those behind the first may overlap the launch before;
  /// the first may where it `follows` one, too, and no copy.
  Status launch(const std::vector<Launch> &launches, int64_t tokens,
                int64_t rows, int64_t hiddenRows = 0, bool follows = false);
  /// What a step came to, when all that it launched has ended: that still uses
  /// memory which may then be freed.
  Status ended(const Status &status, const char *doing);
  /// Does `work`, which waits for its launches. Where the user wants their
  /// times, appends them.
  template <typename Work> Status traced(const Work &work) {
    if (!kernelTimes)
      return work();
    Timer marks(context);
    timer = &marks;
    Status status = work();
    timer = nullptr;
    return status.ok() ? appendTimes(marks) : status;
  }
  /// See Backend.
  Status setTrace(std::vector<KernelTime> *into);

  /// Of a row of the logits that the device computes: all, or this rank's part.
  uint64_t rowBytes() const;
  /// Of the embeddings of a chunk of tokens.
  uint64_t chunkOfEmbeddings() const;
  /// Allocates the embeddings of a chunk, if they have no memory yet.
  Status roomForEmbeddings();

  const Model &model;
  const BoundLoras *loras = nullptr; // own, else the model's
  std::shared_ptr<Context> context;
  Stream stream;
  std::vector<CUdeviceptr> caches;
  Ropes ropes;
  /// Where the device has what arguments of a kind are: the state, then the
  /// ids; a row of logits.
  CUdeviceptr places[Argument::kinds] = {};
  // Of a chunk, if a feed brings its own, or if the host has the table.
  DeviceMemory embeddings;
  // As the memory of that name.
  PinnedMemory pinnedState, pinnedRow;
  Timer *timer = nullptr; // of a step that is timed, while it runs

private:
  Status bind(const LaunchStep &step, uint64_t layer, Launch &launch) const;
  Status encode(const TensorMap &map, CUdeviceptr address,
                const std::string &kernel, CUtensorMap &encoded) const;
  CUdeviceptr address(const Argument &argument, uint64_t layer) const;
  Status launch(const Launch &launch, const unsigned (&grid)[3], bool overlaps);
  Status appendTimes(const Timer &marks);

  std::vector<DeviceMemory> memory;
  DeviceMemory logits; // (logitsRows, vocab), for more than one row
  int64_t logitsRows = 0;
  std::vector<KernelTime> *kernelTimes = nullptr; // that the user wants
};

} // namespace cria::cuda
