/// The pass that lets cria-bisect see the results of kernels. cria-bisect
/// itself knows nothing of LLVM.
#pragma once

#include "mlir/Pass/Pass.h"

namespace cria {

#define GEN_PASS_DECL
#include "tools/taps/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tools/taps/Passes.h.inc"

} // namespace cria
