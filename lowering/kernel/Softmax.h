/// A softmax that no schedule accepts.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// Decomposes a softmax into its parts, on all scores. The terms of its sum
/// have no order.
mlir::LogicalResult takeApart(mlir::linalg::SoftmaxOp op);

} // namespace cria
