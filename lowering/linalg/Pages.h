/// Caches in linalg in which rows do not lie in the order of positions: paged
/// caches, and rings. The row of a position is written to its place. The rows
/// that attention reads are gathered.
#pragma once

#include "lowering/kernel/LinalgBuilder.h"

namespace cria {

/// A layer of the storage of a paged cache, (pages, L, KVH, P, ...), or of a
/// ring, (L, KVH, R, ...), and the places of tokens in the layer.
struct PagedCache {
  mlir::Value cache;
  /// (W): the pages of one text; or (T, W): the pages of each token. Null: the
  /// cache is a ring.
  mlir::Value pages;
  /// The position of the first token, an index; or of each token, (T) i32.
  mlir::Value position;
  mlir::Value layer;

  bool isOfTokens() const;
};

/// Writes rows (T, KVH, D) at the tokens' positions. Returns the cache.
mlir::Value appendToPages(LinalgBuilder &b, mlir::Value rows, PagedCache cache);

/// Gathers the storage of the layer's rows [first, first + keys) as (KVH, keys,
/// ...), or, if each token has its own pages, as (T, KVH, keys, ...). In the
/// second case, rows after a token's position are copies of the row at this
/// position, because the pages after it are undefined.
mlir::Value gatherPages(LinalgBuilder &b, PagedCache cache,
                        mlir::OpFoldResult first, mlir::OpFoldResult keys);

} // namespace cria
