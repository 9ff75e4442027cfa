/// What is the same on every device: a model bound to weights, and what
/// computes the steps of a session on it.
#pragma once

#include "runtime/Abi.h"
#include "runtime/Log.h"
#include "runtime/Status.h"

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

/// A folder with a LoRA adapter, and what its own scale is multiplied by.
struct LoraSource {
  std::string folder;
  double scale = 1;
};

/// Told how many units of work are done of all, while weights are bound.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

/// Where a model's weights come from.
struct WeightSource {
  std::optional<std::string> checkpoint; // a folder or a file
  uint64_t seed = 0;                     // of random ones, without checkpoint
  std::vector<LoraSource> loras = {};    // merged into them,
  bool loraUnmerged = false;             // or, if so, kept apart from them
  bool allowUnused = false;              // the checkpoint may have layers more
  std::string cache = {}; // a folder that keeps quantized weights, or ""
  Progress progress = {}; // called by the thread that binds; empty for none
  Log log = {};
};

/// The threads of a session on the CPU.
struct Threads {
  Threads(int count = 0) : count(count) {}

  int count; // 0: one a core
  /// The caller's, in place of threads of the session's; null for none.
  cria_parallel_for run = nullptr;
  void *data = nullptr;
};

/// One forward pass: `tokens` ids at `position` and after; see CriaEntry.
struct Step {
  const int32_t *ids;
  int64_t tokens;
  int64_t position;
  int64_t firstLogit;
  float *logits;      // (tokens - firstLogit, vocab)
  int64_t prompt = 0; // tokens of the text's prompt; see fillRopeRows
  int64_t source = 0; // tokens of the text that was encoded
  /// (tokens, hidden), of the type of the manifest's embedding: what the ids,
  /// then 0, 1, ..., are looked up in. No logits are wanted with it.
  const std::byte *embeddings = nullptr;
  /// Of a prompt or a feed of several ids, of which one alone may be left.
  /// Counts where the KV caches are in pages: which entry runs an id depends
  /// on the text then, not on how the text is cut.
  bool isOfPrompt = false;
  /// Hidden states are wanted of the last so many tokens, in `hidden`:
  /// (hiddenRows, hidden size). 0 where the artifact has none.
  int64_t hiddenRows = 0;
  float *hidden = nullptr;

  int64_t firstHidden() const { return tokens - hiddenRows; }
  /// Whether the decode entry does it, which always computes its row of
  /// logits, and nothing else.
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

/// A launch of a kernel, or a kernel function on the CPU.
struct KernelTime {
  std::string_view kernel; // lives as long as the model
  std::chrono::steady_clock::time_point begin;
  double seconds;
};

/// LoRA adapters on a model's device: other values for the weights that
/// compiled code keeps adapters in. Immutable; share it between sessions.
class BoundLoras {
public:
  explicit BoundLoras(uint64_t slots) : addresses(slots) {}
  virtual ~BoundLoras() = default;

  /// Where the device has the weight of a slot; 0 where that is the model's.
  uint64_t find(uint64_t slot) const { return addresses[slot]; }

  /// Puts the adapters into a table of pointers, one a slot, of the host's.
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

  /// Does `step` and returns when its logits and hidden states are there: a
  /// decode or a prefill. What failed leaves the positions before the step as
  /// they were.
  virtual Status step(const Step &step) = 0;

  /// The same with the logits of the last token alone, which stay on the
  /// device: the id that `sampler` draws from them. `step.logits` is not used.
  virtual Result<int32_t> draw(const Step &step, Sampler &sampler) = 0;

  /// Runs another text, of at most a chunk, for the steps that follow.
  virtual Status encode(const int32_t *ids, int64_t count) = 0;

  /// From now on computes with `loras`, which must live until another call;
  /// null: with those that the model was bound with. What failed changes
  /// nothing.
  virtual Status use(const BoundLoras *loras) = 0;

  /// From now on appends the kernels of each step to `into`, which must live
  /// until another call; null: no longer. UNAVAILABLE where the device cannot
  /// tell.
  virtual Status trace(std::vector<KernelTime> *into) = 0;

  /// Copies `bytes` of KV cache `cache` from `begin` on, to and from the host.
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

  /// Makes all of a page zeros. What compiled code reads of a page behind the
  /// end of a text must be numbers, whatever was there before.
  virtual Status clearPage(int32_t page) = 0;
  virtual Status copyPage(int32_t from, int32_t to) = 0;
  /// Copies `bytes` of a page of KV cache `cache`, from `begin` on, to and from
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

  /// Puts adapters on the device, as they are kept apart from the weights.
  virtual Result<std::unique_ptr<const BoundLoras>>
  bindLoras(const std::vector<LoraSource> &loras) const = 0;

  /// A backend with so many pages, all of them zeros. UNIMPLEMENTED on a device
  /// that has no code for KV caches in pages.
  virtual Result<std::unique_ptr<PagedBackend>>
  newPagedBackend(const Threads &threads, int64_t pages) const;

  /// The pointers that compiled code for the CPU reads weights through, one a
  /// slot; null on other devices.
  virtual const void *const *slots() const { return nullptr; }

  /// The device in words: "cpu", "NVIDIA H200, sm_90".
  virtual std::string device() const = 0;

  /// DATA_LOSS once weights could not be read where they lie.
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
