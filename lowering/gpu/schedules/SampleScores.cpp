/// Scores: logits, weakened by the penalties. Each block also finds the
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
      : SamplingKernel(host, kernels, "sample_scores", in),
        drawn(b.shared(b.getI32Type(), kTile, 0)) {}
  void emit();

private:
  Value loadSeen(Value index);
  void readSeen();
  Value penalized(Value logit, Value local);
  Value keyOf(Value score, Value id);
  void clear();
  void findBest();

  Rows drawn; // how often each id of the block was drawn; -1: not seen
};
} // namespace

Value ScoresKernel::loadSeen(Value index) {
  return b.load(rows(in.seen), b.i32(0), index);
}

/// Spreads the block's part of the seen ids, which are in the host's memory.
void ScoresKernel::readSeen() {
  auto eachOf = [&](Value begin, Value end, llvm::function_ref<void(Value)> f) {
    b.loop(b.add(begin, b.thread()), end, kSampleThreads, f);
  };
  Value table = sampling(offsetof(CriaSampling, seen), b.getI32Type());
  b.when(b.less(b.i32(0), table), [&] {
    eachOf(b.i32(0), b.i32(kTile),
           [&](Value i) { b.store(b.i32(-1), drawn, b.i32(0), i); });
    b.barrier();
    Value bound = b.add(table, b.block(0));
    Value begin = loadSeen(bound), end = loadSeen(b.add(bound, 1));
    Value first = b.add(table, in.tiles + 1);
    eachOf(begin, end, [&](Value i) {
      Value place = b.add(first, b.mul(i, 2));
      b.store(loadSeen(b.add(place, 1)), drawn, b.i32(0),
              b.rem(loadSeen(place), kTile));
    });
    b.barrier();
  });
}

/// The score of the block's id `local`.
Value ScoresKernel::penalized(Value logit, Value local) {
  auto field = [&](size_t offset) { return sampling(offset, b.getF32Type()); };
  auto mul = [&](Value x, Value y) { return b.create<arith::MulFOp>(x, y); };
  auto sub = [&](Value x, Value y) { return b.create<arith::SubFOp>(x, y); };
  Value table = sampling(offsetof(CriaSampling, seen), b.getI32Type());
  Value times = b.choose(
      b.less(b.i32(0), table), [&] { return b.load(drawn, b.i32(0), local); },
      b.i32(-1));
  Value penalty = field(offsetof(CriaSampling, penalty));
  Value negative =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, logit, b.f32(0));
  Value weaker =
      b.select(negative, mul(logit, penalty), b.fdiv(logit, penalty));
  Value frequent = mul(b.create<arith::SIToFPOp>(b.getF32Type(), times),
                       field(offsetof(CriaSampling, frequency)));
  Value lower =
      sub(sub(weaker, frequent), field(offsetof(CriaSampling, presence)));
  return b.choose(
      b.less(b.i32(-1), times),
      [&] { return b.select(b.less(b.i32(0), times), lower, weaker); }, logit);
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

/// Finds the best score of all blocks. Writes its id, which ends the step if no
/// id is drawn, and clears the bounds.
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
    Value greedy = sampling(offsetof(CriaSampling, greedy), b.getI32Type());
    b.when(either(broken, negated(b.equal(greedy, b.i32(0)))),
           [&] { advance(); });
    storeAt(b.i32(0), in.listed, b.i32(0));
    find(Found::Best, best);
    find(Found::Certain, i64(kBins));
    find(Found::BinK, i64(kBins));
    find(Found::EndP, i64(kBins));
  });
}

void ScoresKernel::emit() {
  static_assert(kTile == CRIA_SEEN_TILE);
  clear();
  readSeen();
  Value first = b.mul(b.block(0), kTile), last = i64(INT64_MIN);
  for (int64_t i = 0; i < kTile; i += kSampleThreads) {
    Value local = b.add(b.thread(), i), id = b.add(first, local);
    Value exists = b.less(id, b.i32(in.vocab));
    Value score = b.choose(
        exists, [&] { return penalized(loadAt(in.logits, id), local); },
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
