/// Draws the id. The bins decide for most ids whether they are kept. Each block
/// sums the weights of the kept ids, and lists the scores of the bins that do
/// not decide. The last block finds the bounds among the list, adds the kept
/// ids of the list to the sums of the blocks, and searches the one block in
/// which the random number falls.
#include "lowering/gpu/schedules/Sampling.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cfloat>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

namespace {
class SampleKernel : SamplingKernel {
public:
  SampleKernel(ImplicitLocOpBuilder &host, Block &kernels,
               const SamplingMemory &in)
      : SamplingKernel(host, kernels, "sample", in) {}
  void emit();

private:
  Value weighKept(Value score);
  Value isInP(Value bin);
  Value isFrom(Value score, Value lowest);
  void sumAndList();
  Value listScore(Value at) { return scoreOf(highOf(loadAt(in.list, at))); }
  std::pair<Value, Value> range(Value count, Measure measure);
  /// An order as an unsigned number, and back.
  Value unsignedOf(Value order) {
    return b.exclusiveOr(order, b.i32(INT32_MIN));
  }
  Value digitOf(Value count, Value trial, Value before, Value target);
  Value bound(Measure measure, Value before, Value target);
  Value lowestKept();
  void addListed(Value lowest);
  Value nextRandom();
  Value draw(Value lowest, Value random);
  void drawId();

  Value certain, binK, endP; // as in Found
};
} // namespace

/// The weight, or 0 if it is less than min_weight.
Value SampleKernel::weighKept(Value score) {
  Value least = sampling(offsetof(CriaSampling, min_weight), b.getI64Type());
  Value weight = weigh(score);
  return b.select(unsignedLess(weight, least), i64(0), weight);
}

/// Whether top_p may end in the bin.
Value SampleKernel::isInP(Value bin) {
  return b.both(negated(b.less(bin, certain)), b.less(bin, endP));
}

Value SampleKernel::isFrom(Value score, Value lowest) {
  return negated(b.less(orderOf(score), lowest));
}

/// Computes the block's part of `kept` and of the list.
void SampleKernel::sumAndList() {
  Rows counter = b.shared(b.getI32Type(), 1, 0);
  Rows start = b.shared(b.getI32Type(), 1, 0);
  Value zero = b.i32(0), isFirst = b.equal(b.thread(), zero);
  b.when(isFirst, [&] { b.store(zero, counter, zero, zero); });
  b.barrier();
  Value first = b.add(b.mul(b.block(0), kTile), b.thread()), sum = i64(0);
  struct Listed {
    Value id, score, isListed, place;
  };
  SmallVector<Listed> listed;
  for (int64_t i = 0; i < kTile; i += kSampleThreads) {
    Value id = b.add(first, i), score = loadAt(in.scores, id);
    Value bin = binOf(score), exists = b.less(id, b.i32(in.vocab));
    Value isCertain = b.both(exists, b.less(bin, certain));
    sum = b.add(sum, b.select(isCertain, weighKept(score), i64(0)));
    Value isListed = b.both(exists, either(b.equal(bin, binK), isInP(bin)));
    Value place = b.choose(
        isListed, [&] { return b.atomicAdd(counter, zero, b.i32(1)); }, zero);
    listed.push_back({id, score, isListed, place});
  }
  Value kept = blockSum(sum); // its barriers are also the counter's
  b.when(isFirst, [&] {
    storeAt(kept, in.kept, b.block(0));
    Value count = b.load(counter, zero, zero);
    b.when(b.less(zero, count), [&] {
      Value before = atomicAdd(in.listed, zero, count, Scope::Device);
      b.store(before, start, zero, zero);
    });
  });
  b.barrier();
  for (const Listed &one : listed)
    b.when(one.isListed, [&] {
      storeAt(paired(orderOf(one.score), one.id), in.list,
              b.add(b.load(start, zero, zero), one.place));
    });
}

/// Measures the listed scores. Returns the lowest and the highest order of the
/// scores that count; there are some.
std::pair<Value, Value> SampleKernel::range(Value count, Measure measure) {
  Value least = b.i32(INT32_MIN);
  // The complements of orders have the reverse order.
  auto flipped = [&](Value x) { return b.exclusiveOr(x, b.i32(-1)); };
  auto ends =
      b.loop(b.thread(), count, kSampleThreads, {least, least},
             [&](Value at, ValueRange most) {
               Value order = highOf(loadAt(in.list, at));
               Value value = measure(scoreOf(order));
               storeAt(value, in.measures, at);
               Value counts = unsignedLess(i64(0), value);
               return SmallVector<Value>{
                   b.max(most[0], b.select(counts, flipped(order), least)),
                   b.max(most[1], b.select(counts, order, least))};
             });
  Value low = blockMax(paired(ends[0], b.i32(0)));
  Value high = blockMax(paired(ends[1], b.i32(0)));
  return {flipped(highOf(low)), highOf(high)};
}

/// The highest digit for which the listed scores from `trial` on sum to
/// `target`; each warp's `trial` has the digit of the warp's number. Digit 0
/// always does.
Value SampleKernel::digitOf(Value count, Value trial, Value before,
                            Value target) {
  Value zero = b.i32(0), lane = b.lane();
  shareOfWarp(warpSum(sumOf(lane, count, kWarp, [&](Value at) {
    Value order = unsignedOf(highOf(loadAt(in.list, at)));
    return b.select(unsignedLess(order, trial), i64(0),
                    loadAt(in.measures, at));
  })));
  // Lane n checks digit n. If it has enough, the lower digits have, too.
  Value sum = b.load(sums, zero, b.min(lane, b.i32(kSampleWarps - 1)));
  Value enough = negated(unsignedLess(b.add(before, sum), target));
  Value isDigit = b.both(b.less(zero, lane), b.less(lane, b.i32(kSampleWarps)));
  return warpSum(b.select(b.both(isDigit, enough), b.i32(1), zero));
}

/// The order of the best listed score down to which `measure` sums to `target`,
/// with `before` already summed. Measures may be 0.
///
/// Orders are read as unsigned numbers of digits. The digits are found one
/// after the other, from the first one in which scores that count differ; each
/// warp tries one value.
Value SampleKernel::bound(Measure measure, Value before, Value target) {
  constexpr int64_t digitBits = llvm::ConstantLog2<kSampleWarps>();
  Value count = loadAt(in.listed, b.i32(0));
  auto [low, high] = range(count, measure);
  Value zero = b.i32(0), word = b.i32(32), ones = b.i32(-1);
  Value same = b.create<math::CountLeadingZerosOp>(b.exclusiveOr(low, high));
  Value digits = b.ceilDiv(b.sub(word, same), digitBits);
  Value open =
      b.create<arith::ShRUIOp>(ones, b.sub(word, b.mul(digits, digitBits)));
  open = b.select(b.equal(low, high), zero, open);
  Value start = b.both(unsignedOf(high), b.exclusiveOr(open, ones));
  auto order =
      b.loop(zero, digits, 1, {start}, [&](Value i, ValueRange carried) {
        Value shift = b.mul(b.sub(b.sub(digits, b.i32(1)), i), digitBits);
        auto withDigit = [&](Value digit) {
          return either(carried[0], b.create<arith::ShLIOp>(digit, shift));
        };
        Value trial = withDigit(b.warp());
        return SmallVector<Value>{
            withDigit(digitOf(count, trial, before, target))};
      });
  return unsignedOf(order[0]);
}

/// The order of the lowest score that top_k and top_p keep.
Value SampleKernel::lowestKept() {
  Type i64Type = b.getI64Type();
  Value afterK = b.choose(
      limitsK(),
      [&] {
        auto one = [&](Value score) {
          return b.select(b.equal(binOf(score), binK), i64(1), i64(0));
        };
        Value topK = sampling(offsetof(CriaSampling, top_k), b.getI32Type());
        return bound(one, found(Found::CountK, i64Type), wide(topK));
      },
      ordered(bitsOf(b.f32(-FLT_MAX))));
  return b.choose(
      limitsP(),
      [&] {
        auto weight = [&](Value score, Value counts) {
          counts = b.both(counts, isFrom(score, afterK));
          return b.select(counts, weigh(score), i64(0));
        };
        Value ofBinK = total(loadAt(in.listed, b.i32(0)), [&](Value at) {
          Value score = listScore(at);
          return weight(score, b.equal(binOf(score), binK));
        });
        Value all = b.add(found(Found::WeightK, i64Type), ofBinK);
        auto inP = [&](Value score) {
          return weight(score, isInP(binOf(score)));
        };
        return bound(inP, found(Found::WeightP, i64Type), targetOf(all));
      },
      afterK);
}

/// Adds the kept ids of the list to the sums of their blocks.
void SampleKernel::addListed(Value lowest) {
  b.loop(b.thread(), loadAt(in.listed, b.i32(0)), kSampleThreads,
         [&](Value at) {
           Value pair = loadAt(in.list, at), order = highOf(pair);
           b.when(negated(b.less(order, lowest)), [&] {
             atomicAdd(in.kept, b.div(narrow(pair), kTile),
                       weighKept(scoreOf(order)), Scope::Block);
           });
         });
  b.barrier();
}

/// The next state of splitmix64.
Value SampleKernel::nextRandom() {
  Type i64Type = b.getI64Type();
  Value before = in.state ? stepField(kRandomOfStep, i64Type)
                          : sampling(offsetof(CriaSampling, random), i64Type);
  return b.add(before, i64(CRIA_RANDOM_STEP));
}

/// The id that the random number of a state falls on.
Value SampleKernel::draw(Value lowest, Value random) {
  static constexpr struct {
    int64_t shift;
    uint64_t factor;
  } mix[] = CRIA_RANDOM_MIX;
  for (const auto &[shift, factor] : mix) {
    Value high = b.create<arith::ShRUIOp>(random, i64(shift));
    random = b.create<arith::MulIOp>(b.exclusiveOr(random, high), i64(factor));
  }
  auto keptOf = [&](Value tile) { return loadAt(in.kept, tile); };
  Value left = mulHigh(random, total(b.i32(in.tiles), keptOf));
  auto keptOrNone = [&](Value tile) {
    Value kept = keptOf(b.min(tile, b.i32(in.tiles - 1)));
    return b.select(b.less(tile, b.i32(in.tiles)), kept, i64(0));
  };
  auto [tile, before] =
      locate(llvm::alignTo(in.tiles, kSampleThreads), keptOrNone, left);
  Value first = b.mul(tile, kTile);
  auto weightOf = [&](Value i) {
    Value score = loadAt(in.scores, b.add(first, i));
    return b.select(isFrom(score, lowest), weighKept(score), i64(0));
  };
  return b.add(first, locate(kTile, weightOf, b.sub(left, before)).first);
}

void SampleKernel::drawId() {
  Value lowest = lowestKept();
  addListed(lowest);
  Value random = nextRandom(), id = draw(lowest, random);
  Value isBroken = b.create<arith::ConstantIntOp>(b.getI1Type(), 0);
  b.when(b.equal(b.thread(), b.i32(0)), [&] {
    answer(id, isBroken);
    advance(random);
  });
}

void SampleKernel::emit() {
  b.when(readBest(), [&] {
    certain = found(Found::Certain, b.getI32Type());
    binK = found(Found::BinK, b.getI32Type());
    endP = found(Found::EndP, b.getI32Type());
    sumAndList();
    whenLast([&] { drawId(); });
  });
  finish();
}

void simt::emitSample(ImplicitLocOpBuilder &host, Block &kernels,
                      const SamplingMemory &in) {
  SampleKernel(host, kernels, in).emit();
}
