/// Counts and weighs the scores of each bin. These give the bin in which top_k
/// ends, and nearly the bin in which top_p ends: top_p is a share of the weight
/// that top_k keeps, but which scores of top_k's last bin are kept is not known
/// yet. So two bins are found for top_p: one if none of these scores are kept,
/// one if all are.
#include "lowering/gpu/schedules/Sampling.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

namespace {
class BinsKernel : SamplingKernel {
public:
  BinsKernel(ImplicitLocOpBuilder &host, Block &kernels,
             const SamplingMemory &in)
      : SamplingKernel(host, kernels, "sample_bins", in) {}
  void emit();

private:
  void count();
  void findBins();
  void findBinsOfP(Value binK);

  Value isK, isP;
};
} // namespace

void BinsKernel::count() {
  Value first = b.add(b.mul(b.block(0), kTile), b.thread());
  SmallVector<Value> ids, scores;
  for (int64_t i = 0; i < kTile; i += kSampleThreads) {
    ids.push_back(b.add(first, i));
    scores.push_back(loadAt(in.scores, ids.back()));
  }
  for (auto [id, score] : llvm::zip(ids, scores))
    b.when(b.less(id, b.i32(in.vocab)), [&, score = score] {
      Value bin = binOf(score);
      b.when(isK, [&] { atomicAdd(in.counts, bin, b.i32(1), Scope::Device); });
      b.when(isP,
             [&] { atomicAdd(in.weights, bin, weigh(score), Scope::Device); });
    });
}

/// Finds the bins of top_p, given the bin in which top_k ends.
void BinsKernel::findBinsOfP(Value binK) {
  auto weightOf = [&](Value bin) { return loadAt(in.weights, bin); };
  Value before = total(b.i32(kBins), [&](Value bin) {
    return b.select(b.less(bin, binK), weightOf(bin), i64(0));
  });
  Value last = b.min(binK, b.i32(kBins - 1));
  Value all = b.add(
      before, b.select(b.less(binK, b.i32(kBins)), weightOf(last), i64(0)));
  auto locateTarget = [&](Value total) {
    return locate(kBins, weightOf, b.sub(targetOf(total), i64(1)));
  };
  auto [lastP, unused] = locateTarget(all);
  auto [firstP, weightP] = locateTarget(before);
  b.when(b.equal(b.thread(), b.i32(0)),
         [&, lastP = lastP, firstP = firstP, weightP = weightP] {
           find(Found::WeightK, before);
           find(Found::Certain, firstP);
           find(Found::EndP, b.add(lastP, 1));
           find(Found::WeightP, weightP);
         });
}

void BinsKernel::findBins() {
  Value topK = sampling(offsetof(CriaSampling, top_k), b.getI32Type());
  auto countOf = [&](Value bin) { return wide(loadAt(in.counts, bin)); };
  Value binK = b.choose(
      isK,
      [&] {
        auto [bin, before] = locate(kBins, countOf, b.sub(wide(topK), i64(1)));
        b.when(b.equal(b.thread(), b.i32(0)), [&, bin = bin, before = before] {
          find(Found::BinK, bin);
          find(Found::CountK, before);
          find(Found::Certain, bin);
          find(Found::EndP, bin);
        });
        return bin;
      },
      b.i32(kBins));
  b.when(isP, [&] { findBinsOfP(binK); });
}

void BinsKernel::emit() {
  Value draws = readBest();
  isK = limitsK();
  isP = limitsP();
  b.when(b.both(draws, either(isK, isP)), [&] {
    count();
    whenLast([&] { findBins(); });
  });
  finish();
}

void simt::emitSampleBins(ImplicitLocOpBuilder &host, Block &kernels,
                          const SamplingMemory &in) {
  BinsKernel(host, kernels, in).emit();
}
