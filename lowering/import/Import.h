/// Makes a program in the llama dialect from a model's config.
#pragma once

#include "lowering/import/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace cria {

struct ImportOptions {
  /// Positions of the caches; else the model's positions, but at most 4096.
  std::optional<int64_t> maxSeq;
  /// The type of weights, activations and caches, instead of the config's.
  std::optional<DType> dtype;
  /// The most tokens of a call, if layers with a window are to have caches of
  /// their own, which keep the window alone.
  std::optional<int64_t> windowChunk;
  /// The most tokens of a batch, if these caches are to be in pages; 0: they
  /// are rings.
  int64_t rows = 0;
};

/// Builds `@forward` (see the llama dialect) and its symbols. The layers are
/// one loop; every op has its module's path as location, `*` for the layer.
/// Warns if maxSeq is beyond the model's positions. Returns null after emitting
/// an error. Errors and warnings go to the context's diagnostic handler.
mlir::OwningOpRef<mlir::ModuleOp> importModel(const ModelConfig &config,
                                              const ImportOptions &options,
                                              mlir::MLIRContext *context);

} // namespace cria
