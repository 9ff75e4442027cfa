/// Passes from the llama dialect to the llama dialect. See passes/README.md.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace cria {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// Inlines the helper functions of a program, and removes private functions,
/// weights and rope tables that nothing uses.
void buildInlinePipeline(mlir::OpPassManager &pm);

/// Turns a module with `@forward` into entries whose ops are all in kernels: at
/// most five kernels a layer for a Llama. With `rows` the caches are paged, and
/// the entry `@batch` takes up to that many tokens of as many texts. With
/// `windowChunk`, the most tokens of a prefill, caches of layers with a window
/// have pages of their own.
void buildFusePipeline(mlir::OpPassManager &pm, int64_t rows = 0,
                       int64_t windowChunk = 0);

} // namespace cria
