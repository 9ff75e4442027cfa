/// What attention reads of a KV cache, read from linalg.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// An op that makes each element from others, found by its place alone; null if
/// the op is none.
mlir::linalg::GenericOp elementwise(mlir::Operation *op);

/// Where numbers (KVH, S, D) come from, or, where each token has pages,
/// (T, KVH, S, D): keys of a layer of a cache, and what widens its elements.
struct CachePart {
  mlir::Value cache;
  /// What numbers and positions of pages they are gathered by; null where the
  /// cache is not paged.
  mlir::Value pages, positions;
  mlir::OpFoldResult layer, first, count;
  mlir::linalg::GenericOp widened;

  bool operator==(const CachePart &other) const {
    return cache.getType() == other.cache.getType() && pages == other.pages &&
           positions == other.positions && layer == other.layer &&
           first == other.first && count == other.count &&
           bool(widened) == bool(other.widened);
  }
};

/// The part of a cache that a tensor is; without a cache where it is of none.
CachePart cachePart(mlir::Value value);

} // namespace cria
