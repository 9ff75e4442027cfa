/// Products of tensors or memrefs.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// Whether an op adds products of its two inputs' elements to its output, and
/// does nothing else except widen the elements first, to the type of the
/// output. linalg::isaContractionOpInterface alone also accepts a sum of exp(a)
/// * -b, or of its own negative, or of products that are rounded to f16.
bool isProduct(mlir::linalg::LinalgOp op);

/// Whether a product's terms may be added in any order: the addition says so,
/// or the op is a named one, which has no order.
bool mayReorder(mlir::linalg::LinalgOp product);

/// The scalar that an op sets all elements of its only output to: linalg.fill,
/// or the linalg.generic that --linalg-generalize-named-ops makes of it. Null
/// if the op computes anything else.
mlir::Value filledWith(mlir::Operation *op);

/// Whether a value in the payload of an op is the number of the op's loop.
bool isLoop(mlir::Value value, unsigned loop);

/// The loops that the results of a map are, for maps such as those of a
/// product.
llvm::SmallVector<unsigned> loops(mlir::AffineMap map);

} // namespace cria
