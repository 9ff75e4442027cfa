/// Which memory a tensor is computed in, before bufferization gives it one.
#pragma once

#include "mlir/IR/Value.h"

namespace cria {

/// The value that an op, or a function that is called, updates to make a
/// result: bufferization gives both one buffer. Null where the result has its
/// own.
mlir::Value destinationOf(mlir::OpResult result);

/// The argument of the function around `value` that is updated, from op to op
/// and from turn to turn of loops, to make it. Null where there is none.
mlir::BlockArgument updatedArgument(mlir::Value value);

} // namespace cria
