/// Functions of f32 scalars, in payloads.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/kernel/LinalgBuilder.h"

namespace cria {

/// cap * tanh(x / cap).
mlir::Value softcap(LinalgBuilder &b, mlir::Value x, llvm::APFloat cap);

/// The function of an MLP's gate; see llama.swiglu.
mlir::Value activate(LinalgBuilder &b, llama::Activation activation,
                     mlir::Value x);

} // namespace cria
