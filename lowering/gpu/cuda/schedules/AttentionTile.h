/// What the schedules of attention of many tokens on tensor cores share. All
/// have a running maximum:
///
///   block: query rows of one KV head; a row is a token and one of the query
///          heads that share the KV head, so that keys and values are read once
///          for all of them
///   for tiles of keys that a row of the block may see:
///     s = q k^T;  mask, where a row does not see the whole tile
///     m, l, o rescaled;  p = exp2(s - m);  o += p v
///
/// The last tokens, which may see the most keys, come first.
///
/// A warp has 16 rows. Its lanes hold s and o in the layout kWgmmaSums, so each
/// has elements of rows g and g + 8. A lane's elements of s are the ones that
/// it must supply for p v as left operand, so no shuffle is needed.
#pragma once

#include "lowering/gpu/schedules/Attention.h"

#include <array>

namespace cria::simt {

class AttentionTile : protected AttentionKernel {
protected:
  /// A block has `blockRows` rows: tokens, and `together` query heads of each.
  /// `across` warps share 16 rows, and each has a part of the outputs' columns.
  AttentionTile(KernelFunction &of, const AttentionMemory &in,
                const llvm::Twine &suffix, int64_t threads, int64_t blockRows,
                int64_t together, int64_t across = 1);

  /// A query head of a token, the last where there are no more: a row of the
  /// block.
  struct Row {
    mlir::Value token, query, exists;
  };
  Row rowOf(mlir::Value index);
  /// A row that the lane has sums of: g, or g + 8.
  Row ownRow(mlir::Value start, int64_t half);
  /// The columns of an output that a warp has.
  int64_t columns() const { return in.valueSize / across; }
  /// The block's KV head, its first row, and the keys that any of them sees.
  void findBlock();
  /// The lane's rows, and the keys that they see.
  void findRows();
  /// What the softmax takes for the products of the tile of keys from `first`
  /// on, but for a factor that `unit` has. For every 8 keys a lane has four.
  llvm::SmallVector<mlir::Value> scores(llvm::ArrayRef<mlir::Value> products,
                                        mlir::Value first);
  /// Turns s into p. `max` and `sums` are the two rows' maxima, and the lane's
  /// part of their sums. Returns what the rows' outputs shrink by.
  std::array<mlir::Value, 2> softmax(llvm::MutableArrayRef<mlir::Value> s,
                                     llvm::MutableArrayRef<mlir::Value> max,
                                     llvm::MutableArrayRef<mlir::Value> sums);
  void shrink(llvm::MutableArrayRef<mlir::Value> out,
              const std::array<mlir::Value, 2> &by);
  /// Pairs of p, rounded to the storage type, as i32.
  llvm::SmallVector<mlir::Value> rounded(llvm::ArrayRef<mlir::Value> p);
  void store(llvm::ArrayRef<mlir::Value> max, llvm::ArrayRef<mlir::Value> sums,
             llvm::ArrayRef<mlir::Value> out);
  /// Ends the kernel. The launch gives it `sharedBytes` bytes of dynamic shared
  /// memory.
  mlir::gpu::GPUFuncOp finish(int64_t sharedBytes = 0);

  mlir::Type element;
  int64_t size, blockRows, together, across;
  mlir::Value start, tokens, firstKey, endKey;

private:
  /// A row that the lane has sums of, and the keys it sees.
  struct OwnRow : Row {
    mlir::Value first, end;
  };
  int64_t parts() const { return in.group / together; }
  llvm::SmallVector<mlir::Value> scores(llvm::ArrayRef<mlir::Value> products,
                                        mlir::Value first, bool masked);

  double unit; // p is 2^(unit (s - m))
  mlir::Value firstQuery;
  llvm::SmallVector<OwnRow> rows; // g and g + 8
};

} // namespace cria::simt
