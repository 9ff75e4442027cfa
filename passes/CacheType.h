/// Changes the type of a KV cache, which flows through a function from op to
/// op.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace cria {

/// Gives a cache, and all that is made of it, another type.
void setCacheType(mlir::Value cache, mlir::RankedTensorType type);

} // namespace cria
