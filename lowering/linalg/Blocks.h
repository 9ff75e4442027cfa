/// Products with quantized matrices, and lookups in them, in linalg.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/linalg/Builder.h"

namespace cria {

/// Rows (T, K) as integers of 8 bits and a scale for each 32 of them, as ggml's
/// quantize_row_q8_0 rounds them.
struct BlockRows {
  mlir::Value codes;  // (T, K / 32, 32) i8
  mlir::Value scales; // (T, K / 32) f16
};
BlockRows quantizeRows(LinalgBuilder &b, mlir::Value rows);

/// acc[t, n] += sum_k x[t, k] * weight[n, k], in f32, `weight` being the
/// storage of a matrix (N, K) in blocks. The terms may be added in any order.
mlir::Value multiplyBlocks(LinalgBuilder &b, BlockRows x, mlir::Value weight,
                           llama::BlockFormat format, mlir::Value acc);

/// The number `table`[row, column] of a matrix in blocks, in f32; within a
/// payload.
mlir::Value extractNumber(LinalgBuilder &b, mlir::Value table, mlir::Value row,
                          mlir::Value column, llama::BlockFormat format);

} // namespace cria
