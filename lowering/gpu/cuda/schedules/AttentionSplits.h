/// Attention of a token at a time, over the cache:
///
///   block: a KV head (a part of its query heads where there are many), a
///          token, a split of the visible keys
///     each warp scans its keys once with a running maximum (online softmax),
///     and saves m, l, o
///     merge the warps in shared memory
///   with several splits: leave (m, l, o) in device memory; the block that
///   arrives last merges all splits
///
/// All query heads of a KV head are done together, so that keys and values are
/// read once. Decode needs splits to fill the machine, a prefill has tokens.
/// The grid is fixed, the keys are not: a split has at least `leastKeys`, and
/// the blocks of splits without keys end at once. A token of a batch has as
/// many splits as a decode, or fewer if the batch may be large. The number of
/// splits does not depend on the number of tokens, so a token's bits do not
/// either.
///
/// A step of one token stores the last key and the last value before its
/// attention. All other keys and values are given: they exist when the step
/// begins. So a block may begin to copy them before it waits for the previous
/// launch (OverlapLaunches.cpp).
///
/// How warps scan is left to cuda/AttentionScan.cpp and, on tensor cores,
/// cuda/AttentionScanMma.cpp.
#pragma once

#include "lowering/gpu/schedules/Attention.h"
#include "lowering/gpu/schedules/Tuning.h"

namespace cria::simt {

class AttentionSplits : protected AttentionKernel {
public:
  static constexpr int64_t kThreads = 128, kWarps = kThreads / kWarp;

  virtual ~AttentionSplits() = default;
  mlir::gpu::GPUFuncOp emit();

protected:
  /// A block does at most `heads` query heads.
  AttentionSplits(KernelFunction &of, const AttentionMemory &in,
                  const DecodeSizes &sizes, int64_t heads);
  /// A decode has up to `blocks` blocks. If its cache is deep, it has up to
  /// `deepBlocks` where each of `blocks` would have more than `keys` keys.
  struct Blocks {
    int64_t blocks, deepBlocks = 0, keys = 0;
  };
  /// Splits the keys of a decode, and makes shared memory for what warps have
  /// seen, heads `stride` numbers apart. A split has `leastKeys` at least, and
  /// a multiple of `multiple`.
  void allocate(int64_t stride, int64_t leastKeys, int64_t multiple,
                const Blocks &decode);

  /// The running softmax of some heads: what a thread, warp or split holds. The
  /// maximum is in units of log2(e), so that weights are powers of 2.
  struct State {
    llvm::SmallVector<mlir::Value> max, sum, out;

    llvm::SmallVector<mlir::Value> values() const {
      llvm::SmallVector<mlir::Value> all(max);
      llvm::append_range(all, sum);
      llvm::append_range(all, out);
      return all;
    }
    static State of(mlir::ValueRange values) {
      size_t heads = values.size() / 3;
      return {llvm::SmallVector<mlir::Value>(values.take_front(heads)),
              llvm::SmallVector<mlir::Value>(values.slice(heads, heads)),
              llvm::SmallVector<mlir::Value>(values.take_back(heads))};
    }
  };
  /// That of one head over some keys.
  struct Partial {
    mlir::Value max, sum, out;
  };
  /// States of single heads in memory, a row for each: maximum and sum, output.
  struct Saved {
    Rows softmax, out;
  };

  /// The keys to copy: all keys, the given ones, or the others.
  enum class Which { All, Given, New };
  /// Whether keys are given: a step has one token, and caches are not paged.
  bool hasGiven() const {
    return in.tokens.constant == 1 && !in.attention.pages;
  }
  /// The end of the block's given keys.
  mlir::Value endGiven(mlir::Value endKey);
  /// Begins to copy the block's first keys and values, as far as they are
  /// given.
  virtual void prefetch(mlir::Value firstKey, mlir::Value endKey) = 0;
  /// Scans the block's keys, and saves what each warp has seen in `warps`, its
  /// heads from row warp * heads on.
  virtual void scan(mlir::Value firstKey, mlir::Value endKey) = 0;
  /// Which of the KV head's queries a head of the block is. Heads past the last
  /// do its work again.
  mlir::Value queryOf(mlir::Value head);
  /// Adds to a head what the parts have seen.
  void combine(State &into, size_t head, llvm::ArrayRef<Partial> parts);

  /// The token whose pages have the keys; null if tokens share their pages.
  mlir::Value pagesOf() const {
    return in.attention.positions ? token : mlir::Value();
  }

  int64_t size, valueSize, heads;
  Saved warps;
  mlir::Value token;     // of the block
  mlir::Value firstSeen; // the first key that the token sees

private:
  int64_t mostTokens() const;
  /// The number of the block among those of its split.
  mlir::Value number();
  /// The keys of a block, [first, end). With several splits also: whether the
  /// block's split has keys, the keys of all splits, and the keys of each split
  /// but the last.
  struct BlockKeys {
    mlir::Value first, end, exists, count, each;
  };
  BlockKeys blockKeys();

  // Merging.
  void mergeWarps();
  void mergeSplits();
  State merged(const Saved &from, mlir::Value first, mlir::Value count,
               mlir::Value head, mlir::Value column);
  void finishElements(mlir::Value head, mlir::Value column, const State &state);
  /// Calls `body` with each (head, column) of the block that is a multiple of
  /// `mergeWidth`, one a thread.
  void eachElement(
      llvm::function_ref<void(mlir::Value head, mlir::Value column)> body);

  const DecodeSizes &sizes;
  int64_t parts, splits = 1, leastKeys = 1, multiple = 1;
  /// Up to `fewSplits` splits have keys until each has `deepKeys`, then up to
  /// `splits`. 0: always up to `splits`.
  int64_t fewSplits = 1, deepKeys = 0;
  /// Columns that a thread merges at once.
  int64_t mergeWidth = 4;
  Saved partial;                 // (block, split, head)
  Rows arrivals;                 // of a block's splits
  mlir::Value firstQuery, split; // of the block
  mlir::Value active;            // splits that have keys
};

} // namespace cria::simt
