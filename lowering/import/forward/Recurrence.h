/// The recurrences of families: what has a state in place of attention or
/// beside it.
#pragma once

#include "lowering/import/forward/Layer.h"

namespace cria::forward {

void declareConvolution(ModelBuilder &b, Layers layers);
mlir::Value convolution(ModelBuilder &b, const Text &text, mlir::Value x,
                        LayerIndex number, mlir::Value &state);
void declareDeltaRule(ModelBuilder &b, Layers layers);
mlir::Value deltaRule(ModelBuilder &b, const Text &text, mlir::Value x,
                      LayerIndex number,
                      llvm::MutableArrayRef<mlir::Value> states);
void declareMamba(ModelBuilder &b, Layers layers);
mlir::Value mamba(ModelBuilder &b, const Text &text, mlir::Value x,
                  LayerIndex number, llvm::MutableArrayRef<mlir::Value> states);

/// How many columns are convolved, each with a filter. If the state has a
/// matrix for each head, these columns are queries, keys and values; without
/// matrices all columns of the hidden states are convolved.
int64_t convolvedColumns(const ModelConfig &config);
void declareFilter(ModelBuilder &b, llvm::StringRef path, bool hasBias,
                   Layers layers);
mlir::Value convolved(ModelBuilder &b, const Text &text, mlir::Value x,
                      LayerIndex number, mlir::Value &state);

} // namespace cria::forward
