/// Attention, read from linalg: two products around a softmax. Nothing here
/// knows who wrote it.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// With KVH heads of keys, G queries of each, T tokens and S keys:
///
///   scores[h, g, t, s] = sum_d query[t, h, g, d] * keys[h, s, d]
///   p = softmax over s of score(scores)
///   output[t, h, g, d] = result(sum_s p * values[h, s, d])
///
/// or, where each token has pages of its own, with keys[t, h, s, d] and values
/// alike.
///
/// `score` and `result` are elementwise. A score may be hidden: then it is the
/// lowest there is and its p zero, so that a row which sees nothing is zero.
struct Attention {
  /// (T, KVH, G, D).
  mlir::Value query;
  /// Caches (L, KVH, room, D), of which (KVH, S, D) of one layer are read, from
  /// some key on; or paged ones (pages, L, KVH, P, D).
  mlir::Value keys, values;
  /// Of paged caches, (W) i32: key s is at place s mod P of page pages[s / P].
  /// (T, W), where each token has its own. Null where caches are not paged.
  mlir::Value pages;
  /// (T) i32: where tokens have pages of their own, their positions. Keys are
  /// read up to there; a later one is the last one again.
  mlir::Value positions;
  /// What makes numbers (KVH, S, B, N), which are (KVH, S, D), of the elements
  /// of caches (L, KVH, room, ...). It reads slices of a cache for places (h,
  /// s) or (h, s, b) or all. Null where caches have the numbers themselves.
  /// Of paged caches, what it reads are gathered first.
  mlir::linalg::GenericOp widenedKeys, widenedValues;
  mlir::OpFoldResult layer, firstKey, keyCount;
  mlir::linalg::LinalgOp scores, product;
  /// What the softmax takes.
  mlir::Value softmaxInput;
  /// The elementwise op behind the product; null where there is none.
  mlir::linalg::GenericOp result;
  /// In the payload of the op that makes the softmax's input, over (h, g, t,
  /// s): the score where it counts, null if that is the product; and what
  /// decides whether it does, null if all do.
  mlir::Value shown, visible;

  /// The attention that a softmax is part of. Where it is of none, or of one of
  /// another form, `reason` says what was expected.
  static std::optional<Attention> match(mlir::linalg::SoftmaxOp softmax,
                                        llvm::StringRef &reason);

  mlir::Value output() const {
    return (result ? result : product)->getResult(0);
  }

  /// What the softmax takes at a place (h, g, t, s) where the product is
  /// `score`. It may be asked of tokens and keys that do not exist: nothing is
  /// read behind tensors. `position` is of the token, where each has its own.
  mlir::Value emitScore(mlir::OpBuilder &b, llvm::ArrayRef<mlir::Value> at,
                        mlir::Value score, mlir::Value position = {}) const;
  /// The element of the output where the product is `value`.
  mlir::Value emitResult(mlir::OpBuilder &b, mlir::Value value) const;

  /// The constant that a product is multiplied with, if nothing else is done to
  /// one that counts.
  std::optional<double> factor() const;
  /// Whether a result is the product, at most rounded.
  bool onlyRounds() const;

  /// The keys that some of the tokens from d0 up to d1 may see, counted from
  /// firstKey: from the largest of `first` and 0 on, before the least of `end`
  /// and keyCount. A symbol that is a tensor is its element of the token: there
  /// is one token then.
  struct Bounds {
    llvm::SmallVector<mlir::AffineExpr> first, end;
    llvm::SmallVector<mlir::Value> symbols;
    /// A token sees all keys between its bounds.
    bool exact = true;
  };
  Bounds keysSeen() const;
};

} // namespace cria
