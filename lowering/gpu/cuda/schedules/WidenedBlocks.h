/// Rows of weights in blocks, whose numbers lanes widen on their way from
/// shared memory to tensor cores (BlockProduct.h, "with widened weights").
///
/// A step of a product takes some blocks of a row, which begin at a multiple of
/// 4 or 8 bytes. Copies have 16 bytes where rows are multiples of 16, else 8 or
/// 4. So a row of a stage may begin with bytes of the blocks before, for
/// example with two blocks of 34 bytes:
///
///   step             0        1         2          3          4
///   its bytes        0..67    68..135   136..203   204..271   272..
///   bytes of a row   0..79    64..143   128..207   192..271   272..
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
///
/// A float of 8 bits becomes an f16 by moving its bits (BlockProduct.h). Its
/// product with the scale is rounded once: to f16 by a product of f16, to bf16
/// from f32.
#pragma once

#include "lowering/gpu/build/KernelBuilder.h"
#include "lowering/kernel/Elements.h"

namespace cria::cuda {

/// The floats of 8 bits in bytes 1 and 3 of a word, as two f16
/// (BlockProduct.h).
mlir::Value floatsOf(simt::KernelBuilder &b, mlir::Value word);

class WidenedBlocks {
public:
  /// `blocks` of a step, 2 or 4, of rows that are `rowBytes` bytes long and
  /// have the numbers of a product. They are rounded to `type`.
  WidenedBlocks(simt::KernelBuilder &b, const Dot &dot, int64_t rowBytes,
                int64_t blocks, mlir::Type type);
  /// Bytes of shared memory from one row of a stage to the next.
  static int64_t strideOf(int64_t bits, int64_t blocks);
  /// Says where the rows of all stages lie.
  void lieIn(const simt::Rows &rows) { memory = rows; }

  /// The first byte that is copied of a row for a step.
  mlir::Value firstByte(mlir::Value step);
  /// The lanes of a warp begin to copy a step's bytes of `count` rows, to the
  /// stages' rows from `first` on. `at` gives the address of a byte of row i,
  /// and whether the row exists (null: always).
  using At = llvm::function_ref<std::pair<simt::Address, mlir::Value>(
      mlir::Value i, mlir::Value byte)>;
  void fetch(mlir::Value first, int64_t count, mlir::Value step, At at);

  /// Where a step's first scale and the lane's first codes are.
  struct Start {
    simt::Address scale, codes;
  };
  /// Of row `row`, which begins `byte` bytes further on.
  Start startOf(mlir::Value row, mlir::Value byte, mlir::Value step);
  Start further(const Start &start, int64_t rows);
  /// Reads what both halves of a block of the row need.
  struct Block {
    simt::Address codes;
    mlir::Value scale; // f32; of floats that become f16, two of f16
    mlir::Value bias;  // times the scale; null: of floats
    mlir::Value bytes; // with the codes of both halves; null: of each
  };
  Block read(const Start &start, int64_t block);
  /// The lane's numbers of the first or the second 16 terms of a block, as two
  /// pairs: what mma.m16n8k16 takes of one row.
  llvm::SmallVector<mlir::Value> widen(const Block &block, int64_t half);

private:
  mlir::Value fourCodes(const simt::Address &codes, int64_t byte,
                        int64_t order);
  llvm::SmallVector<mlir::Value> widenFloats(const Block &block, int64_t half);
  mlir::Value before(mlir::Value step);

  simt::KernelBuilder &b;
  int64_t bits;
  bool isFloat;
  int64_t blockBytes, stepBytes;
  /// Bytes of a copy, and copies of a step's row.
  int64_t piece, pieces;
  mlir::Type type;
  simt::Rows memory;
};

} // namespace cria::cuda
