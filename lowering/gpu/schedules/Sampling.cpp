/// The entry `sample`, and the arithmetic of its kernels. All sums are sums of
/// integers, so their order does not matter and the ids are those that
/// `Sampler` draws on the host.
#include "lowering/gpu/schedules/Sampling.h"
#include "lowering/entry/Entry.h"
#include "lowering/gpu/schedules/Schedules.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cfloat>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

SamplingKernel::SamplingKernel(ImplicitLocOpBuilder &host, Block &kernels,
                               StringRef name, const SamplingMemory &in)
    : host(host), launch(host, kernels, name, kSampleThreads), b(launch.b),
      in(in), sums(b.shared(b.getI64Type(), kSampleWarps, 0)) {}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value SamplingKernel::found(Found what, Type type) {
  Value x = loadAt(in.found, b.i32(static_cast<int64_t>(what)));
  return type == b.getI64Type() ? x : narrow(x);
}

void SamplingKernel::find(Found what, Value x) {
  storeAt(x.getType() == b.getI64Type() ? x : wide(x), in.found,
          b.i32(static_cast<int64_t>(what)));
}

Value SamplingKernel::ordered(Value bits) {
  Value sign = b.create<arith::ShRSIOp>(bits, b.i32(31));
  return b.exclusiveOr(bits, b.both(sign, b.i32(INT32_MAX)));
}

Value SamplingKernel::orderOf(Value score) {
  return ordered(bitsOf(b.create<arith::AddFOp>(score, b.f32(0))));
}

Value SamplingKernel::scoreOf(Value order) {
  return b.create<arith::BitcastOp>(b.getF32Type(), ordered(order));
}

Value SamplingKernel::paired(Value high, Value low) {
  Value upper = b.create<arith::ShLIOp>(
      b.create<arith::ExtSIOp>(b.getI64Type(), high), i64(32));
  return b.create<arith::OrIOp>(upper, wide(low));
}

Value SamplingKernel::highOf(Value pair) {
  return narrow(b.create<arith::ShRUIOp>(pair, i64(32)));
}

Value SamplingKernel::sampling(size_t offset, Type type) {
  Value &field = fields[offset];
  if (field)
    return field;
  OpBuilder::InsertionGuard guard(b);
  Value bytes = launch.param(in.sampling);
  b.setInsertionPointAfterValue(bytes);
  field = b.loadField(bytes, inRow(in.sampling, b.i32(offset)), type);
  return field;
}

Value SamplingKernel::stepField(size_t offset, Type type) {
  Value &field = stepFields[offset];
  if (field)
    return field;
  OpBuilder::InsertionGuard guard(b);
  Rows state = rows(in.state);
  b.setInsertionPointAfterValue(state.base);
  Value zero = b.i32(0), word = b.i32(offset / sizeof(int32_t));
  int64_t words = type.getIntOrFloatBitWidth() / 32;
  field = b.load(state, zero, word, words);
  if (words > 1)
    field = b.bitcast(type, field);
  return field;
}

void SamplingKernel::answer(Value id, Value broken) {
  Value zero = b.i32(0), logit = bitsOf(loadAt(in.logits, id));
  Value all = b.pack(
      {id, b.create<arith::ExtUIOp>(b.getI32Type(), broken), logit, zero});
  if (!in.state)
    return storeAt(all, in.sampled, zero);
  Value position = stepField(offsetof(CriaStepState, position), b.getI32Type());
  b.store(all, rows(in.sampled), b.both(position, b.i32(1)), zero);
  b.store(id, rows(in.ids), zero, zero);
}

void SamplingKernel::advance(Value random) {
  if (!in.state)
    return;
  auto set = [&](size_t offset, Value x) {
    b.store(x, rows(in.state), b.i32(0), b.i32(offset / sizeof(int32_t)));
  };
  constexpr size_t at = offsetof(CriaStepState, position);
  set(at, b.add(stepField(at, b.getI32Type()), 1));
  if (random)
    set(kRandomOfStep, b.bitcast(VectorType::get({2}, b.getI32Type()), random));
}

Value SamplingKernel::limitsK() {
  Value topK = sampling(offsetof(CriaSampling, top_k), b.getI32Type());
  return b.both(b.less(b.i32(0), topK), b.less(topK, b.i32(in.vocab)));
}

Value SamplingKernel::limitsP() {
  return b.create<arith::CmpIOp>(
      arith::CmpIPredicate::ne,
      sampling(offsetof(CriaSampling, top_p), b.getI64Type()), i64(-1));
}

Value SamplingKernel::readBest() {
  Value order = highOf(found(Found::Best, b.getI64Type()));
  bestScore = scoreOf(order);
  scale = sampling(offsetof(CriaSampling, scale), b.getF32Type());
  Value greedy = sampling(offsetof(CriaSampling, greedy), b.getI32Type());
  return b.both(b.equal(greedy, b.i32(0)), b.less(order, b.i32(INT32_MAX)));
}

/// `weigh` of runtime/device/Sampler.cpp, operation by operation.
Value SamplingKernel::weigh(Value score) {
  auto add = [&](Value x, Value y) { return b.create<arith::AddFOp>(x, y); };
  auto sub = [&](Value x, Value y) { return b.create<arith::SubFOp>(x, y); };
  auto mul = [&](Value x, Value y) { return b.create<arith::MulFOp>(x, y); };
  Value far = b.fmax(sub(score, bestScore), b.f32(-FLT_MAX));
  Value y = b.fmax(mul(far, scale), b.f32(-(CRIA_WEIGHT_BITS + 1)));
  Value whole = sub(add(y, b.f32(0x1.8p23)), b.f32(0x1.8p23));
  Value rest = sub(y, whole), power;
  for (float term : CRIA_POWER_SERIES)
    power = power ? add(mul(power, rest), b.f32(term)) : b.f32(term);
  Value bits = wide(
      b.create<arith::FPToUIOp>(b.getI32Type(), mul(power, b.f32(0x1p24))));
  Value shift = b.create<arith::FPToUIOp>(b.getI32Type(), sub(b.f32(0), whole));
  return b.create<arith::ShRUIOp>(
      b.create<arith::ShLIOp>(bits, i64(CRIA_WEIGHT_BITS - 24)), wide(shift));
}

/// The order of distances in f32 is that of their bits. The upper bits, the
/// exponent and some of the mantissa, are the bin. It never falls as scores
/// fall.
Value SamplingKernel::binOf(Value score) {
  constexpr int64_t exponentBits = 23, exponentBias = 127;
  constexpr int64_t shift = exponentBits - llvm::ConstantLog2<kBinsPerOctave>();
  constexpr int64_t first = (exponentBias + kLeastDistance) * kBinsPerOctave;
  Value far = b.create<arith::SubFOp>(bestScore, score);
  Value place = b.create<arith::ShRUIOp>(bitsOf(far), b.i32(shift));
  place = b.max(b.sub(place, b.i32(first)), b.i32(0));
  return b.min(place, b.i32(kBins - 1));
}

Value SamplingKernel::targetOf(Value total) {
  Value topP = sampling(offsetof(CriaSampling, top_p), b.getI64Type());
  return b.max(mulHigh(topP, total), i64(1));
}

//===----------------------------------------------------------------------===//
// The block
//===----------------------------------------------------------------------===//

Value SamplingKernel::blockMax(Value x) {
  b.barrier(); // `sums` may still be read
  return b.blockReduce(x, sums, [&](Value x, Value y) { return b.max(x, y); });
}

Value SamplingKernel::blockSum(Value x) {
  b.barrier(); // `sums` may still be read
  return b.blockReduce(x, sums, [&](Value x, Value y) { return b.add(x, y); });
}

Value SamplingKernel::warpSum(Value x) {
  return b.warpReduce(x, kWarp, [&](Value x, Value y) { return b.add(x, y); });
}

void SamplingKernel::shareOfWarp(Value x) {
  b.barrier(); // `sums` may still be read
  b.when(b.equal(b.lane(), b.i32(0)),
         [&] { b.store(x, sums, b.i32(0), b.warp()); });
  b.barrier();
}

Value SamplingKernel::sumOf(Value first, Value end, int64_t step,
                            Measure valueAt) {
  return b.loop(first, end, step, {i64(0)}, [&](Value i, ValueRange sum) {
    return SmallVector<Value>{b.add(sum[0], valueAt(i))};
  })[0];
}

Value SamplingKernel::total(Value end, Measure valueAt) {
  return blockSum(sumOf(b.thread(), end, kSampleThreads, valueAt));
}

std::pair<Value, Value> SamplingKernel::locate(int64_t count, Measure valueAt,
                                               Value left) {
  if (!located.base)
    located = b.shared(b.getI64Type(), 2, 0);
  int64_t span = count / kSampleWarps;
  Value first = b.mul(b.warp(), span), end = b.add(first, span);
  Value warpTotal = warpSum(sumOf(b.add(first, b.lane()), end, kWarp, valueAt));
  shareOfWarp(warpTotal);
  Value others =
      b.load(sums, b.i32(0), b.min(b.lane(), b.i32(kSampleWarps - 1)));
  Value before = warpSum(b.select(b.less(b.lane(), b.warp()), others, i64(0)));
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
        b.store(wide(index), located, b.i32(0), b.i32(0));
        b.store(from, located, b.i32(0), b.i32(1));
      });
      return SmallVector<Value>{b.shuffleFrom(to, b.i32(kWarp - 1))};
    });
  });
  b.barrier();
  return {narrow(b.load(located, b.i32(0), b.i32(0))),
          b.load(located, b.i32(0), b.i32(1))};
}

void SamplingKernel::finish() {
  Value tiles = arith::ConstantIndexOp::create(host, in.tiles);
  launch.finish({tiles, in.count});
}

//===----------------------------------------------------------------------===//
// The entry
//===----------------------------------------------------------------------===//

/// Creates the entry, without its launches, after the other entries.
static func::FuncOp createEntry(ModuleOp module, MemRefType logits,
                                bool ofSession) {
  using Is = EntryArgument;
  auto b = ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
  int64_t rows = logits.getDimSize(0);
  auto array = [&](int64_t count, Type element) -> Type {
    return MemRefType::get({rows, count}, element);
  };
  Type i32 = b.getI32Type();
  constexpr int64_t answer = sizeof(CriaSampled) / sizeof(int32_t);
  SmallVector<Type> types = {
      logits, MemRefType::get({1, INT32_MAX}, i32),
      MemRefType::get({ofSession ? 2 : rows, answer}, i32),
      array(sizeof(CriaSampling), b.getI8Type())};
  SmallVector<Is> arguments = {Is::Logits, Is::Seen, Is::Sampled, Is::Sampling};
  if (rows > 1) {
    types.push_back(b.getIndexType());
    arguments.push_back(Is::Tokens);
  }
  if (ofSession) {
    types.push_back(MemRefType::get({1}, i32));
    types.push_back(array(sizeof(CriaStepState) / sizeof(int32_t), i32));
    llvm::append_range(arguments, ArrayRef{Is::Ids, Is::State});
  }
  auto entry = func::FuncOp::create(b, "sample", b.getFunctionType(types, {}));
  EntryArguments::set(entry, arguments);
  b.setInsertionPointToStart(entry.addEntryBlock());
  func::ReturnOp::create(b);
  return entry;
}

static SamplingMemory createMemory(ImplicitLocOpBuilder &host,
                                   func::FuncOp entry) {
  SamplingMemory in;
  auto logits = cast<MemRefType>(entry.getArgumentTypes().front());
  in.rows = logits.getDimSize(0);
  in.vocab = logits.getDimSize(1);
  in.tiles = llvm::divideCeil(in.vocab, kTile);
  in.logits = entry.getArgument(0);
  in.seen = entry.getArgument(1);
  in.sampled = entry.getArgument(2);
  in.sampling = entry.getArgument(3);
  if (in.rows > 1)
    in.count = entry.getArgument(4);
  else
    in.count = arith::ConstantIndexOp::create(host, 1);
  if (in.rows == 1 && entry.getNumArguments() > 4) {
    in.ids = entry.getArgument(4);
    in.state = entry.getArgument(5);
  }
  auto temporary = [&](int64_t count, Type element) -> Value {
    return memref::AllocOp::create(host,
                                   MemRefType::get({in.rows, count}, element));
  };
  Type i32 = host.getI32Type(), i64 = host.getI64Type();
  in.scores = temporary(in.tiles * kTile, host.getF32Type());
  in.best = temporary(in.tiles, i64);
  in.counts = temporary(kBins, i32);
  in.weights = temporary(kBins, i64);
  in.kept = temporary(in.tiles, i64);
  in.list = temporary(in.tiles * kTile, i64);
  in.measures = temporary(in.tiles * kTile, i64);
  in.listed = temporary(1, i32);
  in.found = temporary(static_cast<int64_t>(Found::Count), i64);
  memref::GlobalOp zeros = createZeros(OpBuilder(entry), entry.getLoc(),
                                       entry.getName() + ".zeros", in.rows);
  in.arrivals =
      memref::GetGlobalOp::create(host, zeros.getType(), zeros.getSymName());
  return in;
}

void simt::emitSampling(ModuleOp module, Block &kernels, func::FuncOp of) {
  auto arguments = EntryArguments::of(of);
  if (failed(arguments))
    return;
  auto logits = cast<ShapedType>(
      of.getArgumentTypes()[arguments->at(EntryArgument::Logits)]);
  func::FuncOp entry = createEntry(
      module, MemRefType::get(logits.getShape(), logits.getElementType()),
      /*ofSession=*/arguments->has(EntryArgument::Position));
  auto host =
      ImplicitLocOpBuilder::atBlockTerminator(module.getLoc(), &entry.front());
  SamplingMemory in = createMemory(host, entry);
  emitSampleScores(host, kernels, in);
  emitSampleBins(host, kernels, in);
  emitSample(host, kernels, in);
}
