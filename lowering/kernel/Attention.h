/// Attention, read from linalg: two products around a softmax. This code works
/// on linalg from any source.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// With KVH heads of keys, G queries of each, T tokens and S keys:
///
///   scores[h, g, t, s] = sum_d query[t, h, g, d] * keys[h, s, d]
///   p = softmax over s of score(scores)
///   output[t, h, g, d] = result(sum_s p * values[h, s, d])
///
/// Values may be the first numbers of rows, also of the rows of keys.
///
/// If each token has its own pages, keys and values are keys[t, h, s, d] and
/// values[t, h, s, d].
///
/// A head may have a sink: a last score, which no key made. It counts in the
/// sum of the softmax, and its own p is dropped.
///
/// `score` and `result` are elementwise. A score may be hidden: then it is -inf
/// or the lowest number, and its p is zero, so the output of a row that sees no
/// keys is zero.
struct Attention {
  /// (T, KVH, G, D).
  mlir::Value query;
  /// Caches (L, KVH, room, D). The attention reads (KVH, S, D) of one layer,
  /// from the key `firstKey` on. Or paged caches (pages, L, KVH, P, D).
  mlir::Value keys, values;
  /// Whether the caches are rings: key s is at place s mod room.
  bool areRings = false;
  /// The page numbers of paged caches, (W) i32: key s is at place s mod P of
  /// page pages[s / P]. If each token has its own pages, (T, W). Null if the
  /// caches are not paged.
  mlir::Value pages;
  /// The positions of the tokens, (T) i32, if each token has its own pages. A
  /// token reads keys up to its position; later keys are read as copies of the
  /// last one.
  mlir::Value positions;
  /// The ops that widen caches (L, KVH, room, ...) in blocks to numbers (KVH,
  /// S, B, N), which are collapsed to (KVH, S, D). The ops read slices of a
  /// cache at places (h, s) or (h, s, b), or all of it. Slices of paged caches
  /// are gathered first. Null if the caches store the numbers themselves.
  mlir::linalg::GenericOp widenedKeys, widenedValues;
  mlir::OpFoldResult layer, firstKey, keyCount;
  /// The numbers of a value, which may be fewer than a row of the cache has.
  int64_t valueSize = 0;
  mlir::linalg::LinalgOp scores, product;
  /// The input of the softmax, without the sinks.
  mlir::Value softmaxInput;
  /// The sinks, (KVH, G, T, 1); null if there are none.
  mlir::Value sinks;
  /// The elementwise op after the product; null if there is none.
  mlir::linalg::GenericOp result;
  /// Values in the payload of the op that makes the softmax's input, over (h,
  /// g, t, s). `shown` is the score of a visible key; null if the score is the
  /// product. `visible` is the condition that a key is visible; null if all
  /// keys are.
  mlir::Value shown, visible;

  /// The attention that a softmax is part of. If there is none, or it has
  /// another form, `reason` says what was expected.
  static std::optional<Attention> match(mlir::linalg::SoftmaxOp softmax,
                                        llvm::StringRef &reason);

  mlir::Value output() const {
    return (result ? result : product)->getResult(0);
  }

  /// The softmax's input at a place (h, g, t, s), where the product is `score`.
  /// The place may have tokens or keys that do not exist: nothing is read
  /// outside of tensors. `position` is the token's position, if each token has
  /// its own.
  mlir::Value emitScore(mlir::OpBuilder &b, llvm::ArrayRef<mlir::Value> at,
                        mlir::Value score, mlir::Value position = {}) const;
  /// The sink of a head at a place (h, g).
  mlir::Value emitSink(mlir::OpBuilder &b, mlir::Value head,
                       mlir::Value query) const;
  /// The element of the output where the product is `value`.
  mlir::Value emitResult(mlir::OpBuilder &b, mlir::Value value) const;

  /// The constant with which a visible product is multiplied; nothing if
  /// another op changes the product.
  std::optional<double> factor() const;
  /// Whether the output is the product, or the product rounded.
  bool onlyRounds() const;

  /// Bounds of the keys that at least one token of [d0, d1) may see. Keys are
  /// counted from `firstKey`. The first key is the maximum of `first` and 0.
  /// The end is the minimum of `end` and `keyCount`. If a symbol is a tensor,
  /// it stands for the tensor's element for the token; then there is only one
  /// token.
  struct Bounds {
    llvm::SmallVector<mlir::AffineExpr> first, end;
    llvm::SmallVector<mlir::Value> symbols;
    /// A token sees all keys between its bounds.
    bool exact = true;
  };
  Bounds keysSeen() const;
};

} // namespace cria
