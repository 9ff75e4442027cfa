/// The memory in which a tensor will be computed, before bufferization.
#pragma once

#include "mlir/IR/Value.h"

namespace cria {

/// The value that an op or a called function updates to make a result:
/// bufferization gives both the same buffer. Null if the result has a buffer
/// of its own.
mlir::Value destinationOf(mlir::OpResult result);

/// The function argument that ops, and iterations of loops, update one after
/// the other to make `value`. Null if there is none.
mlir::BlockArgument updatedArgument(mlir::Value value);

} // namespace cria
