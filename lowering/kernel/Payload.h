/// Payloads of linalg ops on vectors.
#pragma once

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"

namespace cria {

/// Clones an elementwise op on scalars. `mapping` has the values of its
/// operands. If one of them is a vector of `lanes`, the result is a vector,
/// too.
void cloneOnVectors(mlir::OpBuilder &b, mlir::Operation &scalar,
                    mlir::IRMapping &mapping, int64_t lanes);

/// `value` in each of `lanes` lanes, or `value` itself if it is a vector.
mlir::Value asVector(mlir::OpBuilder &b, mlir::Value value, int64_t lanes);

} // namespace cria
