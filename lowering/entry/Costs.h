/// The costs of a forward pass, computed from the program alone. No schedule
/// can be cheaper.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace cria {

/// One kind of op, with the costs of all its runs in a forward pass of a token.
struct CostRow {
  /// The module's path, such as "model.layers.*.mlp.gate_proj".
  std::string path;
  std::string op;
  /// Runs per forward pass: the layers.
  int64_t runs = 1;
  /// Multiplications and additions of one token, all runs together.
  int64_t flops = 0;
  /// Bytes of weights read, all runs together.
  int64_t weightBytes = 0;
  /// Whether the op is the head, which a prefill runs once.
  bool head = false;
};

/// Attention of one kind of layer.
struct AttentionRow {
  int64_t runs = 1;
  /// Operations and bytes of the cache for each key that a token sees.
  int64_t flopsPerKey = 0, bytesPerKey = 0;
  /// The most keys that a token sees; 0 means all.
  int64_t window = 0;
};

/// The caches of the layers that are alike: keys and values, or states.
struct CacheKind {
  /// "whole", "ring", "state", or, of pages of a window alone, "window".
  std::string kind;
  int64_t window = 0; ///< of the layers of a ring or of such pages
  int64_t layers = 0;
  /// The positions that each layer has room for; 0 of states.
  int64_t positions = 0;
  int64_t bytes = 0;
};

struct Costs {
  std::vector<CostRow> rows;
  std::vector<AttentionRow> attention;
  int64_t parameters = 0;
  /// The parameters of experts that a token does not choose.
  int64_t idleParameters = 0;
  /// The experts of a layer, and those that a token chooses; 0 without experts.
  int64_t experts = 0, chosenExperts = 0;
  /// The parameters of each part: embedding, attention, MLPs, norms, head.
  std::vector<std::pair<std::string, int64_t>> parts;
  /// Keys and values of one position, all layers.
  int64_t cacheBytesPerPosition = 0;
  int64_t cacheBytes = 0;
  std::vector<CacheKind> caches;

  int64_t flops(bool head) const;
  int64_t weightBytes(bool head) const;
  /// Costs that attention adds for one token after `depth` others.
  int64_t attentionFlops(int64_t depth) const;
  int64_t attentionBytes(int64_t depth) const;
  /// Bytes of the caches that a further position of the context takes.
  int64_t bytesOfPosition() const;
  /// The different experts of a layer that `tokens` choose on average, if all
  /// choices are equally likely: E (1 - (1 - k / E)^tokens).
  double expectedExperts(int64_t tokens) const;
};

/// Walks @forward of a program in the llama dialect.
Costs costsOf(mlir::ModuleOp program);

/// Counts the caches of a text in pages instead, of a program at phase fuse
/// with @batch whose calls have at most `chunk` tokens.
void countPages(mlir::ModuleOp fused, int64_t chunk, Costs &costs);

/// The costs of one kernel of an entry, as a function of the call.
struct KernelCost {
  /// For example "decode", "layers_attn_qkv" and
  /// "model.layers.*.self_attn.qkv".
  std::string entry, kernel, path;
  /// Runs per call: the layers, from `firstLayer` on, every `layerStep`-th.
  int64_t runs = 1, firstLayer = 0, layerStep = 0;
  /// The bytes of one run: of weights, and of the rows that a token looks up.
  int64_t weightBytes = 0, tokenBytes = 0;
  /// Multiplications and additions of a token, and of a row of logits.
  int64_t tokenFlops = 0, logitFlops = 0;
  /// The attention ops of the kernel; each has one run.
  std::vector<AttentionRow> attention;
  /// Whether the kernel multiplies f32 numbers, which tensor cores would round.
  bool f32 = false;

  /// The kernel function at linalg and below: "layers_attn_qkv_decode".
  std::string function() const { return kernel + "_" + entry; }
  /// The bytes of weights and caches that a run reads, and its operations, in a
  /// call of `tokens` tokens after `depth` others. One row of logits is
  /// computed.
  int64_t bytes(int64_t depth, int64_t tokens) const;
  int64_t flops(int64_t depth, int64_t tokens) const;
};

/// Walks the entries of a program at phase fuse.
std::vector<KernelCost> kernelCostsOf(mlir::ModuleOp program);

/// Prints a readable table, for prompts of at most `chunk` tokens.
void printCosts(const Costs &costs, int64_t chunk, llvm::raw_ostream &os);

/// Prints the parameters by part, and the operations and bytes of one token
/// after `depth` others.
void printTotals(const Costs &costs, int64_t depth, llvm::raw_ostream &os);

} // namespace cria
