/// Functions of f32 scalars, in payloads.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/linalg/Builder.h"

namespace cria {

/// cap * tanh(x / cap).
mlir::Value softcap(LinalgBuilder &b, mlir::Value x, llvm::APFloat cap);

/// What the gate of an MLP goes through; see llama.swiglu.
mlir::Value activate(LinalgBuilder &b, llama::Activation activation,
                     mlir::Value x);

} // namespace cria
