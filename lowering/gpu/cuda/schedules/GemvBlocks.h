/// Products of few rows with matrices in blocks (BlockProduct.h): a lane takes
/// pieces of 16 bytes of a row as it lies in memory, wherever blocks begin in
/// them.
///
///   row of weights   s s w w w w ...  w w s s w w ...     a block has 34 or 18
///   row of the input 0 0 x x x x ...  x x 0 0 x x ...     bytes, 2 its scale
///
/// The input lies in shared memory at the places where it meets weights, zeros
/// where those have scales. Blocks begin at even bytes: of a word, only one
/// block has numbers. So a piece is words of block `a`, maybe followed by words
/// of the next one, `b`.
///
/// Weights come through the ring of GemvRing.h. A stage also has the bytes
/// before its turn that the scale of its first block may be in. Rows that do
/// not begin at words, or leave no room, are read where they lie.
#pragma once

#include "lowering/gpu/cuda/schedules/GemvRing.h"
#include "lowering/gpu/schedules/Choose.h"

namespace cria::simt {

class BlockGemv : public RingGemv {
protected:
  BlockGemv(Launch &launch, const GemvProblem &problem, const GemvSizes &sizes);
  void makeBlockRing(const GemvSizes &sizes, int64_t left);

  /// A piece of a row of weights, as words, and the scales of its blocks.
  struct Piece {
    llvm::SmallVector<mlir::Value> words;
    mlir::Value scaleA, scaleB;
  };
  /// What pieces at one column have in common: their blocks, and for each word
  /// after the first whether it belongs to b.
  struct Column {
    mlir::Value at, a, b;
    llvm::SmallVector<mlir::Value> isB;
  };
  Column columnOf(mlir::Value column);
  llvm::SmallVector<mlir::Value> words(mlir::Value bytes);
  Piece load(const RowAddress &from, const Column &column);

  /// Computes the input into shared memory.
  virtual void compute() = 0;
  void prepare() override;
  mlir::Value zero() override { return b.f32(0); }

  /// Bytes of a word.
  static constexpr int64_t kWord = 4;
  /// Shared memory of a block, but for what statistics need.
  static constexpr int64_t kShared = 47 << 10;

  const Part &given;
  const Statistics &statistics;
  /// Bytes of a block, and of a piece.
  int64_t bytes, piece;
};

} // namespace cria::simt
