/// Changes the type of a KV cache, which ops of a function update one after the
/// other.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace cria {

/// Gives a cache, and all updates of it, another type.
void setCacheType(mlir::Value cache, mlir::RankedTensorType type);

} // namespace cria
