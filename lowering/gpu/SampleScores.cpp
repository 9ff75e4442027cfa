/// Scores: logits, weakened where their id was seen. A block for each 1024 ids
/// also finds the best of them.
#include "lowering/gpu/Sampling.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

namespace {
class ScoresKernel : SamplingKernel {
public:
  ScoresKernel(ImplicitLocOpBuilder &host, Block &kernels,
               const SamplingMemory &in)
      : SamplingKernel(host, kernels, "sample_scores", kScoreThreads, in) {}
  void emit();

private:
  Value scoreOf(Value logit, Value id);
  Value keyOf(Value score, Value id);
};
} // namespace

/// x / penalty or x * penalty where the id was seen.
Value ScoresKernel::scoreOf(Value logit, Value id) {
  Value penalty = sampling(offsetof(CriaSampling, penalty), b.getF32Type());
  Value word = b.load(rows(in.seen), b.i32(0), b.div(id, 32));
  Value bit = b.both(b.create<arith::ShRUIOp>(word, b.rem(id, 32)), b.i32(1));
  Value negative =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, logit, b.f32(0));
  Value weaker = b.select(negative, b.create<arith::MulFOp>(logit, penalty),
                          b.fdiv(logit, penalty));
  return b.select(b.equal(bit, b.i32(1)), weaker, logit);
}

/// Larger for better scores, of equal ones for lower ids; largest for those
/// that are not finite.
Value ScoresKernel::keyOf(Value score, Value id) {
  Value infinity = b.i32(0x7f800000);
  Value finite = b.less(b.both(bitsOf(score), b.i32(INT32_MAX)), infinity);
  Value order = b.select(finite, orderOf(score), b.i32(INT32_MAX));
  Value high = b.create<arith::ShLIOp>(
      b.create<arith::ExtSIOp>(b.getI64Type(), order), i64(32));
  return b.create<arith::OrIOp>(
      high,
      b.create<arith::ExtUIOp>(b.getI64Type(), b.sub(b.i32(INT32_MAX), id)));
}

void ScoresKernel::emit() {
  Rows logits = rows(in.logits);
  Value first = b.mul(b.block(0), kTile), last = i64(INT64_MIN);
  for (int64_t i = 0; i < kTile; i += kScoreThreads) {
    Value id = b.add(b.add(first, b.thread()), i);
    Value exists = b.less(id, b.i32(in.vocab));
    Value score = b.choose(
        exists, [&] { return scoreOf(b.load(logits, b.i32(0), id), id); },
        b.f32(-INFINITY));
    b.store(score, scores, b.i32(0), id);
    last = b.max(last, b.select(exists, keyOf(score, id), i64(INT64_MIN)));
  }
  Rows scratch = b.shared(b.getI64Type(), kScoreThreads / kWarp, 0);
  Value best = blockMax(last, scratch);
  b.when(b.equal(b.thread(), b.i32(0)),
         [&] { b.store(best, this->best, b.i32(0), b.block(0)); });
  launch.finish(arith::ConstantIndexOp::create(host, in.tiles).getResult());
}

void simt::emitScores(ImplicitLocOpBuilder &host, Block &kernels,
                      const SamplingMemory &in) {
  ScoresKernel(host, kernels, in).emit();
}
