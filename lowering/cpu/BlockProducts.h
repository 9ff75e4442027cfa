/// Products with matrices in blocks, with vectors of integers: the schedules
/// that the pass lower-contractions chooses from. Each is one file.
#pragma once

#include "lowering/cpu/Contraction.h"
#include "lowering/kernel/BlockProduct.h"

namespace cria {

/// A product with experts in blocks that was separated.
struct ExpertBlocks {
  mlir::linalg::LinalgOp row; // the product of a row (t, s)
  mlir::Value experts;        // (T, S) i32
  /// All rows: codes (T(, S), B, 32), scales (T(, S), B), weights (E, N, B,
  /// ...) and out (T, S, N).
  BlockProduct all;
};
/// Makes products with experts in blocks that each token chose a loop of
/// products with one expert each (ExpertBlocks.cpp).
llvm::SmallVector<ExpertBlocks>
separateExpertBlocks(mlir::func::FuncOp function);

/// One row of activations times rows of weights, which are read in place
/// (BlockDot.cpp). `fromZero` is as in Contraction. `parallel` distributes the
/// rows of weights over threads.
void emitBlockDot(VectorBuilder &b, const BlockProduct &product, bool fromZero,
                  bool parallel);

/// The same for a few rows of activations, at most `maxRows`. Each row's result
/// is the same as if the row were alone.
void emitFewBlockDots(VectorBuilder &b, const BlockProduct &product,
                      bool fromZero, int64_t maxRows);

/// The same result, where it is a sum in order, with a row of weights in each
/// lane (BlockColumns.cpp), which fewer instructions compute. At least
/// `minRows` rows, which is 1 or 2.
void emitBlockColumns(VectorBuilder &b, const BlockProduct &product,
                      bool fromZero, int64_t minRows, int64_t maxRows);
/// Whether the CPU and the product have what it needs: x86, with vpdpbusd where
/// it has tiles, and rows of weights that fill the lanes.
bool takesBlockColumns(const VectorUnit &unit, const BlockProduct &product);

/// The same with experts, for parts of the rows that have at least `minRows`
/// rows, and at most `maxRows`.
void emitSortedBlockColumns(VectorBuilder &b, const BlockProduct &product,
                            const ExpertRows &experts, int64_t minRows,
                            int64_t maxRows);

/// Dot products with experts, for the rows of at most `maxTokens` tokens: rows
/// of an expert's matrix are read from memory once. `alone`: only for parts of
/// one row.
void emitSortedBlockDots(VectorBuilder &b, const BlockProduct &product,
                         const ExpertRows &experts, int64_t maxTokens,
                         bool alone);

/// Rows of activations, packed for emitBlockPanel.
struct BlockPanels {
  mlir::Value codes;  // (panels, B, steps of k, lanes * k of a step)
  mlir::Value scales; // (panels, B, lanes) f32
  mlir::Value first;  // (panels, B, lanes) i32: initial sums, for bytes only
};

/// Packs `rows` rows, at most `maxRows`, or rows that are sorted by expert
/// (BlockPanel.cpp).
BlockPanels packBlocks(VectorBuilder &b, const BlockProduct &product,
                       mlir::Value rows, int64_t maxRows,
                       const ExpertRows *experts = nullptr);

/// Packed rows of activations times rows of weights. Each lane has one row of
/// activations (BlockPanel.cpp). With experts, parts of the rows times the
/// matrices of theirs.
void emitBlockPanel(VectorBuilder &b, const BlockProduct &product,
                    const BlockPanels &packed, bool fromZero,
                    const ExpertRows *experts = nullptr);

/// The 32 integers of the weights' block (row, block), as vector<32xi8>:
/// signed, or not negative, with `offsetOf` added.
mlir::Value loadCodes(VectorBuilder &b, const BlockProduct &product,
                      mlir::Value row, mlir::Value block, bool isSigned);

/// Sums of two products of 16-bit integers each, on x86.
mlir::Value sumsOfTwo(VectorBuilder &b, mlir::Value x, mlir::Value w);

/// `sum` plus products of unsigned bytes w and signed ones x, on x86: of four
/// in each i32, which needs `unit.dotBytes`, or of two in each i16.
mlir::Value addProducts(VectorBuilder &b, mlir::Value sum, mlir::Value w,
                        mlir::Value x);

/// The offset that makes the integers of weights not negative.
inline int64_t offsetOf(const BlockProduct &product) {
  return product.bits == 8 ? 128 : 8;
}

/// A row of 16 bits times rows of weights in blocks of floats, which are read
/// in place (WidenedDot.cpp).
void emitWidenedDot(VectorBuilder &b, const Contraction &c, bool parallel);

/// Widens the numbers of the weights' block (row, block), and rounds them to
/// the type of `copy`: copy[at..., k], ..., copy[at..., k + 31]
/// (WidenedDot.cpp).
void copyBlock(VectorBuilder &b, const BlockProduct &product, mlir::Value row,
               mlir::Value block, mlir::Value copy,
               llvm::ArrayRef<mlir::Value> at, mlir::Value k);

/// The f32 scales of the weights' blocks (row, block).
mlir::Value
scalesAt(VectorBuilder &b, const BlockProduct &product,
         llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> places);

/// The f32 scales of `count` blocks of a row of weights, from `block` on.
mlir::Value loadScales(VectorBuilder &b, const BlockProduct &product,
                       mlir::Value row, mlir::Value block, int64_t count);

/// Prefetches the lines of `count` blocks that are kBytesAhead bytes after
/// block (row, block). After the row's end these are lines of the next row.
void fetchBlocksAhead(VectorBuilder &b, const BlockProduct &product,
                      mlir::Value row, mlir::Value block, int64_t count);

} // namespace cria
