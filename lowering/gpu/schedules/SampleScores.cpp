/// Scores: logits, weakened if their id was seen. Each block also finds the
/// best of its own scores, and the last block finds the best of all. The kernel
/// also clears the memory that the next kernels add to.
#include "lowering/gpu/schedules/Sampling.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

namespace {
class ScoresKernel : SamplingKernel {
public:
  ScoresKernel(ImplicitLocOpBuilder &host, Block &kernels,
               const SamplingMemory &in)
      : SamplingKernel(host, kernels, "sample_scores", in) {}
  void emit();

private:
  Value penalized(Value logit, Value id);
  Value keyOf(Value score, Value id);
  void clear();
  void findBest();
};
} // namespace

/// x / penalty or x * penalty if the id was seen. The seen ids are in the
/// host's memory, and are not read if the penalty is 1.
Value ScoresKernel::penalized(Value logit, Value id) {
  Value penalty = sampling(offsetof(CriaSampling, penalty), b.getF32Type());
  Value penalizes =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, penalty, b.f32(1));
  Value word = b.choose(
      penalizes, [&] { return loadAt(in.seen, b.div(id, 32)); }, b.i32(0));
  Value bit = b.both(b.create<arith::ShRUIOp>(word, b.rem(id, 32)), b.i32(1));
  Value negative =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, logit, b.f32(0));
  Value weaker = b.select(negative, b.create<arith::MulFOp>(logit, penalty),
                          b.fdiv(logit, penalty));
  return b.select(b.equal(bit, b.i32(1)), weaker, logit);
}

/// A key that is larger for better scores; for equal scores, larger for lower
/// ids; largest for scores that are not finite.
Value ScoresKernel::keyOf(Value score, Value id) {
  Value infinity = b.i32(0x7f800000);
  Value finite = b.less(b.both(bitsOf(score), b.i32(INT32_MAX)), infinity);
  Value order = b.select(finite, orderOf(score), b.i32(INT32_MAX));
  return paired(order, b.sub(b.i32(INT32_MAX), id));
}

void ScoresKernel::clear() {
  Value first = b.add(b.mul(b.block(0), kSampleThreads), b.thread());
  b.loop(first, b.i32(kBins), in.tiles * kSampleThreads, [&](Value bin) {
    storeAt(b.i32(0), in.counts, bin);
    storeAt(i64(0), in.weights, bin);
  });
}

/// Finds the best score of all blocks. Writes its id, if no id is drawn, and
/// clears the bounds.
void ScoresKernel::findBest() {
  auto bests =
      b.loop(b.thread(), b.i32(in.tiles), kSampleThreads, {i64(INT64_MIN)},
             [&](Value tile, ValueRange most) {
               return SmallVector<Value>{b.max(most[0], loadAt(in.best, tile))};
             });
  Value best = blockMax(bests[0]);
  b.when(b.equal(b.thread(), b.i32(0)), [&] {
    Value id = b.sub(b.i32(INT32_MAX), narrow(best));
    Value broken = b.equal(highOf(best), b.i32(INT32_MAX));
    answer(id, broken);
    storeAt(b.i32(0), in.listed, b.i32(0));
    find(Found::Best, best);
    find(Found::Certain, i64(kBins));
    find(Found::BinK, i64(kBins));
    find(Found::EndP, i64(kBins));
  });
}

void ScoresKernel::emit() {
  clear();
  Value first = b.mul(b.block(0), kTile), last = i64(INT64_MIN);
  for (int64_t i = 0; i < kTile; i += kSampleThreads) {
    Value id = b.add(b.add(first, b.thread()), i);
    Value exists = b.less(id, b.i32(in.vocab));
    Value score = b.choose(
        exists, [&] { return penalized(loadAt(in.logits, id), id); },
        b.f32(-INFINITY));
    storeAt(score, in.scores, id);
    last = b.max(last, b.select(exists, keyOf(score, id), i64(INT64_MIN)));
  }
  Value best = blockMax(last);
  b.when(b.equal(b.thread(), b.i32(0)),
         [&] { storeAt(best, in.best, b.block(0)); });
  whenLast([&] { findBest(); });
  finish();
}

void simt::emitSampleScores(ImplicitLocOpBuilder &host, Block &kernels,
                            const SamplingMemory &in) {
  ScoresKernel(host, kernels, in).emit();
}
