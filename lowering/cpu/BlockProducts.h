/// Products with matrices in blocks, in vectors of integers: the schedules that
/// the pass lower-contractions chooses from. Each is one file.
#pragma once

#include "lowering/cpu/VectorBuilder.h"
#include "lowering/kernel/BlockProduct.h"

namespace cria {

/// One row of activations against rows of weights where they lie
/// (BlockDot.cpp). `fromZero` is as in Contraction.
void emitBlockDot(VectorBuilder &b, const BlockProduct &product, bool fromZero);

/// The same for a few rows of activations, at most `maxRows`, each as if it
/// were alone.
void emitFewBlockDots(VectorBuilder &b, const BlockProduct &product,
                      bool fromZero, int64_t maxRows);

/// Rows of activations, packed for emitBlockPanel.
struct BlockPanels {
  mlir::Value codes;  // (panels, B, steps of k, lanes * k of a step)
  mlir::Value scales; // (panels, B, lanes) f32
  mlir::Value first;  // (panels, B, lanes) i32, of bytes: what sums begin with
};

/// Packs at most `maxRows` rows (BlockPanel.cpp).
BlockPanels packBlocks(VectorBuilder &b, const BlockProduct &product,
                       int64_t maxRows);

/// Packed rows of activations against rows of weights, a row of activations in
/// each lane (BlockPanel.cpp).
void emitBlockPanel(VectorBuilder &b, const BlockProduct &product,
                    const BlockPanels &packed, bool fromZero);

/// The 32 integers of weights' block (row, block), as vector<32xi8>: signed, or
/// not negative, with `offsetOf` added.
mlir::Value loadCodes(VectorBuilder &b, const BlockProduct &product,
                      mlir::Value row, mlir::Value block, bool isSigned);

/// What makes the integers of weights not negative.
inline int64_t offsetOf(const BlockProduct &product) {
  return product.bits == 8 ? 128 : 8;
}

/// The f32 scales of `count` blocks from `block` on of a row of weights.
mlir::Value loadScales(VectorBuilder &b, const BlockProduct &product,
                       mlir::Value row, mlir::Value block, int64_t count);

/// Asks for the lines of `count` blocks some bytes behind block (row, block).
/// Behind the row's end they are those of the next row.
void fetchBlocksAhead(VectorBuilder &b, const BlockProduct &product,
                      mlir::Value row, mlir::Value block, int64_t count);

} // namespace cria
