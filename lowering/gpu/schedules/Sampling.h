/// The shared parts of the three kernels that draw an id from each row of
/// logits. Each kernel's grid has a block for every kTile ids, and as many for
/// each row. The block of a row that arrives last does the work that needs the
/// results of all blocks of the row:
///
///   sample_scores  scores, and the best of each block;
///                  last: the best of all, which is the id if that is wanted
///   sample_bins    how many scores are in a bin, and their weight. Bins are by
///                  the distance to the best score;
///                  last: the bins in which top_k and top_p end
///   sample         the weight of ids in better bins, block by block, and a
///                  list of the scores in those bins;
///                  last: the least score that top_k and top_p keep, and the
///                  id
#pragma once

#include "lowering/gpu/build/Launch.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cstddef>

namespace cria::simt {

/// Ids of a block, and its threads; scores are padded to whole blocks.
inline constexpr int64_t kTile = 1024, kSampleThreads = 512,
                         kSampleWarps = kSampleThreads / kWarp;
/// The number of bins of scores, and the number of bins between a distance and
/// twice that distance. So a bin has few of the scores, whether they are close
/// or far. The first bin has distances up to 2^kLeastDistance.
inline constexpr int64_t kBins = 2048, kBinsPerOctave = 64,
                         kLeastDistance = -20;

/// Where a session's random state is.
inline constexpr size_t kRandomOfStep =
    offsetof(CriaStepState, sampling) + offsetof(CriaSampling, random);

/// Results of the last blocks for the launches after them, an i64 each.
enum class Found {
  Best,    ///< order and ~id, as in SamplingMemory::best
  Certain, ///< all scores in bins before this one are kept
  BinK,    ///< the bin in which top_k ends; kBins: none
  CountK,  ///< scores in the bins before BinK
  WeightK, ///< their weight; set where top_p counts
  EndP,    ///< top_p ends in a bin from Certain to before this one; Certain:
           ///< none
  WeightP, ///< weight in the bins before Certain
  Count
};

/// Memory of the kernels, as the host sees it: the entry's arguments, and
/// memory that passes results between the kernels. All of it has a row for each
/// row of logits.
struct SamplingMemory {
  mlir::Value logits, sampled, sampling;
  mlir::Value ids, state;      // i32, of the next step; null: of a batch
  mlir::Value seen;            // i32, of all rows: Abi.h
  mlir::Value scores;          // (padded ids) f32
  mlir::Value best;            // (blocks) i64: order and ~id of the best
  mlir::Value counts, weights; // (kBins) i32, i64: of the scores in a bin
  mlir::Value kept;            // (blocks) i64: weight of the ids kept
  mlir::Value list;            // (padded ids) i64: order and id
  mlir::Value measures;        // (padded ids) i64: what counts of each in it
  mlir::Value listed;          // (1) i32: how many are in the list
  mlir::Value found;           // (Found::Count) i64
  mlir::Value arrivals;        // i32: blocks; 0 between launches
  mlir::Value count;           // index: rows that are drawn from
  int64_t rows, vocab, tiles;  // the most rows
};

/// A kernel's view of the memory, and the arithmetic that several kernels need.
class SamplingKernel {
protected:
  SamplingKernel(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                 llvm::StringRef name, const SamplingMemory &in);

  using Measure = llvm::function_ref<mlir::Value(mlir::Value)>;

  Rows rows(mlir::Value memory) {
    auto type = mlir::cast<mlir::MemRefType>(memory.getType());
    return launch.rows(memory, type.getShape().back());
  }
  /// Elements of the block's row.
  mlir::Value loadAt(mlir::Value memory, mlir::Value index) {
    return b.load(rows(memory), row(), index);
  }
  void storeAt(mlir::Value x, mlir::Value memory, mlir::Value index) {
    b.store(x, rows(memory), row(), index);
  }
  mlir::Value atomicAdd(mlir::Value memory, mlir::Value index, mlir::Value x,
                        Scope scope) {
    return b.atomicAdd(rows(memory), inRow(memory, index), x, scope);
  }
  /// Does `body` in the block of the row that arrives last.
  void whenLast(llvm::function_ref<void()> body) {
    b.whenLast(rows(in.arrivals), row(), b.i32(in.tiles), body);
  }
  mlir::Value found(Found what, mlir::Type type);
  void find(Found what, mlir::Value x);

  mlir::Value i64(int64_t value) {
    return b.create<mlir::arith::ConstantIntOp>(b.getI64Type(), value);
  }
  /// An i32 that is not negative as i64, and the lower half of an i64.
  mlir::Value wide(mlir::Value x) {
    return b.create<mlir::arith::ExtUIOp>(b.getI64Type(), x);
  }
  mlir::Value narrow(mlir::Value x) {
    return b.create<mlir::arith::TruncIOp>(b.getI32Type(), x);
  }
  mlir::Value unsignedLess(mlir::Value x, mlir::Value y) {
    return b.create<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::ult, x, y);
  }
  mlir::Value either(mlir::Value x, mlir::Value y) {
    return b.create<mlir::arith::OrIOp>(x, y);
  }
  mlir::Value negated(mlir::Value x) {
    return b.equal(x, b.create<mlir::arith::ConstantIntOp>(b.getI1Type(), 0));
  }
  /// The upper half of the product of unsigned i64.
  mlir::Value mulHigh(mlir::Value x, mlir::Value y) {
    return b.create<mlir::arith::MulUIExtendedOp>(x, y).getHigh();
  }

  mlir::Value bitsOf(mlir::Value score) {
    return b.create<mlir::arith::BitcastOp>(b.getI32Type(), score);
  }
  /// Maps scores to signed integers of the same order. It is its own inverse,
  /// except that -0 becomes 0.
  mlir::Value ordered(mlir::Value bits);
  mlir::Value orderOf(mlir::Value score);
  mlir::Value scoreOf(mlir::Value order);
  /// An i64 with an order or another i32 above, an i32 that is not negative
  /// below.
  mlir::Value paired(mlir::Value high, mlir::Value low);
  mlir::Value highOf(mlir::Value pair);

  /// A field of the CriaSampling, loaded where the kernel begins: after a
  /// barrier or a store, it would be loaded again.
  mlir::Value sampling(size_t offset, mlir::Type type);
  /// Whether top_k or top_p leaves out any id.
  mlir::Value limitsK();
  mlir::Value limitsP();
  /// A field of the CriaStepState, which `advance` changes; loaded where the
  /// kernel begins.
  mlir::Value stepField(size_t offset, mlir::Type type);
  /// Writes the id for the host, in one store: the host's memory is far; and
  /// for the next step.
  void answer(mlir::Value id, mlir::Value broken);
  /// Makes the state that of the next step, once no other block reads it. If an
  /// id was drawn at random, `random` is the generator's next state.
  void advance(mlir::Value random = nullptr);
  /// Reads the results of `sample_scores`. Returns whether an id is drawn:
  /// false if the best id is wanted.
  mlir::Value readBest();
  mlir::Value weigh(mlir::Value score);
  mlir::Value binOf(mlir::Value score);
  /// The weight at which top_p of `total` is held.
  mlir::Value targetOf(mlir::Value total);

  /// The largest value over the block, and the sum over the block or the warp,
  /// of one value of each thread.
  mlir::Value blockMax(mlir::Value x);
  mlir::Value blockSum(mlir::Value x);
  mlir::Value warpSum(mlir::Value x);
  /// Puts one value of each warp into `sums`.
  void shareOfWarp(mlir::Value x);
  /// The thread's sum of values at first, first + step, ...
  mlir::Value sumOf(mlir::Value first, mlir::Value end, int64_t step,
                    Measure valueAt);
  /// The block's sum of values at 0 to `end`.
  mlir::Value total(mlir::Value end, Measure valueAt);
  /// The first index of `count`, a multiple of the block's threads, for which
  /// the values up to and including it sum to more than `left`; and the sum
  /// before it.
  std::pair<mlir::Value, mlir::Value> locate(int64_t count, Measure valueAt,
                                             mlir::Value left);

  /// Ends the kernel, in a grid of all blocks of all rows.
  void finish();

  mlir::ImplicitLocOpBuilder &host;
  KernelLaunch launch;
  KernelBuilder &b;
  const SamplingMemory &in;
  Rows sums;             // one value for each warp
  mlir::Value bestScore; // set by readBest

private:
  /// The row that the block draws from.
  mlir::Value row() { return in.rows == 1 ? b.i32(0) : b.block(1); }
  /// The place in all of a memory's elements.
  mlir::Value inRow(mlir::Value memory, mlir::Value index) {
    return in.rows == 1 ? index
                        : b.add(b.mul(row(), rows(memory).stride), index);
  }

  Rows located;
  mlir::Value scale;                          // set by readBest
  llvm::DenseMap<size_t, mlir::Value> fields; // of the CriaSampling
  llvm::DenseMap<size_t, mlir::Value> stepFields;
};

/// Builds the kernel of this name and its launch.
void emitSampleScores(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                      const SamplingMemory &in);
void emitSampleBins(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                    const SamplingMemory &in);
void emitSample(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                const SamplingMemory &in);

} // namespace cria::simt
