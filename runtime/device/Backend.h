/// What is the same on every device: a model bound to weights, and what
/// computes the steps of a session on it.
#pragma once

#include "runtime/Abi.h"
#include "runtime/base/Status.h"
#include "runtime/base/Threads.h"
#include "runtime/weights/Source.h"

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

/// One forward pass: `tokens` ids at `position` and after; see CriaEntry.
struct Step {
  const int32_t *ids;
  int64_t tokens;
  int64_t position;
  int64_t firstLogit;
  float *logits;      // (tokens - firstLogit, vocab)
  int64_t prompt = 0; // tokens of the text's prompt; see fillRopeRows
  int64_t source = 0; // tokens of the text that was encoded
  /// (tokens, hidden), of the type of the manifest's embedding. It replaces the
  /// table in which ids are looked up; the ids are then 0, 1, ... No logits are
  /// wanted with it.
  const std::byte *embeddings = nullptr;
  /// Whether the ids belong to a prompt or to a feed of several ids, even if
  /// only one of them is left. It matters if the KV caches are in pages: the
  /// entry that runs an id then depends on the text, not on how the text is
  /// cut.
  bool isOfPrompt = false;
  /// Hidden states of the last `hiddenRows` tokens go to `hidden`: (hiddenRows,
  /// hidden size). 0 if the artifact has none.
  int64_t hiddenRows = 0;
  float *hidden = nullptr;

  int64_t firstHidden() const { return tokens - hiddenRows; }
  /// Whether the decode entry does the step. That entry always computes its row
  /// of logits, and nothing else.
  bool isDecode() const {
    return tokens == 1 && firstLogit == 0 && hiddenRows == 0;
  }
};

/// Rows over KV caches in pages; see CriaBatchEntry.
struct PagedStep {
  const int32_t *ids;
  int64_t rows;
  const int32_t *positions;
  const int32_t *pages;
  int64_t firstLogit;
  float *logits;                         // (rows - firstLogit, vocab)
  const std::byte *embeddings = nullptr; // as in Step
};

/// A launch of a kernel, or a call of a kernel function on the CPU.
struct KernelTime {
  std::string_view kernel; // lives as long as the model
  std::chrono::steady_clock::time_point begin;
  double seconds;
};

/// LoRA adapters on a model's device: other values for the weights in which
/// compiled code keeps adapters. Immutable; share it between sessions.
class BoundLoras {
public:
  explicit BoundLoras(uint64_t slots) : addresses(slots) {}
  virtual ~BoundLoras() = default;

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
};

/// INVALID_ARGUMENT unless a session or batch may have so many threads.
Status checkThreads(int threads);

/// Computes the steps of one session and holds its KV caches. Used by one
/// thread at a time.
class Backend {
public:
  virtual ~Backend() = default;

  /// Does `step`, a decode or a prefill, and returns when its logits and hidden
  /// states are written. A step that fails leaves the positions before it as
  /// they were.
  virtual Status step(const Step &step) = 0;

  /// The same, but draws an id by `sampler` from the logits of the last token,
  /// which stay on the device. `step.logits` is not used.
  virtual Result<int32_t> draw(const Step &step, Sampler &sampler) = 0;

  /// Runs a source text, of at most a chunk, for the steps that follow.
  virtual Status encode(const int32_t *ids, int64_t count) = 0;

  /// From now on computes with `loras`, which must live until the next call;
  /// null: with the adapters that the model was bound with. A call that fails
  /// changes nothing.
  virtual Status use(const BoundLoras *loras) = 0;

  /// From now on appends the kernels of each step to `into`, which must live
  /// until the next call; null: no longer. UNAVAILABLE if the device cannot
  /// report kernels.
  virtual Status trace(std::vector<KernelTime> *into) = 0;

  /// Copies `bytes` of KV cache `cache`, from `begin` on, to or from the host.
  virtual Status readCache(size_t cache, uint64_t begin, std::byte *to,
                           uint64_t bytes) = 0;
  virtual Status writeCache(size_t cache, uint64_t begin, const std::byte *from,
                            uint64_t bytes) = 0;

  /// The threads that compute on the host.
  virtual int threads() const { return 1; }
};

/// Computes the rows of many sequences and holds the pool of pages that their
/// KV caches are cut into. Used by one thread at a time.
class PagedBackend {
public:
  virtual ~PagedBackend() = default;

  /// The next tokens of one sequence.
  virtual Status prefill(const PagedStep &step) = 0;
  /// The next token of as many sequences as there are rows.
  virtual Status decode(const PagedStep &step) = 0;

  /// Fills a page with zeros. Compiled code reads a page beyond the end of a
  /// text, so there must be numbers, whatever was there before.
  virtual Status clearPage(int32_t page) = 0;
  virtual Status copyPage(int32_t from, int32_t to) = 0;
  /// Copies `bytes` of a page of KV cache `cache`, from `begin` on, to or from
  /// the host.
  virtual Status readPage(size_t cache, int32_t page, uint64_t begin,
                          std::byte *to, uint64_t bytes) = 0;
  virtual Status writePage(size_t cache, int32_t page, uint64_t begin,
                           const std::byte *from, uint64_t bytes) = 0;

  /// Runs `body` over [0, count) on the host's threads; it must not throw.
  virtual void inParallel(CriaParallelBody body, void *context,
                          int64_t count) = 0;

  /// See Backend.
  virtual Status use(const BoundLoras *loras) = 0;
  virtual Status trace(std::vector<KernelTime> *into) = 0;
  virtual int threads() const { return 1; }
};

/// A model's weights and code on a device: what sessions share. Immutable.
class BoundModel {
public:
  virtual ~BoundModel() = default;

  /// A backend at position 0. `threads` are for the CPU.
  virtual Result<std::unique_ptr<Backend>>
  newBackend(const Threads &threads) const = 0;

  /// Puts adapters on the device, apart from the weights.
  virtual Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const = 0;

  /// A backend with `pages` pages, all zeros. UNIMPLEMENTED if the artifact has
  /// no KV caches in pages.
  virtual Result<std::unique_ptr<PagedBackend>>
  newPagedBackend(const Threads &threads, int64_t pages) const;

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
