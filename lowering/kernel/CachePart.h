/// The part of a KV cache that attention reads, found in linalg.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// The op if it is elementwise: it makes each element from elements whose place
/// depends only on the element's own place. Else null.
mlir::linalg::GenericOp elementwise(mlir::Operation *op);

/// The origin of numbers (KVH, S, D), or, if each token has its own pages, (T,
/// KVH, S, D): keys of a layer of a cache, and the op that widens their
/// elements, if any.
struct CachePart {
  mlir::Value cache;
  /// The page numbers and the positions by which the keys are gathered; null if
  /// the cache is not paged.
  mlir::Value pages, positions;
  /// Whether the cache is a ring: key s is at place s mod R of R places.
  bool isRing = false;
  mlir::OpFoldResult layer, first, count;
  mlir::linalg::GenericOp widened;

  bool operator==(const CachePart &other) const {
    return cache.getType() == other.cache.getType() && pages == other.pages &&
           positions == other.positions && isRing == other.isRing &&
           layer == other.layer && first == other.first &&
           count == other.count && bool(widened) == bool(other.widened);
  }
};

/// The part of a cache that a tensor is. `cache` is null if the tensor is none.
CachePart cachePart(mlir::Value value);

} // namespace cria
