/// The manifest of an artifact, checked: every number is in range, every slot
/// is filled once, every size is the product of its shape.
#pragma once

#include "runtime/artifact/CudaPlan.h"
#include "runtime/base/DType.h"
#include "runtime/base/Status.h"

#include "runtime/base/Json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// The dimension of a weight's tensors that ranks share.
enum class Split { None, Rows, Columns };

/// Some rows of a tensor that has `of` rows: `first` and those after it, as
/// many as the weight has; or columns. If `of` is 0, the weight has all of
/// them.
struct Range {
  uint64_t first = 0, of = 0;
};

/// A weight symbol: one tensor, or a stack of tensors of equal shape, one for
/// each layer, or for each expert of each layer; or some rows or columns of
/// each.
struct WeightSpec {
  std::string symbol;
  /// The checkpoint's name, "{}" for the numbers of the layer and the expert.
  std::string pattern;
  uint64_t count; // of layers; 0: the name has no layer
  uint64_t first;
  Shape shape; // of one layer, or of one expert
  DType type;
  uint64_t slot;
  Range rows, columns; // of the tensors
  /// The dimension that ranks split; `setRank` says which rows or columns.
  Split split = Split::None;
  bool adapter = false; // filled from LoRA adapters, not the checkpoint
  bool input = false;   // given with each call, in place of ids
  /// The index of another weight of the manifest, of the same shape. Its tensor
  /// is used if the checkpoint has no tensor of this name, or an equal one.
  std::optional<size_t> tied = std::nullopt;
  uint64_t experts = 0; // of each layer; 0: it has none
  /// Whether a tensor of the checkpoint has all experts of a layer, one after
  /// the other.
  bool stacked = false;
  /// Whether the checkpoint's matrices have columns in place of rows.
  bool transposed = false;

  /// Selects the rows or columns of rank `rank` of `ranks`. Call it once.
  void setRank(uint64_t rank, uint64_t ranks);
  /// The shape of whole tensors: of all rows, columns and experts.
  Shape wholeShape() const;
  /// The shape of the checkpoint's tensors.
  Shape sourceShape() const;
  /// The tensors of compiled code, one in each slot: experts vary fastest.
  uint64_t tensors() const {
    return (count ? count : 1) * (experts ? experts : 1);
  }
  /// The place of tensor `index` in a tensor of the checkpoint that has all
  /// experts; 0 if each tensor has its own.
  uint64_t place(uint64_t index) const { return stacked ? index % experts : 0; }
  /// The tensors that lie one after the other in a GPU's memory from tensor
  /// `index` on: the experts of a layer do.
  uint64_t following(uint64_t index) const {
    return experts ? experts - index % experts : 1;
  }
  /// Whether the checkpoint has the weight's tensors.
  bool isOfCheckpoint() const { return !adapter && !input; }
  /// One tensor of the checkpoint, all of it.
  bool isWhole() const {
    return !count && !rows.of && isOfCheckpoint() && !experts;
  }
  /// The checkpoint's name of tensor `index` in [0, tensors()), or of the
  /// tensor that has it.
  std::string name(uint64_t index) const;
  /// Bytes of one tensor.
  uint64_t bytes() const;
  /// Elements of one tensor.
  uint64_t elements() const { return elementsOf(type, bytes()); }
};

/// Tables of cos and sin, (rows, inv_freq.size()) f32 each, in `slot` and
/// `slot` + 1: cos(float(row) * inv_freq) * scale. With `original` the tables
/// belong to a session: the frequencies are for texts of at most `original`
/// tokens, and longer texts have others; see RopeTables.h.
struct RopeSpec {
  std::string symbol;
  uint64_t slot;
  uint64_t rows;
  std::vector<float> inverseFrequencies;
  float scale;
  uint64_t original = 0;
  std::vector<float> longFrequencies; // of longer texts; or they grow:
  float growth = 0, theta = 0;
  /// A text that grows beyond `original` is computed anew.
  bool recompute = false;

  bool isOfSession() const { return original != 0; }
  /// Bytes of one of the two tables.
  uint64_t bytes() const {
    return rows * inverseFrequencies.size() * sizeof(float);
  }
};

/// The kinds of caches of a BatchSpec. Of a whole cache a text has the pages of
/// all its positions; of a window's, those that its next tokens see; and of a
/// state one.
enum class PageKind { Whole, Window, State };

/// A number for each kind.
struct PageCounts {
  int64_t whole = 1, window = 1, states = 1;
  int64_t of(PageKind kind) const {
    return kind == PageKind::Whole    ? whole
           : kind == PageKind::Window ? window
                                      : states;
  }
};

/// A KV cache or a state of a session; with a BatchSpec, one page of the cache.
struct CacheSpec {
  std::string symbol;
  uint64_t bytes;
  Shape shape;
  std::string type;
  /// For each layer, the index in the manifest's `ropes` of the table that
  /// rotated the rows, or -1. Empty if that is not known.
  std::vector<int64_t> ropes = {};
  /// Whether it is what a layer remembers of all tokens, without positions.
  bool isState = false;
  /// The window of the layers whose cache is a ring, where position p is place
  /// p mod shape[2], or has window pages; 0 of other caches.
  int64_t window = 0;

  PageKind kind() const {
    return isState  ? PageKind::State
           : window ? PageKind::Window
                    : PageKind::Whole;
  }

  /// Whether its size does not depend on the positions of a text.
  bool isFixed() const { return isState || window; }
};

/// KV caches in pages that many sequences share; see CriaBatchEntry.
struct BatchSpec {
  int64_t rows = 0;  // of a call of the batch entry
  int64_t page = 0;  // positions of a page
  int64_t width = 0; // pages of a whole context
  /// The largest window of the caches with window pages, and the most of these
  /// pages that a call of the artifact needs; 0 if there are none.
  int64_t window = 0, windowWidth = 0;

  /// The pages that a number of positions takes.
  int64_t countFor(int64_t positions) const {
    return (positions + page - 1) / page;
  }
  /// The first page that a text of `positions` positions needs to go on, of
  /// the window pages.
  int64_t firstInWindow(int64_t positions) const {
    return positions < window ? 0 : (positions - window + 1) / page;
  }
  /// The most window pages that a text needs to compute `tokens` ids.
  int64_t windowPages(int64_t tokens) const {
    return (window + tokens - 3 + page) / page + 1;
  }
  /// The most ids that a text computes at once with `pages` window pages.
  int64_t windowTokens(int64_t pages) const {
    return (pages - 1) * page + 2 - window;
  }
};

/// What the compiler did with a key of the config; see docs/config.md.
struct LedgerRow {
  std::string key, value, fate, note;
};

/// What the compiler counted, for floors of time.
struct Costs {
  double decodeFlops = 0; // one token at depth 0, without the head
  uint64_t decodeWeightBytes = 0;
  uint64_t cacheBytesPerPosition = 0;
  double prefillFlopsPerToken = 0; // without the head
  double headFlops = 0;            // one row of logits
  uint64_t headWeightBytes = 0;
};

/// What a kernel function costs, as a function of the step.
struct KernelCost {
  std::string kernel; // "layers_mlp_gate_up_decode"
  std::string path;   // "model.layers.*.mlp.gate_up"
  /// The layer of its first run in a step, and the distance to the next run's.
  int64_t layer = 0, layerStep = 0;
  /// Bytes that a run reads: of weights, and of the rows that a token looks up.
  double weightBytes = 0, bytesPerToken = 0;
  double flopsPerToken = 0, flopsPerLogits = 0;
  struct Attention {
    double flopsPerKey = 0, bytesPerKey = 0;
    int64_t window = 0; // 0: all keys
  };
  std::vector<Attention> attention;
  bool f32 = false; // computes on numbers of f32

  /// Bytes of weights and caches that a run reads in a step of `tokens` tokens
  /// at `position` with `rows` rows of logits, and the operations of that run.
  double bytes(int64_t position, int64_t tokens, int64_t rows) const;
  double flops(int64_t position, int64_t tokens, int64_t rows) const;
  /// The path of the `run`-th run of a step, from 0.
  std::string pathOf(int64_t run) const;
};

/// Code for CPUs that have some features.
struct CpuCode {
  std::string cpu;                     // LLVM's name
  std::vector<std::string> features;   // features that it needs; LLVM's names
  std::string prefill, decode, encode; // symbols; "" if it has none
  std::string batch;                   // in place of decode
  uint64_t arenaBytes = 0;
};

/// The manifest of an artifact.
struct Manifest {
  std::string compiler;
  JsonDocument flags;
  std::string kind; // "cpu", "cuda" or both: "cpu,cuda"
  std::string arch, os;
  JsonDocument config;           // null if the input was no config.json
  std::vector<LedgerRow> ledger; // empty in the same case

  /// Ranks that share the model: weights, caches and costs are a rank's.
  int64_t shards = 1;
  int64_t vocabSize = 0;
  int64_t logitColumns = 0; // that a rank computes: all, or its part
  int64_t maxSeq = 0;
  int64_t chunk = 0;
  int64_t hiddenSize = 0; // of hidden states that a prefill returns; 0: none
  int64_t maxPositionEmbeddings = 0;
  std::string dtype; // "" where unknown

  /// Whether tokens see later tokens: then a text is one call from position 0.
  bool bidirectional = false;
  /// Whether rows that are fed in place of ids, such as an image's, see the
  /// later rows of their feed, too: then a feed of rows is one call.
  bool seesAhead = false;
  /// Whether a row for each position is added to the embeddings.
  bool learnedPositions = false;
  /// The learned rows in front of the rows that a call gives, such as a vision
  /// tower's class and registers.
  int64_t frontRows = 0;
  /// Whether a source text is encoded first, to which the tokens attend.
  bool encoder = false;

  std::vector<CpuCode> cpus;      // code for CPUs, the most capable first
  std::optional<cuda::Plan> cuda; // code for GPUs
  uint64_t slots = 0;
  std::vector<WeightSpec> weights;
  std::vector<RopeSpec> ropes;
  std::vector<CacheSpec> caches;
  std::optional<BatchSpec> batch; // if the caches are in pages
  /// The index in `weights` of the table in which the ids of a step are looked
  /// up, if nothing else reads it when no logits are wanted; else none.
  std::optional<size_t> embedding;
  std::vector<std::string> kernels;
  std::vector<KernelCost> kernelCosts; // empty where unknown
  Costs costs;

  /// The manifest of rank `rank`, below `shards`, with its rows and columns.
  Manifest ofRank(int rank) const;
  /// Whether ranks share the vocabulary.
  bool sharesLogits() const { return logitColumns != vocabSize; }
  /// Whether there is code for the CPU.
  bool hasCpu() const { return !cpus.empty(); }
  /// Whether the rope of a text depends on its length; see RopeSpec.
  bool hasRopeOfLength() const;
  /// How far back a text may go before it has to be computed anew: nowhere if
  /// it has a state; in a ring, until keys are missing in a window. A device
  /// may have written one position after the text.
  int64_t reach() const;
  /// Whether a session keeps its text, because it may have to compute it anew.
  bool keepsText() const { return hasRopeOfLength() || reach() < maxSeq; }
  /// Bytes of all weights; bytes that weights share count once.
  uint64_t weightBytes() const;
  /// The weight that `weight` is tied to, or itself.
  const WeightSpec &origin(const WeightSpec &weight) const {
    return weight.tied ? weights[*weight.tied] : weight;
  }
  /// Whether `weight` has the bytes of another weight, unless the checkpoint
  /// has a tensor that differs: it is tied to a whole weight of the same type.
  bool isShared(const WeightSpec &weight) const {
    return weight.tied && origin(weight).type == weight.type &&
           weight.split == Split::None;
  }
  /// Whether the model takes rows of numbers alone, and no ids.
  bool takesRows() const { return embedding && weights[*embedding].input; }
  /// The bytes of a row of the table of ids; 0 without `embedding`.
  uint64_t embeddingBytes() const;
  /// The bytes of one page of all caches of a kind, if caches are in pages; or
  /// of the states of one text.
  uint64_t pageBytes(PageKind kind) const;
  /// The bytes of cache `index` of a session.
  uint64_t cacheBytes(size_t index) const;
  /// The bytes of all caches of a session.
  uint64_t cacheBytes() const;
  /// The bytes of a session's scratch, for the code that needs most.
  uint64_t scratchBytes() const;
  /// What a session has of each kind of page.
  PageCounts sessionPages() const;
};

/// Parses and checks the manifest `text` of the artifact `file`.
Result<Manifest> parseManifest(std::string_view text, const std::string &file);

} // namespace cria
