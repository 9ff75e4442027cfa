/// Follows a KV cache, which ops of a function update one after the other.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace cria {

/// Calls `body` for each use of a cache, and of all updates of it.
void forEachUse(mlir::Value cache,
                llvm::function_ref<void(mlir::OpOperand &)> body);

/// Reports an error if a cache, or an update of it, goes through an op that
/// `setCacheType` does not follow, such as a call or a kernel.
mlir::LogicalResult verifyCacheUses(mlir::Value cache);

/// Gives a cache, and all updates of it, another type.
void setCacheType(mlir::Value cache, mlir::RankedTensorType type);

} // namespace cria
