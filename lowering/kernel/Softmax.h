/// A softmax that no schedule takes.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// Makes a softmax its parts, on all scores. The terms of its sum have no
/// order.
mlir::LogicalResult takeApart(mlir::linalg::SoftmaxOp op);

} // namespace cria
