/// Payloads of linalg ops on vectors.
#pragma once

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"

namespace cria {

/// Clones an elementwise op on scalars, whose operands' values are mapped.
/// Where one of these is a vector of `lanes`, so is the result.
void cloneOnVectors(mlir::OpBuilder &b, mlir::Operation &scalar,
                    mlir::IRMapping &mapping, int64_t lanes);

/// `value` in each of `lanes`, unless it is a vector.
mlir::Value asVector(mlir::OpBuilder &b, mlir::Value value, int64_t lanes);

} // namespace cria
