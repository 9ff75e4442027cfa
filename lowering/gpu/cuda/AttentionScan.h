/// Attention of a token at a time: cuda/AttentionScan.cpp says how it goes over
/// the keys, cuda/AttentionMerge.cpp merges what lanes, warps and splits have
/// seen.
#pragma once

#include "lowering/gpu/Attention.h"

namespace cria::simt {

class AttentionScan : AttentionKernel {
public:
  AttentionScan(KernelFunction &of, const AttentionMemory &in);
  void emit();

private:
  static constexpr int64_t kThreads = 128, kWarps = kThreads / kWarp;

  /// The running softmax of some heads: what each thread, warp or split holds.
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
  struct Part {
    mlir::Value max, sum, out;
  };

  void allocateRing();
  void allocateSplits();
  mlir::Value queryOf(int64_t head);
  std::pair<mlir::Value, mlir::Value> blockKeys();
  llvm::SmallVector<mlir::Value> queries();
  /// The lane's column of a head. Lanes beyond the head's end work on its last
  /// columns.
  mlir::Value column();
  /// The lane's part of the keys and values of a turn, as stored.
  struct Turn {
    llvm::SmallVector<mlir::Value> keys, values;
  };
  mlir::Value keyOf(mlir::Value first, int64_t number);
  Address stage(mlir::Value slot);
  void fetch(mlir::Value slot, mlir::Value first, mlir::Value endKey);
  Turn loadStage(mlir::Value slot);
  Turn loadKeys(mlir::Value first, mlir::Value last);
  State scan(mlir::Value firstKey, mlir::Value endKey);
  mlir::Value widened(mlir::Value stored);
  mlir::Value dot(mlir::Value q, mlir::Value k);
  State step(mlir::Value first, mlir::Value endKey, const Turn &turn,
             llvm::ArrayRef<mlir::Value> q, State state);

  // Merging, in AttentionMerge.cpp.
  State mergeLanes(State state);
  void mergeWarps(const State &state);
  void mergeSplits();
  void combine(State &into, size_t head, llvm::ArrayRef<Part> parts);
  /// States of single heads in memory, a row for each: maximum and sum, output.
  struct Saved {
    Rows softmax, out;
  };
  void save(const State &state, const Saved &to, mlir::Value row,
            mlir::Value column);
  State merged(const Saved &from, mlir::Value first, mlir::Value count,
               mlir::Value head, mlir::Value column);
  void finishElements(mlir::Value head, mlir::Value column, const State &state);
  /// Calls `body` with each (head, column) of the block that is a multiple of
  /// `mergeWidth`, one a thread.
  void eachElement(
      llvm::function_ref<void(mlir::Value head, mlir::Value column)> body);

  int64_t size, heads, parts, width, lanes, groups;
  /// Keys of a turn, of a group of lanes and of the block.
  int64_t batch = 1, turnKeys;
  int64_t splits = 1, leastKeys;
  /// Columns that a thread merges at once.
  int64_t mergeWidth = 4;
  /// The stages: (slot, key of the batch, key or value, piece), each with a
  /// piece of `pieceWidth` for every thread. None where lanes read caches.
  std::optional<Rows> ring;
  int64_t pieceWidth = 0, pieceBytes = 0;
  Saved partial;                                // (block, split, head)
  Rows arrivals;                                // of a block's splits
  mlir::Value firstQuery, token, split, active; // of the block
};

} // namespace cria::simt
