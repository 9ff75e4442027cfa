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

/// What queries and keys are normalized over before they are rotated.
enum class HeadNorm { None, EachHead, AllHeads };

/// What linears of attention have a bias.
enum class BiasRule { None, FromConfig, QueryKeyValue };

struct Family {
  llvm::StringLiteral modelType, architecture;
  /// Norms of the residual stream in front of attention and MLP, and of what
  /// they add to it: module names in a layer, empty where there is none.
  llvm::StringLiteral attentionNorm, attentionEndNorm, mlpNorm, mlpEndNorm;
  HeadNorm headNorm = HeadNorm::None;
  /// The norms multiply before they round, with 1 + weight.
  bool normRoundsOnce = false, normUnitOffset = false;
  /// Modules that hold several linears, rows of one after those of another:
  /// q, k and v; gate and up. Empty where they lie apart.
  llvm::StringLiteral queryKeyValue = "", gateUp = "";
  BiasRule bias = BiasRule::None;
  WindowRule window = WindowRule::None;
  /// Embeddings are multiplied by the root of the hidden size, rounded to the
  /// storage type.
  bool scalesEmbedding = false;
  /// partial_rotary_factor counts, the scalings of rope go by other names, and
  /// a text that outgrows the original positions is computed again.
  bool phi3Rope = false;
  double ropeTheta = 10000.0;
  /// What keys that are absent stand for, as JSON: transformers' defaults.
  llvm::StringLiteral defaults;
};

/// All families, by model_type.
llvm::ArrayRef<Family> families();

/// The family of a model_type, or null.
const Family *findFamily(llvm::StringRef modelType);

} // namespace cria
