/// The parts of a layer, each in a file of its name. `declareMlp` declares the
/// weights of the MLP of some layers, `mlp` builds the MLP of one; so do
/// others.
#pragma once

#include "lowering/import/forward/Forward.h"

namespace cria::forward {

/// The layer that is built: its number, that of its keys and values in their
/// caches, and that of its state among the states; null for what it has not.
struct LayerIndex {
  mlir::Value layer, inCaches, inStates;
};

/// Builds layer `number` of the kind that layer `of` of the config has. Returns
/// the hidden states and caches after the layer.
llvm::SmallVector<mlir::Value> layer(ModelBuilder &b, const Text &text,
                                     const LayerCaches &caches, int64_t of,
                                     LayerIndex number,
                                     mlir::ValueRange carried);

/// Rotates heads in layers with rope.
mlir::Value rotated(ModelBuilder &b, const Text &text, const LayerKind &kind,
                    mlir::Value x);

void declareAttention(ModelBuilder &b, Layers layers);
/// `caches`: of keys and of values, or of latent rows; they are replaced.
mlir::Value attention(ModelBuilder &b, const Text &text, const LayerKind &kind,
                      mlir::Value x, LayerIndex number,
                      llvm::MutableArrayRef<mlir::Value> caches);
/// Attention of queries to the keys and values of a layer's caches.
llama::GQAOp attend(ModelBuilder &b, const Text &text, const LayerKind &kind,
                    mlir::Value q, mlir::Value k, mlir::Value v,
                    LayerIndex number);

void declareLatentAttention(ModelBuilder &b, Layers layers);
mlir::Value latentAttention(ModelBuilder &b, const Text &text,
                            const LayerKind &kind, mlir::Value x,
                            mlir::Value layer, mlir::Value &cache);

void declareRecurrence(ModelBuilder &b, Layers layers);
/// Builds a convolution, a delta rule or Mamba, which a layer has in place of
/// attention or beside it. `states` has the states of all layers; it gets what
/// they are after the layer.
mlir::Value recurrence(ModelBuilder &b, const Text &text, mlir::Value x,
                       LayerIndex number,
                       llvm::MutableArrayRef<mlir::Value> states);
llvm::SmallVector<mlir::Type> stateTypes(ModelBuilder &b, int64_t layers);

/// The prefix tells the MLPs of a layer apart, or of layers of several kinds.
void declareMlp(ModelBuilder &b, const MlpModules &names,
                llvm::StringRef prefix, int64_t inner, Layers layers);
mlir::Value mlp(ModelBuilder &b, const Text &text, const MlpModules &names,
                llvm::StringRef prefix, mlir::Value x, mlir::Value layer);

void declareExperts(ModelBuilder &b, Layers layers);
mlir::Value experts(ModelBuilder &b, const Text &text, mlir::Value x,
                    mlir::Value layer);

/// What a layer makes of its per-layer input.
mlir::Value readPerLayerInput(ModelBuilder &b, const Text &text, mlir::Value x,
                              mlir::Value layer);

} // namespace cria::forward
