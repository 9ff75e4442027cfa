/// The families of models as data: a family is a row here, not code. A row says
/// which modules a layer has, in which order, and how checkpoints call them.
/// Numbers come from the config, through the ledger.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace cria {

/// Which layers see only a window of the keys before them.
enum class WindowRule {
  None,
  /// All layers, if sliding_window is a number.
  Always,
  /// The layers from max_window_layers on, if use_sliding_window is true.
  LastLayers,
  /// Every second layer, beginning with the first.
  Alternate,
  /// The layers without rope, if use_sliding_window is true.
  WithoutRope,
};

/// The elements over which queries and keys are normalized before the rope.
enum class HeadNorm { None, EachHead, AllHeads };

/// The linears of attention that have a bias.
enum class BiasRule { None, FromConfig, QueryKeyValue };

struct Family {
  llvm::StringLiteral modelType, architecture;
  /// Norms before attention and MLP, and norms of their results: names of
  /// modules in a layer, empty if there is no such norm.
  llvm::StringLiteral attentionNorm, attentionEndNorm, mlpNorm, mlpEndNorm;
  HeadNorm headNorm = HeadNorm::None;
  /// Whether norms multiply before they round, and whether they multiply with 1
  /// + weight.
  bool normRoundsOnce = false, normUnitOffset = false;
  /// Modules that hold the rows of several linears, one linear after the other:
  /// q, k and v; gate and up. Empty if each linear has its own module.
  llvm::StringLiteral queryKeyValue = "", gateUp = "";
  BiasRule bias = BiasRule::None;
  WindowRule window = WindowRule::None;
  /// Whether embeddings are multiplied by the root of the hidden size, rounded
  /// to the storage type.
  bool scalesEmbedding = false;
  /// Whether partial_rotary_factor is read, rope scalings have other names, and
  /// a text that grows beyond the original positions is computed again.
  bool phi3Rope = false;
  double ropeTheta = 10000.0;
  /// Values of absent keys, as JSON: transformers' defaults.
  llvm::StringLiteral defaults;
};

/// All families, by model_type.
llvm::ArrayRef<Family> families();

/// The family of a model_type, or null.
const Family *findFamily(llvm::StringRef modelType);

} // namespace cria
