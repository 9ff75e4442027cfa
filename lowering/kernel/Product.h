/// Products of tensors or memrefs.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// Whether an op adds products of its two inputs' elements to its output, and
/// does nothing else but widen them. linalg::isaContractionOpInterface alone
/// also takes a sum of exp(a) * -b, or of its own negative.
bool isProduct(mlir::linalg::LinalgOp op);

} // namespace cria
