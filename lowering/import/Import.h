/// Makes a program in the llama dialect from a model's config.
#pragma once

#include "lowering/import/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace cria {

struct ImportOptions {
  /// Positions of the caches; 0 means the model's positions, but at most 4096.
  int64_t maxSeq = 0;
  /// The type of weights, activations and caches, instead of the config's.
  std::optional<DType> dtype;
  /// The most LoRA adapters that the program has room for, as the sum of their
  /// ranks.
  int64_t loraRank = 0;
};

/// Builds `@forward` (see the llama dialect) and its symbols. The layers are
/// one loop; every op has its module's path as location, `*` for the layer.
/// Warns if maxSeq is beyond the model's positions. Returns null after emitting
/// an error. Errors and warnings go to the context's diagnostic handler.
mlir::OwningOpRef<mlir::ModuleOp> importModel(const ModelConfig &config,
                                              const ImportOptions &options,
                                              mlir::MLIRContext *context);

} // namespace cria
