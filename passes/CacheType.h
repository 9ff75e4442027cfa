/// Follows a KV cache, which ops of a function update one after the other.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace cria {

/// Calls `body` for each use of a cache, and of all updates of it.
void forEachUse(mlir::Value cache,
                llvm::function_ref<void(mlir::OpOperand &)> body);

/// Gives a cache, and all updates of it, another type.
void setCacheType(mlir::Value cache, mlir::RankedTensorType type);

} // namespace cria
