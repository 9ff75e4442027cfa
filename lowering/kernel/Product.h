/// Products of tensors or memrefs.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// Whether an op adds products of its two inputs' elements to its output, and
/// does nothing else except widen them. linalg::isaContractionOpInterface alone
/// also accepts a sum of exp(a) * -b, or of its own negative.
bool isProduct(mlir::linalg::LinalgOp op);

/// Whether a product's terms may be added in any order: the addition says so,
/// or the op is a named one, which has no order.
bool mayReorder(mlir::linalg::LinalgOp product);

/// The loops that the results of a map are, for maps such as those of a
/// product.
llvm::SmallVector<unsigned> loops(mlir::AffineMap map);

} // namespace cria
