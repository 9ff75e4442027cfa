/// The families of models as data: what differs between them is a row here, not
/// code. A row says how the modules of a layer follow one another and are
/// called in checkpoints; numbers come from the config, through the ledger.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace cria {

/// Which layers see only a window of the keys before them.
enum class WindowRule {
  None,
  /// All, where sliding_window is a number.
  Always,
  /// Those from max_window_layers on, where use_sliding_window is true.
  LastLayers,
  /// Every other one, the first among them.
  Alternate,
  /// Those without rope, where use_sliding_window is true.
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
  /// The norms multiply before they round, with 1 + weight.
  bool normRoundsOnce = false, normUnitOffset = false;
  /// Modules that hold the rows of several linears, one linear after the other:
  /// q, k and v; gate and up. Empty if each linear has a module.
  llvm::StringLiteral queryKeyValue = "", gateUp = "";
  BiasRule bias = BiasRule::None;
  WindowRule window = WindowRule::None;
  /// Embeddings are multiplied by the root of the hidden size, rounded to the
  /// storage type.
  bool scalesEmbedding = false;
  /// partial_rotary_factor is read, the scalings of rope have other names, and
  /// a text that outgrows the original positions is computed again.
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
