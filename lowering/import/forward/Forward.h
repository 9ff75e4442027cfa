/// The parts of a forward pass. A function whose name begins with `declare`
/// declares the weights of a part, and the one after it, in the same file,
/// builds the part. Letters in shapes: n tokens, H heads, D head size, L
/// layers.
#pragma once

#include "lowering/import/Import.h"
#include "lowering/import/Layers.h"
#include "lowering/import/forward/ModelBuilder.h"

namespace cria::forward {

/// The values that all layers of a forward pass read.
struct Text {
  /// The number of tokens, and the position of the first.
  mlir::Value tokens, position;
  /// How many keys after its own a token sees; null if it sees none.
  mlir::Value ahead;
  /// The tables of ModelConfig::ropes, one for each.
  llvm::SmallVector<llama::GetRopeOp> ropes;
  /// The per-layer inputs of each token (n, L * N), one layer's after the
  /// other's; null if layers have none.
  mlir::Value perLayerInputs;
  /// Whether the caches of layers with a window are rings.
  bool hasRings = false;
};

/// The caches of a model, and their positions.
struct CacheSizes {
  LayerCaches layers;
  int64_t positions = 1;
  /// The places of caches of layers with a window, if these are rings; else 0.
  int64_t ring = 0;
};

/// Returns nothing after emitting an error. Warns of more positions than the
/// model knows.
std::optional<CacheSizes> cacheSizes(const ModelConfig &config,
                                     const ImportOptions &options,
                                     mlir::Type type);
/// Of keys and of values, for each group of layers, and then of states; or of
/// latent rows and rotated keys, one after the other.
llvm::SmallVector<mlir::Type> cacheTypes(ModelBuilder &b,
                                         const CacheSizes &caches);

// In front of the layers of a text.
void declareEmbedding(ModelBuilder &b);
mlir::Value embed(ModelBuilder &b, mlir::Value ids, mlir::Value position);

void declareRopes(ModelBuilder &b, int64_t positions);
llvm::SmallVector<llama::GetRopeOp> getRopes(ModelBuilder &b);

// Embeddings that each layer has for itself.
void declarePerLayerInputs(ModelBuilder &b, Layers layers);
/// The per-layer inputs of each token, from ids and their embeddings `x`.
mlir::Value perLayerInputs(ModelBuilder &b, mlir::Value tokens, mlir::Value ids,
                           mlir::Value x);

// The rows that a call gives in place of ids, and what a vision tower has in
// front of its layers.
void declareInput(ModelBuilder &b, int64_t numbers);
mlir::Value inputRows(ModelBuilder &b, mlir::Value ids);
void declareVision(ModelBuilder &b, int64_t positions);
mlir::Value embedPatches(ModelBuilder &b, mlir::Value ids,
                         mlir::Value position);

/// Declares all layers.
void declareLayers(ModelBuilder &b);
/// Builds the layers as loops. `carried` are the hidden states and the caches;
/// returns these after the layers.
llvm::SmallVector<mlir::Value>
buildLayers(ModelBuilder &b, const Text &text, const LayerCaches &caches,
            llvm::SmallVector<mlir::Value> carried);

void declareLastNorm(ModelBuilder &b);
/// Builds the last norm, for the tokens from `first` on.
mlir::Value lastHidden(ModelBuilder &b, mlir::Value x, mlir::Value tokens,
                       mlir::Value first);
void declareHead(ModelBuilder &b);
/// Builds the logits of the tokens from `first` on. A model that takes rows has
/// none; it returns a column of its numbers in their place.
mlir::Value head(ModelBuilder &b, mlir::Value x, mlir::Value tokens,
                 mlir::Value first);
/// The first columns of x, for the tokens from `first` on.
mlir::Value slice(ModelBuilder &b, mlir::Value x, mlir::Value tokens,
                  mlir::Value first, int64_t columns);

void declareProjector(ModelBuilder &b);
/// Builds the projector over rows of a tower.
mlir::Value project(ModelBuilder &b, mlir::Value x);

} // namespace cria::forward
