/// What the ops of states share: where a state lies, and its parts.
#pragma once

#include "lowering/kernel/LinalgBuilder.h"

namespace cria {

/// Arithmetic of places and comparisons, short enough to read as formulas.
struct Places {
  LinalgBuilder &b;

  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, b.getLoc(), x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubIOp::create(b, b.getLoc(), x, y);
  }
  mlir::Value mul(mlir::Value x, int64_t y) {
    return mlir::arith::MulIOp::create(b, b.getLoc(), x, b.index(y));
  }
  mlir::Value div(mlir::Value x, int64_t y) {
    return mlir::arith::DivUIOp::create(b, b.getLoc(), x, b.index(y));
  }
  mlir::Value rem(mlir::Value x, int64_t y) {
    return mlir::arith::RemUIOp::create(b, b.getLoc(), x, b.index(y));
  }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, b.getLoc(),
                                       mlir::arith::CmpIPredicate::ult, x, y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, b.getLoc(), condition, x, y);
  }
  mlir::Value loop(int64_t dim) {
    return mlir::linalg::IndexOp::create(b, b.getLoc(),
                                         static_cast<uint64_t>(dim));
  }
  /// An element in f32.
  mlir::Value element(mlir::Value tensor, mlir::ValueRange at) {
    return b.widen(mlir::tensor::ExtractOp::create(b, b.getLoc(), tensor, at));
  }
};

/// The layer of a state that tokens read and write.
struct StateLayer {
  LinalgBuilder &b;
  mlir::Value states; // the numbers of states; null if there is one state
  mlir::Value layer, position;

  /// Whether each token has a position and states.
  bool isOfTokens() const {
    return states && tensorType(states).getRank() == 2;
  }
  mlir::Value positionOf(mlir::Value token) const {
    return isOfTokens() ? element(position, {token}) : position;
  }
  /// What a token reads, or writes: the coordinates in front of the row.
  llvm::SmallVector<mlir::Value> read(mlir::Value token = {}) const {
    return place(token, 0);
  }
  llvm::SmallVector<mlir::Value> written(mlir::Value token = {}) const {
    return place(token, 1);
  }

private:
  mlir::Value element(mlir::Value numbers, mlir::ValueRange at) const {
    mlir::Value number =
        mlir::tensor::ExtractOp::create(b, b.getLoc(), numbers, at);
    return mlir::arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(),
                                            number);
  }
  llvm::SmallVector<mlir::Value> place(mlir::Value token, int64_t which) const {
    if (!states)
      return {layer};
    llvm::SmallVector<mlir::Value> at = {b.index(which)};
    if (isOfTokens())
      at.insert(at.begin(), token);
    return {element(states, at), layer};
  }
};

/// Some rows and columns of a state, from `first` on: a matrix.
mlir::Value partOf(LinalgBuilder &b, mlir::Value state,
                   llvm::ArrayRef<mlir::Value> place,
                   llvm::ArrayRef<mlir::OpFoldResult> first,
                   llvm::ArrayRef<int64_t> shape);

/// The state with another matrix there.
mlir::Value withPart(LinalgBuilder &b, mlir::Value state,
                     llvm::ArrayRef<mlir::Value> place,
                     llvm::ArrayRef<mlir::OpFoldResult> first,
                     mlir::Value part);

/// A matrix in memory of its own. Bufferization would give a tensor.empty that
/// becomes a part of a state the memory of this part, which may still be read.
mlir::Value ownMatrix(LinalgBuilder &b, int64_t rows, int64_t columns,
                      mlir::Type element);

/// What an iteration updates of a tensor: a slice of `whole`.
struct Updated {
  mlir::Value whole;
  llvm::SmallVector<mlir::OpFoldResult> offsets, sizes;
  mlir::RankedTensorType type =
      {}; ///< of the slice; null: of the tensor's rank
};

/// Tensors after iterations that each update a slice of their own. A single
/// iteration is no loop, and updates the whole: its slice would be put into the
/// tensor as it was before, which bufferization then had to copy. A tensor that
/// is new gets its memory here, for its loop over tokens to write to.
llvm::SmallVector<mlir::Value> inParallel(
    LinalgBuilder &b, llvm::ArrayRef<int64_t> counts, mlir::ValueRange tensors,
    llvm::function_ref<llvm::SmallVector<Updated>(mlir::ValueRange at,
                                                  mlir::ValueRange tensors)>
        body);

/// The columns of an iteration, at most `most`.
inline int64_t columnsOf(int64_t all, int64_t most) {
  return all % most ? all : most;
}

} // namespace cria
