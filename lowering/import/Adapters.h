/// Room in a program for LoRA adapters that are kept apart from the weights.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace cria {

/// Adds to each `llama.linear` the product of two more weights,
///
///   linear(x, W)  =>  residual(linear(x, W), linear(linear(x, A), B))
///
/// A (rank, in) and B (out, rank), which the runtime fills from adapters, or
/// with zeros. Their names in a checkpoint are W's with `lora_A.weight` and
/// `lora_B.weight` in place of `weight`.
mlir::LogicalResult addAdapters(mlir::ModuleOp module, int64_t rank);

} // namespace cria
