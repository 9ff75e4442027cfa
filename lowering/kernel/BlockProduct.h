/// Products with matrices in blocks, read from linalg.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// out[t, n] += sum over blocks b and their 32 numbers j of
///   (codes[t, b, j] * scales[t, b]) * (code(n, b, j) * scale(n, b))
///
/// The codes and scales of n are in the bytes of `weights`. Each block is an
/// f16 scale, followed by 32 integers of 8 bits, or by 16 bytes. Byte i has
/// number i in its low half and number i + 16 in its high half, each plus 8.
///
/// Or, with widened weights,
///
///   rows[t, b, j] * (the type of rows)(code(n, b, j) * scale(n, b))
///
/// Codes may then also be floats of 8 bits (E4M3), which count as a 256th: the
/// f16 with the same sign, and the other seven bits at bits 7 to 13. Their
/// products with scales may also be not rounded.
struct BlockProduct {
  mlir::Value codes;     // (T, B, 32) i8; null with widened weights
  mlir::Value scales;    // (T, B) f16; null with widened weights
  mlir::Value weights;   // (N, B, 34 or 18) i8
  mlir::Value out;       // (T, N) f32
  int64_t bits;          // of a weight: 8 or 4
  mlir::Value rows = {}; // (T, B * 32) bf16 or f16; only with widened weights
  bool isFloat = false;  // whether codes are floats
  bool rounds = false;   // whether widened weights are rounded

  static constexpr int64_t kNumbers = 32;
  static constexpr int64_t kScaleBytes = 2;

  /// Reads a linalg op on tensors or memrefs as a product of this form, whose
  /// factors may be regrouped and whose terms may be added in any order.
  /// `reason` is set if only the order, the loops or the operands of the op are
  /// wrong.
  static std::optional<BlockProduct> match(mlir::linalg::LinalgOp op,
                                           llvm::StringRef &reason);

  mlir::ShapedType type(mlir::Value value) const {
    return mlir::cast<mlir::ShapedType>(value.getType());
  }
  /// Whether the number of rows is known only at run time.
  bool isDynamic() const { return mlir::ShapedType::isDynamic(count()); }
  int64_t count() const { return type(out).getDimSize(0); } // of rows
  int64_t columns() const { return type(out).getShape().back(); }
  int64_t blocks() const { return type(weights).getShape().drop_back().back(); }
  int64_t blockBytes() const { return type(weights).getShape().back(); }
  /// Bytes of a block with numbers of `bits` bits.
  static int64_t blockBytes(int64_t bits) {
    return kScaleBytes + kNumbers * bits / 8;
  }
};

/// out[t, s, n] += the same sum for the blocks of one of E matrices, which
/// `chosen` names:
///
///   (codes[t(, s), b, j] * scales[t(, s), b]) *
///   (code(chosen[t, s], n, b, j) * scale(chosen[t, s], n, b))
///
/// The payload reads bytes of `weights` by their numbers, with tensor.extract
/// or memref.load.
struct ChosenBlockProduct {
  mlir::Value chosen;  // (T, S) i32
  mlir::Value codes;   // (T, B, 32) or (T, S, B, 32) i8
  mlir::Value scales;  // (T, B) or (T, S, B) f16
  mlir::Value weights; // (E, N, B, 34 or 18) i8
  mlir::Value out;     // (T, S, N) f32
  int64_t bits;        // of a weight: 8 or 4
  /// In the payload: the byte of a number, and the two bytes of its scale.
  mlir::Value code, low, high;

  /// Reads a linalg op on tensors or memrefs as a product of this form, whose
  /// factors may be regrouped and whose terms may be added in any order.
  static std::optional<ChosenBlockProduct> match(mlir::linalg::LinalgOp op);

  bool hasHalves() const { return bits == 4; }
  /// Whether each choice of a row has codes of its own.
  bool hasRows() const {
    return mlir::cast<mlir::ShapedType>(scales.getType()).getRank() == 3;
  }
};

} // namespace cria
