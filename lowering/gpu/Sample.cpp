/// Draws an id from a row of logits, as CriaSampling in runtime/Abi.h says and
/// `Sampler` does on the host. All sums are sums of integers, so their order
/// does not matter and the ids are the host's.
///
/// Two kernels: `sample_scores` computes scores and finds the best, a block for
/// each 1024 ids; `sample` is one block that passes over the scores a few
/// times. It finds the score of which top_k or top_p end in three: a histogram
/// over the distance to the best, the few scores of the bin where the bound is
/// crossed, and their bits one by one.
#include "lowering/Entry.h"
#include "lowering/gpu/Sampling.h"
#include "lowering/gpu/Schedules.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cfloat>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 512, kWarps = kThreads / kWarp;
/// Bins of the histogram, and how many make a distance of 1.
static constexpr int64_t kBins = 2048, kBinsPerUnit = 64;

namespace {
class SampleKernel : SamplingKernel {
public:
  SampleKernel(ImplicitLocOpBuilder &host, Block &kernels,
               const SamplingMemory &in, Value list)
      : SamplingKernel(host, kernels, "sample", kThreads, in),
        list(rows(list)) {}
  void emit();

private:
  using Measure = llvm::function_ref<Value(Value)>;

  Value weigh(Value score);
  Value blockSum(Value x);
  Value sumOf(Value first, Value end, int64_t step, Measure valueAt);
  Value total(Measure measure);
  std::pair<Value, Value> locate(int64_t count, Measure valueAt, Value left);
  Value binOf(Value score);
  Value bound(Measure measure, Value target);
  Value boundInBin(Measure measure, Value target, Value before, Value count);
  Value lowestKept();
  Value draw(Value lowest);
  /// The upper half of the product of unsigned i64.
  Value mulHigh(Value x, Value y) {
    return b.create<arith::MulUIExtendedOp>(x, y).getHigh();
  }

  Rows list; // (padded ids) f32: the scores of a bin
  Rows sums, found, histogram, counter;
  Value bestScore, scale;
};
} // namespace

/// `weigh` of runtime/Sampler.cpp, operation by operation.
Value SampleKernel::weigh(Value score) {
  auto add = [&](Value x, Value y) { return b.create<arith::AddFOp>(x, y); };
  auto sub = [&](Value x, Value y) { return b.create<arith::SubFOp>(x, y); };
  auto mul = [&](Value x, Value y) { return b.create<arith::MulFOp>(x, y); };
  Value far = b.fmax(sub(score, bestScore), b.f32(-FLT_MAX));
  Value y = b.fmax(mul(far, scale), b.f32(-(CRIA_WEIGHT_BITS + 1)));
  Value whole = sub(add(y, b.f32(0x1.8p23)), b.f32(0x1.8p23));
  Value rest = sub(y, whole), power;
  for (float term : CRIA_POWER_SERIES)
    power = power ? add(mul(power, rest), b.f32(term)) : b.f32(term);
  Value bits = b.create<arith::ExtUIOp>(
      b.getI64Type(),
      b.create<arith::FPToUIOp>(b.getI32Type(), mul(power, b.f32(0x1p24))));
  Value shift = b.create<arith::FPToUIOp>(b.getI32Type(), sub(b.f32(0), whole));
  return b.create<arith::ShRUIOp>(
      b.create<arith::ShLIOp>(bits, i64(CRIA_WEIGHT_BITS - 24)),
      b.create<arith::ExtUIOp>(b.getI64Type(), shift));
}

Value SampleKernel::blockSum(Value x) {
  b.barrier(); // `sums` may still be read
  return b.blockReduce(x, sums, [&](Value x, Value y) { return b.add(x, y); });
}

/// The thread's sum of values at first, first + step, ...
Value SampleKernel::sumOf(Value first, Value end, int64_t step,
                          Measure valueAt) {
  return b.loop(first, end, step, {i64(0)}, [&](Value i, ValueRange sum) {
    return SmallVector<Value>{b.add(sum[0], valueAt(i))};
  })[0];
}

/// The sum of `measure` over all scores.
Value SampleKernel::total(Measure measure) {
  auto valueAt = [&](Value id) {
    return measure(b.load(scores, b.i32(0), id));
  };
  return blockSum(
      sumOf(b.thread(), b.i32(in.tiles * kTile), kThreads, valueAt));
}

/// The first index of `count`, a multiple of 32 for each warp, up to which and
/// including which the values sum to more than `left`; and the sum before it.
std::pair<Value, Value> SampleKernel::locate(int64_t count, Measure valueAt,
                                             Value left) {
  int64_t span = count / kWarps;
  Value first = b.mul(b.warp(), span), end = b.add(first, span);
  Value own = sumOf(b.add(first, b.lane()), end, kWarp, valueAt);
  Value warpTotal =
      b.warpReduce(own, kWarp, [&](Value x, Value y) { return b.add(x, y); });
  b.barrier(); // `sums` may still be read
  b.when(b.equal(b.lane(), b.i32(0)),
         [&] { b.store(warpTotal, sums, b.i32(0), b.warp()); });
  b.barrier();
  Value before = i64(0);
  for (int64_t warp = 0; warp < kWarps; ++warp)
    before =
        b.add(before, b.select(b.less(b.i32(warp), b.warp()),
                               b.load(sums, b.i32(0), b.i32(warp)), i64(0)));
  auto crosses = [&](Value from, Value to) {
    return b.both(
        b.create<arith::CmpIOp>(arith::CmpIPredicate::ule, from, left),
        unsignedLess(left, to));
  };
  b.when(crosses(before, b.add(before, warpTotal)), [&] {
    b.loop(first, end, kWarp, {before}, [&](Value i, ValueRange carried) {
      Value index = b.add(i, b.lane()), value = valueAt(index);
      Value to = b.add(carried[0], b.warpScan(value));
      Value from = b.sub(to, value);
      b.when(crosses(from, to), [&] {
        b.store(b.create<arith::ExtUIOp>(b.getI64Type(), index), found,
                b.i32(0), b.i32(0));
        b.store(from, found, b.i32(0), b.i32(1));
      });
      return SmallVector<Value>{b.shuffleFrom(to, kWarp - 1)};
    });
  });
  b.barrier();
  return {b.create<arith::TruncIOp>(b.getI32Type(),
                                    b.load(found, b.i32(0), b.i32(0))),
          b.load(found, b.i32(0), b.i32(1))};
}

/// Bins count from the best score down.
Value SampleKernel::binOf(Value score) {
  Value far = b.create<arith::MulFOp>(b.create<arith::SubFOp>(bestScore, score),
                                      b.f32(kBinsPerUnit));
  Value last = b.f32(kBins - 1);
  return b.create<arith::FPToUIOp>(b.getI32Type(),
                                   b.create<arith::MinNumFOp>(far, last));
}

/// The order of the best score down to which `measure` sums to `target`, which
/// is positive and reached. Measures may be 0.
Value SampleKernel::bound(Measure measure, Value target) {
  Value zero = b.i32(0);
  b.loop(b.thread(), b.i32(kBins), kThreads,
         [&](Value bin) { b.store(i64(0), histogram, zero, bin); });
  b.when(b.equal(b.thread(), zero),
         [&] { b.store(zero, counter, zero, zero); });
  b.barrier();
  // Of all ids and the padding, those that count.
  auto each = [&](llvm::function_ref<void(Value, Value, Value)> body) {
    b.loop(b.thread(), b.i32(in.tiles * kTile), kThreads, [&](Value id) {
      Value score = b.load(scores, zero, id), value = measure(score);
      b.when(unsignedLess(i64(0), value),
             [&] { body(score, binOf(score), value); });
    });
  };
  each([&](Value, Value bin, Value value) {
    b.atomicAdd(histogram, bin, value);
  });
  b.barrier();
  auto [bin, before] = locate(
      kBins, [&](Value bin) { return b.load(histogram, zero, bin); },
      b.sub(target, i64(1)));
  each([&, bin = bin](Value score, Value other, Value) {
    b.when(b.equal(bin, other), [&] {
      b.store(score, list, zero, b.atomicAdd(counter, zero, b.i32(1)));
    });
  });
  b.barrier();
  return boundInBin(measure, target, before, b.load(counter, zero, zero));
}

/// The same over the `count` scores in the list, with `before` summed already:
/// from the highest bit down, each is set if enough is left above.
Value SampleKernel::boundInBin(Measure measure, Value target, Value before,
                               Value count) {
  Value top = b.i32(INT32_MIN); // orders as unsigned numbers
  auto order = b.loop(
      b.i32(0), b.i32(32), 1, {b.i32(0)}, [&](Value i, ValueRange carried) {
        Value bit = b.create<arith::ShRUIOp>(top, i);
        Value trial = b.create<arith::OrIOp>(carried[0], bit);
        auto valueAt = [&](Value at) {
          Value score = b.load(list, b.i32(0), at);
          Value below = unsignedLess(b.exclusiveOr(orderOf(score), top), trial);
          return b.select(below, i64(0), measure(score));
        };
        Value sum = sumOf(b.thread(), count, kThreads, valueAt);
        Value held = b.add(before, blockSum(sum));
        return SmallVector<Value>{
            b.select(unsignedLess(held, target), carried[0], trial)};
      });
  return b.exclusiveOr(order[0], top);
}

/// The order of the lowest score that top_k and top_p keep.
Value SampleKernel::lowestKept() {
  Value topK = sampling(offsetof(CriaSampling, top_k), b.getI32Type());
  Value topP = sampling(offsetof(CriaSampling, top_p), b.getI64Type());
  // No score is lower, but the padding is.
  Value lowest = ordered(bitsOf(b.f32(-FLT_MAX)));
  auto isKept = [&](Value score) {
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, orderOf(score),
                                   lowest);
  };
  Value some = b.both(b.less(b.i32(0), topK), b.less(topK, b.i32(in.vocab)));
  Value afterK = b.choose(
      some,
      [&] {
        auto one = [&](Value score) {
          return b.select(isKept(score), i64(1), i64(0));
        };
        return bound(one, b.create<arith::ExtUIOp>(b.getI64Type(), topK));
      },
      lowest);
  lowest = afterK;
  Value part = b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, topP, i64(-1));
  return b.choose(
      part,
      [&] {
        auto weight = [&](Value score) {
          return b.select(isKept(score), weigh(score), i64(0));
        };
        Value target = mulHigh(topP, total(weight));
        return bound(weight, b.max(target, i64(1)));
      },
      afterK);
}

/// The id that the random number falls on.
Value SampleKernel::draw(Value lowest) {
  Value least = sampling(offsetof(CriaSampling, min_weight), b.getI64Type());
  Value random = sampling(offsetof(CriaSampling, random), b.getI64Type());
  auto weight = [&](Value score) {
    Value value = weigh(score);
    Value low = b.create<arith::OrIOp>(b.less(orderOf(score), lowest),
                                       unsignedLess(value, least));
    return b.select(low, i64(0), value);
  };
  Value left = mulHigh(random, total(weight));
  auto weightOf = [&](Value id) {
    return weight(b.load(scores, b.i32(0), id));
  };
  return locate(in.tiles * kTile, weightOf, left).first;
}

void SampleKernel::emit() {
  Type i32 = b.getI32Type(), i64Type = b.getI64Type();
  sums = b.shared(i64Type, kWarps, 0);
  found = b.shared(i64Type, 2, 0);
  histogram = b.shared(i64Type, kBins, 0);
  counter = b.shared(i32, 1, 0);
  Value zero = b.i32(0);
  auto bests = b.loop(b.thread(), b.i32(in.tiles), kThreads, {i64(INT64_MIN)},
                      [&](Value tile, ValueRange most) {
                        return SmallVector<Value>{
                            b.max(most[0], b.load(best, zero, tile))};
                      });
  Value key = blockMax(bests[0], sums);
  Value order =
      b.create<arith::TruncIOp>(i32, b.create<arith::ShRUIOp>(key, i64(32)));
  Value bestId = b.sub(b.i32(INT32_MAX), b.create<arith::TruncIOp>(i32, key));
  Value broken = b.equal(order, b.i32(INT32_MAX));
  bestScore = b.create<arith::BitcastOp>(b.getF32Type(), ordered(order));
  scale = sampling(offsetof(CriaSampling, scale), b.getF32Type());
  Value greedy = b.create<arith::CmpIOp>(
      arith::CmpIPredicate::ne, sampling(offsetof(CriaSampling, greedy), i32),
      zero);
  Value done = b.create<arith::OrIOp>(broken, greedy);
  Value id = b.choose(
      b.equal(done, b.create<arith::ConstantIntOp>(b.getI1Type(), 0)),
      [&] { return draw(lowestKept()); }, bestId);
  b.when(b.equal(b.thread(), zero), [&] {
    Rows sampled = rows(in.sampled);
    b.store(id, sampled, zero, zero);
    b.store(b.create<arith::ExtUIOp>(i32, broken), sampled, zero, b.i32(1));
    b.store(bitsOf(b.load(rows(in.logits), zero, id)), sampled, zero, b.i32(2));
  });
  launch.finish(arith::ConstantIndexOp::create(host, 1).getResult());
}

/// The entry, without its launches, behind the others.
static func::FuncOp createEntry(ModuleOp module, MemRefType logits) {
  using Is = EntryArgument;
  auto b = ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
  auto array = [&](int64_t count, Type element) {
    return MemRefType::get({count}, element);
  };
  Type i32 = b.getI32Type();
  auto type = b.getFunctionType(
      {logits, array(llvm::divideCeil(logits.getDimSize(1), 32), i32),
       array(sizeof(CriaSampled) / sizeof(int32_t), i32),
       array(sizeof(CriaStepState), b.getI8Type())},
      {});
  auto entry = func::FuncOp::create(b, "sample", type);
  EntryArguments::set(entry, {Is::Logits, Is::Seen, Is::Sampled, Is::State});
  b.setInsertionPointToStart(entry.addEntryBlock());
  func::ReturnOp::create(b);
  return entry;
}

void simt::emitSampling(ModuleOp module, Block &kernels, func::FuncOp decode) {
  auto arguments = EntryArguments::of(decode);
  if (failed(arguments))
    return;
  auto logits = cast<ShapedType>(
      decode.getArgumentTypes()[arguments->at(EntryArgument::Logits)]);
  func::FuncOp entry = createEntry(
      module, MemRefType::get(logits.getShape(), logits.getElementType()));
  auto host =
      ImplicitLocOpBuilder::atBlockTerminator(module.getLoc(), &entry.front());
  SamplingMemory in;
  in.vocab = logits.getDimSize(1);
  in.tiles = llvm::divideCeil(in.vocab, kTile);
  auto temporary = [&](int64_t count, Type element) -> Value {
    return memref::AllocOp::create(host, MemRefType::get({count}, element));
  };
  in.logits = entry.getArgument(0);
  in.seen = entry.getArgument(1);
  in.sampled = entry.getArgument(2);
  in.state = entry.getArgument(3);
  in.scores = temporary(in.tiles * kTile, host.getF32Type());
  in.best = temporary(in.tiles, host.getI64Type());
  emitScores(host, kernels, in);
  Value list = temporary(in.tiles * kTile, host.getF32Type());
  SampleKernel(host, kernels, in, list).emit();
}
