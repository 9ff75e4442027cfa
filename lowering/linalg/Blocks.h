/// Builds linalg for products with quantized matrices, lookups in them, and
/// quantized caches.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/kernel/LinalgBuilder.h"

namespace cria {

/// Rows (..., K) as integers of 8 bits and a scale for each 32 of them, as
/// ggml's quantize_row_q8_0 rounds them.
struct BlockRows {
  mlir::Value codes;  // (..., K / 32, 32) i8
  mlir::Value scales; // (..., K / 32) f16
};
BlockRows quantizeRows(LinalgBuilder &b, mlir::Value rows);

/// acc[t, n] += sum_k x[t, k] * weight[n, k], in f32. `weight` is the storage
/// of a matrix (N, K) in blocks of integers. The terms may be added in any
/// order.
mlir::Value multiplyBlocks(LinalgBuilder &b, BlockRows x, mlir::Value weight,
                           llama::BlockFormat format, mlir::Value acc);

/// The same, of rows x (T, K) in 16 bits, and blocks of any format. `rounds`:
/// the numbers of the weights are rounded to the type of x.
mlir::Value multiplyWidened(LinalgBuilder &b, mlir::Value x, mlir::Value weight,
                            llama::BlockFormat format, bool rounds,
                            mlir::Value acc);

/// acc[t, s, n] += sum_k x[t, k] * weight[e, n, k], of the experts
/// e = experts[t, s]; or x[t, s, k]. `weight` is the storage of the matrices
/// (E, N, K) of all experts.
mlir::Value multiplyExperts(LinalgBuilder &b, BlockRows x, mlir::Value experts,
                            mlir::Value weight, llama::BlockFormat format,
                            mlir::Value acc);

/// A part of the storage of rows (..., D) in blocks of q8_0: `count` bytes of
/// each block, (..., D / 32, count), from byte `first` on.
struct StoredPart {
  mlir::Value bytes;
  int64_t first;
};
llvm::SmallVector<StoredPart> storedParts(LinalgBuilder &b, mlir::Value rows);

/// Inserts `rows` (H, T, D) at [layer, 0, position, 0] into the storage of a
/// cache (L, H, S, D) in blocks of q8_0. Returns the storage.
mlir::Value insertBlocks(LinalgBuilder &b, mlir::Value rows, mlir::Value cache,
                         mlir::Value layer, mlir::Value position);

/// The numbers (H, S, D) of a layer in f32: `keys` keys from `first` on, of a
/// cache's storage in blocks of q8_0.
mlir::Value widenBlocks(LinalgBuilder &b, mlir::Value cache, mlir::Value layer,
                        mlir::OpFoldResult first, mlir::OpFoldResult keys);

/// The numbers (..., D) in f32 of storage (..., D / 32, 34) in blocks of q8_0.
mlir::Value widenBlocks(LinalgBuilder &b, mlir::Value storage);

/// The number table[row, column] of a matrix in blocks, in f32. Called within a
/// payload.
mlir::Value extractNumber(LinalgBuilder &b, mlir::Value table, mlir::Value row,
                          mlir::Value column, llama::BlockFormat format);

} // namespace cria
