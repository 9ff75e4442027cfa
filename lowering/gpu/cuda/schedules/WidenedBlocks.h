/// Rows of weights in blocks, whose numbers lanes widen on their way from
/// shared memory to tensor cores (BlockProduct.h, "with widened weights").
///
/// A step of a product takes two blocks of a row, 68 or 36 bytes, which begin
/// at a word. Copies have 16 bytes where rows are multiples of 16, else 8 or 4.
/// So a row of a stage begins with up to 12 bytes of the blocks before:
///
///   step     0                1                  2
///   bytes    0 .. 67, 68..79  64..67, 68 .. 135, 136 .. 143   128..135, ..
///
/// Rows lie an odd number of 16 bytes apart: words of eight rows are in all
/// banks.
///
/// A number is its code times a scale, which is exact in f32, rounded once. A
/// byte permute makes 32768 + u of a byte u, and
///
///   fma(32768 + u, scale, -(32768 + bias) * scale) = (u - bias) * scale
///
/// where no step rounds: scales have 11 bits, 32768 + bias has 9 or 13.
#pragma once

#include "lowering/gpu/build/KernelBuilder.h"

namespace cria::cuda {

class WidenedBlocks {
public:
  /// Terms of a step, and blocks.
  static constexpr int64_t kTerms = 64, kBlocks = 2;

  /// Room for `stages` stages of `rows` rows of weights, which are `rowBytes`
  /// bytes long and have numbers of `bits` bits; these are rounded to `type`.
  WidenedBlocks(simt::KernelBuilder &b, int64_t bits, int64_t rowBytes,
                int64_t rows, int64_t stages, mlir::Type type);
  /// Bytes of shared memory of a row of a stage.
  static int64_t strideOf(int64_t bits);

  /// The lanes of a warp begin to copy a step's bytes of `count` rows, to the
  /// stages' rows from `first` on. `at` gives the address of a byte of row i,
  /// and whether the row exists (null: always).
  using At = llvm::function_ref<std::pair<simt::Address, mlir::Value>(
      mlir::Value i, mlir::Value byte)>;
  void fetch(mlir::Value first, int64_t count, mlir::Value step, At at);

  /// Where the lane's bytes of the step's blocks begin in row `row` of the
  /// stages.
  struct Start {
    simt::Address scale, codes;
  };
  Start startOf(mlir::Value row, mlir::Value step);
  Start further(const Start &start, int64_t rows);
  /// The lane's numbers of a block, as pairs: what mma.m16n8k16 takes of one
  /// row for the block's first 16 terms, then for the others.
  llvm::SmallVector<mlir::Value> widen(const Start &start, int64_t block);

private:
  mlir::Value before(mlir::Value step);

  simt::KernelBuilder &b;
  int64_t bits, blockBytes;
  /// Bytes of a copy, and copies of a step's row.
  int64_t piece, pieces;
  mlir::Type type;
  simt::Rows memory;
};

} // namespace cria::cuda
