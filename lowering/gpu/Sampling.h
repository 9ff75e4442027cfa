/// What the three kernels that draw an id share. Each is a grid with a block
/// for every kTile ids; what follows from all blocks is done by the block that
/// arrives last:
///
///   sample_scores  scores, and the best of each block;
///                  last: the best of all, which is the id if that is wanted
///   sample_bins    how many scores are in a bin, and their weight. Bins are by
///                  the distance to the best score;
///                  last: the bins in which top_k and top_p end
///   sample         the weight of ids in better bins, block by block, and a
///                  list of the scores in those bins;
///                  last: the score of which top_k and top_p end, and the id
#pragma once

#include "lowering/gpu/Launch.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cstddef>

namespace cria::simt {

/// Ids of a block, and its threads; scores are padded to whole blocks.
inline constexpr int64_t kTile = 1024, kSampleThreads = 512,
                         kSampleWarps = kSampleThreads / kWarp;
/// Bins of scores, and how many a distance that is twice as large is on: so a
/// bin has few of the scores, whether they are close or far. The first has
/// distances up to 2^kLeastDistance.
inline constexpr int64_t kBins = 2048, kBinsPerOctave = 64,
                         kLeastDistance = -20;

/// What the last blocks leave for the launches after them, an i64 each.
enum class Found {
  Best,    ///< order and ~id, as in SamplingMemory::best
  Certain, ///< of scores in bins below, all are kept
  BinK,    ///< the bin in which top_k ends; kBins: none
  CountK,  ///< scores in the bins before BinK
  WeightK, ///< their weight; set where top_p counts
  EndP,    ///< top_p ends in one from Certain to before this one; Certain: none
  WeightP, ///< weight in the bins before Certain
  Count
};

/// Memory that kernels see, on the host: the entry's arguments and what is
/// between the kernels.
struct SamplingMemory {
  mlir::Value logits, seen, sampled, state;
  mlir::Value scores;          // (padded ids) f32
  mlir::Value best;            // (blocks) i64: order and ~id of the best
  mlir::Value counts, weights; // (kBins) i32, i64: of the scores in a bin
  mlir::Value kept;            // (blocks) i64: weight of the ids kept
  mlir::Value list;            // (padded ids) i64: order and id
  mlir::Value measures;        // (padded ids) i64: what counts of each in it
  mlir::Value listed;          // (1) i32: how many are in the list
  mlir::Value found;           // (Found::Count) i64
  mlir::Value arrivals;        // (1) i32: blocks; 0 between launches
  int64_t vocab, tiles;
};

/// What a kernel has of the memory, and the arithmetic that more than one
/// needs.
class SamplingKernel {
protected:
  SamplingKernel(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                 llvm::StringRef name, const SamplingMemory &in);

  using Measure = llvm::function_ref<mlir::Value(mlir::Value)>;

  /// Memory as one row.
  Rows rows(mlir::Value memory) { return launch.rows(memory, 0); }
  mlir::Value loadAt(mlir::Value memory, mlir::Value index) {
    return b.load(rows(memory), b.i32(0), index);
  }
  void storeAt(mlir::Value x, mlir::Value memory, mlir::Value index) {
    b.store(x, rows(memory), b.i32(0), index);
  }
  mlir::Value found(Found what, mlir::Type type);
  void find(Found what, mlir::Value x);

  mlir::Value i64(int64_t value) {
    return b.create<mlir::arith::ConstantIntOp>(b.getI64Type(), value);
  }
  /// An i32 that is not negative as i64, and the lower half of one.
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
  /// Scores in the order of signed integers; its own inverse, but that -0 is 0.
  mlir::Value ordered(mlir::Value bits);
  mlir::Value orderOf(mlir::Value score);
  mlir::Value scoreOf(mlir::Value order);
  /// Order or another i32 above, an i32 that is not negative below.
  mlir::Value paired(mlir::Value high, mlir::Value low);
  mlir::Value highOf(mlir::Value pair);

  /// A field of the CriaSampling, loaded where the kernel begins: after a
  /// barrier or a store it would be loaded again.
  mlir::Value sampling(size_t offset, mlir::Type type);
  /// Whether top_k, top_p leave out any id.
  mlir::Value limitsK();
  mlir::Value limitsP();
  /// Leaves the id for the host, in one store: its memory is far.
  void answer(mlir::Value id, mlir::Value broken);
  /// Reads what `sample_scores` found. Returns whether an id is drawn: whether
  /// the best is not what is wanted.
  mlir::Value readBest();
  mlir::Value weigh(mlir::Value score);
  mlir::Value binOf(mlir::Value score);
  /// The weight at which top_p of `total` is held.
  mlir::Value targetOf(mlir::Value total);

  /// The largest over the block, and the sum over the block or the warp, of a
  /// value each thread has.
  mlir::Value blockMax(mlir::Value x);
  mlir::Value blockSum(mlir::Value x);
  mlir::Value warpSum(mlir::Value x);
  /// Puts a value of each warp into `sums`.
  void shareOfWarp(mlir::Value x);
  /// The thread's sum of values at first, first + step, ...
  mlir::Value sumOf(mlir::Value first, mlir::Value end, int64_t step,
                    Measure valueAt);
  /// The block's sum of values at 0 to `end`.
  mlir::Value total(mlir::Value end, Measure valueAt);
  /// The first index of `count`, a multiple of the block's threads, up to which
  /// and including which the values sum to more than `left`; and the sum before
  /// it.
  std::pair<mlir::Value, mlir::Value> locate(int64_t count, Measure valueAt,
                                             mlir::Value left);

  /// Ends the kernel, in a grid of all blocks.
  void finish();

  mlir::ImplicitLocOpBuilder &host;
  KernelLaunch launch;
  KernelBuilder &b;
  const SamplingMemory &in;
  Rows sums;             // a value a warp
  mlir::Value bestScore; // set by readBest

private:
  Rows located;
  mlir::Value scale;                          // set by readBest
  llvm::DenseMap<size_t, mlir::Value> fields; // of the CriaSampling
};

/// Builds the kernel of that name and its launch.
void emitSampleScores(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                      const SamplingMemory &in);
void emitSampleBins(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                    const SamplingMemory &in);
void emitSample(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                const SamplingMemory &in);

} // namespace cria::simt
