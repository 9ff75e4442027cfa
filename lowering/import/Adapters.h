/// Adds LoRA adapters to a program, which are kept separate from the weights.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace cria {

/// Adds to each `llama.linear` a product with two more weights,
///
///   linear(x, W)  =>  residual(linear(x, W), linear(linear(x, A), B))
///
/// A is (rank, in) and B is (out, rank). The runtime fills both from adapters,
/// or with zeros. Their names in a checkpoint are the name of W with
/// `lora_A.weight` and `lora_B.weight` instead of `weight`.
mlir::LogicalResult addAdapters(mlir::ModuleOp module, int64_t rank);

} // namespace cria
