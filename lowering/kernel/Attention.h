/// Attention, read from linalg: two products around a softmax. Nothing here
/// knows who wrote it.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <array>
#include <functional>

namespace cria {

/// With KVH heads of keys, G queries of each, T tokens and S keys:
///
///   scores[h, g, t, s] = sum_d query[t, h, g, d] * keys[h, s, d]
///   p = softmax over s of score(scores)
///   output[t, h, g, d] = result(sum_s p * values[h, s, d])
///
/// `score` and `result` are elementwise. A score may be hidden: then it is the
/// lowest there is and its p zero, so that a row which sees nothing is zero.
struct Attention {
  /// (T, KVH, G, D).
  mlir::Value query;
  /// Caches (L, KVH, room, D), of which (KVH, S, D) of one layer are read, from
  /// some key on.
  mlir::Value keys, values;
  mlir::OpFoldResult layer, firstKey, keyCount;
  mlir::linalg::LinalgOp scores, product;
  /// What the softmax takes.
  mlir::Value softmaxInput;
  /// The elementwise op behind the product; null where there is none.
  mlir::linalg::GenericOp result;
  /// What decides whether a score counts, in the payload of the op that makes
  /// the softmax's input, over (h, g, t, s); null if all do.
  mlir::Value visible;

  /// The attention that a softmax is part of. Where it is of none, or of one of
  /// another form, `reason` says what was expected.
  static std::optional<Attention> match(mlir::linalg::SoftmaxOp softmax,
                                        llvm::StringRef &reason);

  mlir::Value output() const {
    return (result ? result : product)->getResult(0);
  }

  /// A place (h, g, t, s); each index is made when it is read.
  using Place = std::array<std::function<mlir::Value()>, 4>;
  /// What the softmax takes at a place where the product is `score`. It may be
  /// asked of tokens and keys that do not exist: nothing is read behind
  /// tensors.
  mlir::Value emitScore(mlir::OpBuilder &b, const Place &at,
                        mlir::Value score) const;
  /// The element of the output where the product is `value`.
  mlir::Value emitResult(mlir::OpBuilder &b, mlir::Value value) const;

  /// All keys [first, end) that a token of [firstToken, endToken) may see,
  /// counted from firstKey, as far as it can be told: none, where end is not
  /// behind first.
  std::pair<mlir::Value, mlir::Value> keysSeen(mlir::ImplicitLocOpBuilder &b,
                                               mlir::Value firstToken,
                                               mlir::Value endToken) const;
};

} // namespace cria
