/// Paged caches in linalg: a position's row is put into its page, and what
/// attention reads is gathered from pages.
#pragma once

#include "lowering/linalg/Builder.h"

namespace cria {

/// A layer of the storage of a paged cache, (pages, L, KVH, P, ...), and where
/// tokens are in it.
struct PagedCache {
  mlir::Value cache;
  /// (W): the pages of one text; or (T, W), of each token's.
  mlir::Value pages;
  /// Of the first token, an index; or of each, (T) i32.
  mlir::Value position;
  mlir::Value layer;

  bool isOfTokens() const;
};

/// The cache with rows (T, KVH, D), at the tokens' positions.
mlir::Value appendToPages(LinalgBuilder &b, mlir::Value rows, PagedCache cache);

/// The storage of the layer's rows [first, first + keys) as (KVH, keys, ...);
/// of tokens that have pages each, (T, KVH, keys, ...). There a row behind the
/// token's position is that of the position again: nothing is known of the
/// pages behind it.
mlir::Value gatherPages(LinalgBuilder &b, PagedCache cache,
                        mlir::OpFoldResult first, mlir::OpFoldResult keys);

} // namespace cria
