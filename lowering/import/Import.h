/// From a model's config to a program in the llama dialect.
#pragma once

#include "lowering/import/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace cria {

struct ImportOptions {
  /// Positions of the caches; 0 for the model's own, at most 4096.
  int64_t maxSeq = 0;
  /// Type of weights, activations and caches in place of the config's.
  std::optional<DType> dtype;
  /// Room for unmerged LoRA adapters: the sum of their ranks.
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
