/// What is the same on every device: a model bound to weights, and what
/// computes the steps of sessions and batches on it.
#pragma once

#include "runtime/Abi.h"
#include "runtime/artifact/Manifest.h"
#include "runtime/base/Status.h"
#include "runtime/base/threads/Threads.h"
#include "runtime/weights/Source.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

class Sampler;

/// LoRA adapters on a model's device: other values for the weights in which
/// compiled code keeps adapters. Immutable; share it between sessions.
class BoundLoras {
public:
  explicit BoundLoras(uint64_t slots) : addresses(slots), own(++made) {}
  virtual ~BoundLoras() = default;

  /// No other adapters of this process have or had this number; it is not 0.
  uint64_t number() const { return own; }

  /// The device's address of a slot's weight; 0 if the model's own is used.
  uint64_t find(uint64_t slot) const { return addresses[slot]; }

  /// Puts the adapters into a table of host pointers, one for each slot.
  void replaceIn(std::vector<const void *> &slots) const {
    for (size_t slot = 0; slot < slots.size(); ++slot)
      if (addresses[slot])
        slots[slot] = reinterpret_cast<const void *>(addresses[slot]);
  }

protected:
  std::vector<uint64_t> addresses; // by slot

private:
  static inline std::atomic<uint64_t> made{0};
  const uint64_t own;
};

/// One forward pass: the next `tokens` ids of one text; or, if the KV caches
/// are in pages, ids of several texts, one in each of `tokens` rows. See
/// CriaEntry and CriaBatchEntry.
struct Step {
  const int32_t *ids;
  int64_t tokens;
  int64_t position; // of the first id
  int64_t firstLogit;
  float *logits;      // (tokens - firstLogit, vocab)
  int64_t prompt = 0; // tokens of the text's prompt; see fillRopeRows
  int64_t source = 0; // tokens of the text that was encoded, or tokens ahead
  /// (tokens, hidden), of the type of the manifest's embedding. It replaces the
  /// table in which ids are looked up; the ids are then 0, 1, ...
  const std::byte *embeddings = nullptr;
  /// Whether prefill runs the ids, even if only one of them is left. It matters
  /// if the KV caches are in pages: the entry that runs an id then depends on
  /// the text, not on how the text is cut.
  bool isOfPrompt = false;
  /// Hidden states of the last `hiddenRows` tokens go to `hidden`: (hiddenRows,
  /// hidden size). 0 if the artifact has none.
  int64_t hiddenRows = 0;
  float *hidden = nullptr;
  /// Adapters to compute with; null: the adapters that the model was bound
  /// with.
  const BoundLoras *loras = nullptr;
  /// If the KV caches are in pages: the numbers of the text's pages, up to its
  /// last id; or (tokens, width), the pages of each row's text. Likewise of
  /// window pages, if there are any: before the window are numbers of any pages
  /// of the text.
  const int32_t *pages = nullptr, *windowPages = nullptr;
  /// If there are states: the number of the state that the text reads, and of
  /// the one that it writes; or (tokens, 2), two such numbers for each row.
  const int32_t *states = nullptr;
  /// (tokens), the position of each row's id; null for one text.
  const int32_t *positions = nullptr;

  int64_t firstHidden() const { return tokens - hiddenRows; }
  int64_t logitRows() const { return tokens - firstLogit; }
  /// Whether the decode entry does the step. That entry always computes its row
  /// of logits, and nothing else.
  bool isDecode() const {
    return tokens == 1 && firstLogit == 0 && hiddenRows == 0 && !embeddings;
  }
  /// Whether the batch entry does the step, if the KV caches are in pages.
  bool isBatch() const { return positions || (tokens == 1 && !isOfPrompt); }
};

/// An id to draw from a row of logits.
struct Draw {
  Sampler *sampler;
  bool wantsLogits = false;
  /// (vocab), if the logits are wanted; until the backend's next call.
  const float *logits = nullptr;
  Result<int32_t> id = -1;

  /// Draws from `logits`. Sets `id` to RESOURCE_EXHAUSTED if memory runs out.
  void sample();
};

/// A launch of a kernel, or a call of a kernel function on the CPU.
struct KernelTime {
  std::string_view kernel; // lives as long as the model
  std::chrono::steady_clock::time_point begin;
  double seconds;
};

/// INVALID_ARGUMENT unless a session or batch may have this number of threads.
Status checkThreads(int threads);

/// Computes steps and holds KV caches: pages, each of as many positions as the
/// manifest's BatchSpec says. Without a BatchSpec there is one page, number 0,
/// which is the whole context of one text. Window pages are numbered apart, and
/// so are states, whose numbers take the place of a page's. Used by one thread
/// at a time. No virtual function is out of line: libcria has no RTTI, and
/// programs that have it may derive.
class Backend {
public:
  virtual ~Backend() = default;

  /// Does `step` and returns when its logits and hidden states are written. A
  /// step that fails leaves the positions before it as they were.
  virtual Status step(const Step &step) = 0;

  /// Does `count` steps, one after the other, and then draws an id from each of
  /// the `rows` rows of their logits. `Step::logits` is not used. If an id
  /// cannot be drawn, `Draw::id` has the error.
  virtual Status draw(const Step *steps, size_t count, Draw *draws,
                      size_t rows) {
    return drawAlone(steps, count, draws, rows);
  }

  /// Does a step with one row of logits, which stays on the device, and draws
  /// from the logits that this device computes. Empty, with nothing done, if
  /// the device cannot draw.
  virtual Result<std::optional<CriaSampled>> drawOnDevice(const Step &,
                                                          Sampler &) {
    return std::optional<CriaSampled>();
  }

  /// Runs a source text, of at most a chunk, for the steps that follow.
  virtual Status encode(const Step &) {
    return Status(CRIA_UNIMPLEMENTED, "KV caches in pages hold one text alone");
  }

  /// From now on appends the kernels of each step to `into`, which must live
  /// until the next call; null: no longer. UNAVAILABLE if the device cannot
  /// report kernels.
  virtual Status trace(std::vector<KernelTime> *into) = 0;

  /// Fills a page with zeros. Compiled code reads a page beyond the end of a
  /// text, so there must be numbers, whatever was there before.
  virtual Status clearPage(PageKind kind, int32_t page) = 0;
  virtual Status copyPage(PageKind kind, int32_t from, int32_t to) = 0;
  /// Copies `bytes` of a page of KV cache `cache`, from `begin` on, to or from
  /// the host.
  virtual Status readPage(size_t cache, int32_t page, uint64_t begin,
                          std::byte *to, uint64_t bytes) = 0;
  virtual Status writePage(size_t cache, int32_t page, uint64_t begin,
                           const std::byte *from, uint64_t bytes) = 0;

  /// Runs `body` over [0, count) on the host's threads; it must not throw.
  virtual void inParallel(CriaParallelBody body, void *context, int64_t count) {
    body(context, 0, count);
  }
  virtual int threads() const { return 1; }

protected:
  /// Does steps and writes their rows of logits, of `columns` numbers each, to
  /// `logits`, one row after the other.
  static Status doSteps(Backend &backend, const Step *steps, size_t count,
                        int64_t columns, std::vector<float> &logits);

private:
  /// Draws from logits that no ranks share.
  Status drawAlone(const Step *steps, size_t count, Draw *draws, size_t rows);

  std::vector<float> logits; // (rows, vocab), of draws
};

/// A model's weights and code on a device: what sessions share. Immutable.
class BoundModel {
public:
  virtual ~BoundModel() = default;

  /// A backend with `pages`, all zeros; one page without a BatchSpec.
  /// `threads` are for the CPU.
  virtual Result<std::unique_ptr<Backend>>
  newBackend(const Threads &threads, const PageCounts &pages) const = 0;

  /// Puts adapters on the device, apart from the weights.
  virtual Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const = 0;

  /// The pointers through which compiled code for the CPU reads weights, one
  /// for each slot; null on other devices.
  virtual const void *const *slots() const { return nullptr; }

  /// The device in words: "cpu", "NVIDIA H200, sm_90".
  virtual std::string device() const = 0;

  /// DATA_LOSS once mapped weights could not be read.
  virtual Status intact() const { return Status(); }

  uint64_t mappedBytes() const { return mapped; }
  uint64_t copiedBytes() const { return copied; }
  /// Lines for the user, without line ends.
  const std::vector<std::string> &notes() const { return lines; }

protected:
  uint64_t mapped = 0; // weights used where they lie in the files
  uint64_t copied = 0; // weights in memory of the model's own
  std::vector<std::string> lines;
};

} // namespace cria
