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

/// The columns that are convolved, each with its filter, before they meet a
/// matrix: those of queries, keys and values; or all, if there is no matrix.
int64_t convolvedColumns(const ModelConfig &config);
void declareFilter(ModelBuilder &b, llvm::StringRef path, bool hasBias,
                   Layers layers);
mlir::Value convolved(ModelBuilder &b, const Text &text, mlir::Value x,
                      LayerIndex number, mlir::Value &state);

} // namespace cria::forward
