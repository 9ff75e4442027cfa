/// Attention over the cache, one pass with a running maximum (online softmax):
///
///   block: a KV head (a part of its query heads where there are many), a
///          token, a split of the visible keys
///   group of lanes: one key at a time, lanes side by side along the head
///     s[h] = q[h] . k;  m, l, o[h] rescaled;  o[h] += p * v
///   merge the groups of a warp by shuffles, the warps in shared memory
///   with several splits: leave (m, l, o) in device memory; the block that
///   arrives last merges all splits
///
/// All query heads of a KV head are done together, so that keys and values are
/// read once. Decode needs splits to fill the machine, a prefill has tokens.
#include "lowering/gpu/Attention.h"
#include "lowering/gpu/Schedules.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cfloat>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 128, kWarps = kThreads / kWarp;
/// Values of q, and of the output, that a lane holds for its query heads at
/// most: they live in registers.
static constexpr int64_t kValues = 32;
/// Blocks of a decode, if the cache is long enough for them: two on each of an
/// A100's or H100's multiprocessors.
static constexpr int64_t kDecodeBlocks = 256, kKeysPerSplit = 64;

namespace {
/// The running softmax of some heads: what each thread, warp or split holds.
struct State {
  SmallVector<Value> max, sum, out;

  SmallVector<Value> values() const {
    SmallVector<Value> all(max);
    llvm::append_range(all, sum);
    llvm::append_range(all, out);
    return all;
  }
  static State of(ValueRange values) {
    size_t heads = values.size() / 3;
    return {SmallVector<Value>(values.take_front(heads)),
            SmallVector<Value>(values.slice(heads, heads)),
            SmallVector<Value>(values.take_back(heads))};
  }
};

class AttentionScan : AttentionKernel {
public:
  AttentionScan(KernelFunction &of, const AttentionMemory &in);
  void emit();

private:
  Value queryOf(int64_t head);
  std::pair<Value, Value> blockKeys();
  SmallVector<Value> queries();
  State scan(Value firstKey, Value endKey);
  State step(Value key, Value inside, ArrayRef<Value> q, State state);
  State mergeLanes(State state);
  void mergeWarps(const State &state);
  void mergeSplits();
  void combine(State &into, size_t head, Value max, Value sum, Value out);
  /// States of single heads in memory, a row for each: maximum and sum, output.
  struct Saved {
    Rows softmax, out;
  };
  void save(const State &state, const Saved &to, Value row, Value column);
  State merged(const Saved &from, Value first, int64_t parts, Value head,
               Value column);
  void finishElement(Value head, Value column, const State &state);
  /// Calls `body` with each (head, column) of the block, one a thread.
  void eachElement(llvm::function_ref<void(Value head, Value column)> body);

  int64_t size, heads, parts, splits, width, lanes;
  Saved partial;                  // (block, split, head)
  Rows arrivals;                  // of a block's splits
  Value firstQuery, token, split; // of the block
};
} // namespace

/// Elements of the head that a lane holds: 16 bytes, or more where a warp would
/// not reach; 0 where it does not.
static int64_t widthOf(const AttentionMemory &in) {
  int64_t width =
      std::gcd<int64_t>(in.size, 128 / in.queryElement.getIntOrFloatBitWidth());
  while (width * kWarp < in.size)
    width *= 2;
  return in.size % width == 0 ? width : 0;
}

static int64_t splitsOf(const AttentionMemory &in, int64_t blocks) {
  if (in.tokens.constant != 1)
    return 1;
  int64_t most = llvm::divideCeil(in.room, kKeysPerSplit);
  return std::clamp<int64_t>(kDecodeBlocks / blocks, 1, most);
}

AttentionScan::AttentionScan(KernelFunction &of, const AttentionMemory &in)
    : AttentionKernel(of, in, kThreads), size(in.size), width(widthOf(in)) {
  heads = std::min(in.group, kValues / width);
  parts = llvm::divideCeil(in.group, heads);
  splits = splitsOf(in, in.kvHeads * parts);
  lanes = llvm::PowerOf2Ceil(llvm::divideCeil(size, width));
  if (splits == 1)
    return;
  int64_t blocks = in.kvHeads * parts, states = blocks * splits * heads;
  auto temporary = [&](int64_t count, int64_t stride) {
    auto type = MemRefType::get({count}, b.getF32Type());
    return launch.rows(memref::AllocOp::create(of.host, type), stride);
  };
  partial = {temporary(states * 2, 2), temporary(states * size, size)};
  arrivals = launch.rows(of.zeroed(blocks), 1);
}

/// Which of the KV head's queries a head of the block is. Heads past the last
/// do its work again.
Value AttentionScan::queryOf(int64_t head) {
  if (parts == 1)
    return b.i32(head);
  return b.min(b.add(firstQuery, head), b.i32(in.group - 1));
}

/// The first key of this block, and the one behind its last.
std::pair<Value, Value> AttentionScan::blockKeys() {
  auto [first, end] = keysSeen(token, b.add(token, 1));
  if (splits == 1)
    return {first, end};
  Value each = b.ceilDiv(b.max(b.sub(end, first), b.i32(0)), splits);
  Value firstKey = b.add(first, b.mul(split, each));
  return {firstKey, b.min(b.add(firstKey, each), end)};
}

/// The lane's part of each query head, times the factor and log2(e).
SmallVector<Value> AttentionScan::queries() {
  double scale = factor ? *factor / std::log(2.0) : 1;
  SmallVector<Value> q;
  Value column = b.mul(b.rem(b.lane(), lanes), width);
  // Lanes beyond the head's end work on its last vector and are not counted.
  Value inside = b.less(column, b.i32(size));
  Value at = b.min(column, b.i32(size - width));
  for (int64_t h = 0; h < heads; ++h) {
    Value x = launch.load(in.query, {token, kvHead, queryOf(h), at}, width);
    Value factor = b.select(inside, b.f32(scale), b.f32(0));
    q.push_back(b.fmul(b.widen(x), b.splat(factor, width)));
  }
  return q;
}

/// The state with one more key. `inside` says whether there is the key for
/// this group of lanes.
State AttentionScan::step(Value key, Value inside, ArrayRef<Value> q,
                          State state) {
  Value column =
      b.min(b.mul(b.rem(b.lane(), lanes), width), b.i32(size - width));
  Value row = b.add(keyRow(), b.mul(key, in.keyRows));
  auto load = [&](linalg::GenericOp widened, const Rows &cache) {
    return widened ? loadWidened(b, widened, cache, row, column, width)
                   : b.loadWide(cache, row, column, width);
  };
  Value k = load(in.attention.widenedKeys, keys);
  Value v = load(in.attention.widenedValues, values);
  // Head by head: registers hold one head's terms at a time.
  for (int64_t h = 0; h < heads; ++h) {
    Value visible = inside;
    Value score = this->score(b.warpSum(b.sum(b.fmul(q[h], k)), lanes),
                              queryOf(h), token, key, visible);
    if (!factor)
      score = b.fmul(score, b.f32(1 / std::log(2.0)));
    combine(state, h, b.select(visible, score, b.f32(-INFINITY)), b.f32(1), v);
  }
  return state;
}

/// Every group of lanes takes keys in turn; all threads of the block do the
/// same number of turns, since they shuffle.
State AttentionScan::scan(Value firstKey, Value endKey) {
  SmallVector<Value> q = queries();
  int64_t groups = kThreads / lanes;
  Value own = b.div(b.thread(), lanes);
  State init{SmallVector<Value>(heads, b.f32(kNone)),
             SmallVector<Value>(heads, b.f32(0)),
             SmallVector<Value>(heads, b.splat(b.f32(0), width))};
  Value last = b.sub(endKey, b.i32(1));
  return State::of(b.loop(firstKey, endKey, groups, init.values(),
                          [&](Value first, ValueRange carried) {
                            Value key = b.add(first, own);
                            State next =
                                step(b.min(key, last), b.less(key, endKey), q,
                                     State::of(carried));
                            return next.values();
                          }));
}

/// Adds to a head what the state max, sum, out has seen.
void AttentionScan::combine(State &into, size_t head, Value max, Value sum,
                            Value out) {
  Value both = b.fmax(into.max[head], max);
  Value mine = b.exp2(b.fsub(into.max[head], both));
  Value its = b.exp2(b.fsub(max, both));
  auto splat = [&](Value x) {
    auto type = dyn_cast<VectorType>(out.getType());
    return b.splat(x, type ? type.getNumElements() : 1);
  };
  into.max[head] = both;
  into.sum[head] = b.fma(into.sum[head], mine, b.fmul(sum, its));
  into.out[head] = b.fma(out, splat(its), b.fmul(into.out[head], splat(mine)));
}

State AttentionScan::mergeLanes(State state) {
  for (int64_t mask = lanes; mask < kWarp; mask *= 2)
    for (int64_t h = 0; h < heads; ++h) {
      SmallVector<Value> parts;
      for (int64_t i = 0; i < width; ++i)
        parts.push_back(b.shuffleXor(b.extract(state.out[h], i), mask));
      combine(state, h, b.shuffleXor(state.max[h], mask),
              b.shuffleXor(state.sum[h], mask), b.pack(parts));
    }
  return state;
}

void AttentionScan::eachElement(
    llvm::function_ref<void(Value head, Value column)> body) {
  b.loop(b.thread(), b.i32(heads * size), kThreads, [&](Value i) {
    Value head = b.div(i, size);
    // A block may have fewer heads than it has room for.
    b.when(b.less(b.add(firstQuery, head), b.i32(in.group)),
           [&] { body(head, b.rem(i, size)); });
  });
}

void AttentionScan::save(const State &state, const Saved &to, Value row,
                         Value column) {
  b.store(state.out[0], to.out, row, column);
  b.when(b.equal(column, b.i32(0)), [&] {
    b.store(state.max[0], to.softmax, row, b.i32(0));
    b.store(state.sum[0], to.softmax, row, b.i32(1));
  });
}

/// An element of what warps or splits have saved, merged.
State AttentionScan::merged(const Saved &from, Value first, int64_t parts,
                            Value head, Value column) {
  auto part = [&](Value index) -> State {
    Value row = b.add(b.mul(b.add(first, index), heads), head);
    return {{b.load(from.softmax, row, b.i32(0))},
            {b.load(from.softmax, row, b.i32(1))},
            {b.load(from.out, row, column)}};
  };
  return State::of(b.loop(b.i32(1), b.i32(parts), 1, part(b.i32(0)).values(),
                          [&](Value index, ValueRange carried) {
                            State state = State::of(carried);
                            State other = part(index);
                            combine(state, 0, other.max[0], other.sum[0],
                                    other.out[0]);
                            return state.values();
                          }));
}

void AttentionScan::finishElement(Value head, Value column,
                                  const State &state) {
  launch.store(finished(state.out[0], state.sum[0]), in.result,
               {token, kvHead, b.add(firstQuery, head), column});
}

void AttentionScan::mergeWarps(const State &state) {
  Type f32 = b.getF32Type();
  Saved warps{b.shared(f32, kWarps * heads * 2, 2),
              b.shared(f32, kWarps * heads * size, size)};
  Value lane = b.lane(), column = b.mul(lane, width);
  b.when(b.both(b.less(lane, b.i32(lanes)), b.less(column, b.i32(size))), [&] {
    for (int64_t h = 0; h < heads; ++h)
      save({{state.max[h]}, {state.sum[h]}, {state.out[h]}}, warps,
           b.add(b.mul(b.warp(), heads), h), column);
  });
  b.barrier();
  eachElement([&](Value head, Value column) {
    State all = merged(warps, b.i32(0), kWarps, head, column);
    if (splits == 1)
      return finishElement(head, column, all);
    Value part = b.add(b.mul(b.block(0), splits), split);
    save(all, partial, b.add(b.mul(part, heads), head), column);
  });
}

/// The block that arrives last merges what all splits of a head have left.
void AttentionScan::mergeSplits() {
  Rows flag = b.shared(b.getI32Type(), 1, 1);
  b.fence();
  b.barrier();
  b.when(b.equal(b.thread(), b.i32(0)), [&] {
    Value before = b.atomicIncrement(arrivals, b.block(0), splits - 1);
    b.store(before, flag, b.i32(0), b.i32(0));
  });
  b.barrier();
  Value arrived = b.load(flag, b.i32(0), b.i32(0));
  b.when(b.equal(arrived, b.i32(splits - 1)), [&] {
    b.fence();
    eachElement([&](Value head, Value column) {
      Value first = b.mul(b.block(0), splits);
      finishElement(head, column, merged(partial, first, splits, head, column));
    });
  });
}

void AttentionScan::emit() {
  kvHead = b.div(b.block(0), parts);
  firstQuery = b.mul(b.rem(b.block(0), parts), heads);
  split = b.block(1);
  token = b.block(2);
  auto [firstKey, endKey] = blockKeys();
  mergeWarps(mergeLanes(scan(firstKey, endKey)));
  if (splits > 1)
    mergeSplits();
  launch.finish({of.constant(in.kvHeads * parts), of.constant(splits),
                 of.blocks(in.tokens, 1)});
}

//===----------------------------------------------------------------------===//
// What kernels share
//===----------------------------------------------------------------------===//

AttentionKernel::AttentionKernel(KernelFunction &of, const AttentionMemory &in,
                                 int64_t threads)
    : of(of), in(in), launch(of, "", threads), b(launch.b),
      bounds(in.attention.keysSeen()), factor(in.attention.factor()) {
  Elements &elements = of.elements;
  auto symbols = llvm::map_to_vector(
      bounds.symbols, [&](Value number) { return elements.expr(number); });
  for (auto *exprs : {&bounds.first, &bounds.end})
    for (AffineExpr &expr : *exprs)
      expr = expr.replaceSymbols(symbols);
  auto first = [&](Value cache) {
    SmallVector<AffineExpr> at = {elements.expr(in.attention.layer),
                                  elements.dim(0),
                                  elements.expr(in.attention.firstKey)};
    at.resize(cast<RankedTensorType>(cache.getType()).getRank(),
              elements.constant(0));
    return launch.place({cache, at});
  };
  Launch::Place place = first(in.attention.keys);
  keys = place.rows;
  firstKeyRow = place.row;
  values = first(in.attention.values).rows;
}

std::pair<Value, Value> AttentionKernel::keysSeen(Value firstToken,
                                                  Value endToken) {
  Value tokens[] = {firstToken, endToken}, first = b.i32(0);
  for (AffineExpr bound : bounds.first)
    first = b.max(first, launch.value(bound, tokens));
  Value end = launch.value(of.elements.expr(in.attention.keyCount), {});
  for (AffineExpr bound : bounds.end)
    end = b.min(end, launch.value(bound, tokens));
  return {first, end};
}

/// Dims for the loops of an element.
static SmallVector<AffineExpr> fourLoops(const Elements &elements) {
  return {elements.dim(0), elements.dim(1), elements.dim(2), elements.dim(3)};
}

Value AttentionKernel::score(Value product, Value query, Value token, Value key,
                             Value &visible) {
  const Attention &attention = in.attention;
  if (!attention.shown || (factor && bounds.exact))
    return product;
  Box box = sizesOf(attention.softmaxInput);
  Value at[] = {kvHead, query, token, key};
  Evaluator evaluate(launch, box, at, 1, [&](const Element &element) {
    return element.tensor == attention.scores->getResult(0) ? product : Value();
  });
  auto op = attention.softmaxInput.getDefiningOp<linalg::LinalgOp>();
  auto loops = fourLoops(of.elements);
  if (!bounds.exact)
    visible = b.both(visible, evaluate.inPayload(op, attention.visible, loops));
  return factor ? product : evaluate.inPayload(op, attention.shown, loops);
}

Value AttentionKernel::finished(Value out, Value sum) {
  Value result = b.fdiv(out, b.fmax(sum, b.f32(FLT_MIN)));
  if (in.attention.onlyRounds())
    return result;
  linalg::LinalgOp op = in.attention.result;
  Box box = sizesOf(in.attention.output());
  Evaluator evaluate(launch, box, {}, 1,
                     [&](const Element &) { return result; });
  return b.widen(evaluate.payload(op, 0, fourLoops(of.elements)));
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

bool simt::isContiguous(const Element &element, int64_t width) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(element.tensor.getType()).getShape();
  AffineExpr number = element.at[0];
  for (size_t i = 1; i < shape.size(); ++i) {
    if (ShapedType::isDynamic(shape[i]))
      return false;
    number = number * shape[i] + element.at[i];
  }
  MLIRContext *context = number.getContext();
  AffineExpr d = getAffineDimExpr(3, context);
  AffineExpr first = number.replace(d, getAffineConstantExpr(0, context));
  AffineMap other = AffineMap::inferFromExprList(
      ArrayRef<AffineExpr>(number - first - d), context)[0];
  return simplifyAffineExpr(other.getResult(0), other.getNumDims(),
                            other.getNumSymbols()) == 0 &&
         first.isMultipleOf(width);
}

namespace {
/// Reads a kernel function whose only result is an attention's. A step that
/// fails says why.
class MemoryReader {
public:
  MemoryReader(KernelFunction &of, StringRef &reason)
      : of(of), elements(of.elements), reason(reason) {}
  std::optional<AttentionMemory> read(linalg::SoftmaxOp softmax);

private:
  bool fail(StringRef why) {
    reason = why;
    return false;
  }
  bool readSizes();
  bool readOperands();
  bool readResult();
  bool readPayloads();

  KernelFunction &of;
  Elements &elements;
  StringRef &reason;
  AttentionMemory in;
};
} // namespace

bool MemoryReader::readSizes() {
  auto query = cast<RankedTensorType>(in.attention.query.getType()),
       keys = cast<RankedTensorType>(in.attention.keys.getType());
  in.tokens = sizeOf(in.attention.query, 0);
  in.kvHeads = query.getDimSize(1);
  in.group = query.getDimSize(2);
  in.size = query.getDimSize(3);
  in.room = keys.getDimSize(2);
  in.queryElement = query.getElementType();
  in.cacheElement = keys.getElementType();
  for (int64_t size : {in.kvHeads, in.group, in.size, in.room})
    if (ShapedType::isDynamic(size))
      return fail("its heads or its caches have no constant size");
  linalg::GenericOp widened = in.attention.widenedKeys;
  in.keyRows = widened ? keys.getDimSize(3) : 1;
  auto isFloat = llvm::IsaPred<Float32Type, BFloat16Type, Float16Type>;
  if (!isFloat(in.queryElement) || !(widened || isFloat(in.cacheElement)))
    return fail("it is not of f32, bf16 or f16");
  if (!widthOf(in))
    return fail("a warp does not hold a head");
  if (widened && !(canLoadWidened(widened, widthOf(in)) &&
                   canLoadWidened(in.attention.widenedValues, widthOf(in))))
    return fail("its caches are not in blocks of bytes");
  return true;
}

bool MemoryReader::readOperands() {
  Value query = in.attention.query;
  in.query = elements.origin({query, fourLoops(elements)}, sizesOf(query));
  if (!elements.isStored(in.query.tensor) ||
      !isContiguous(in.query, widthOf(in)))
    return fail("its query is not heads in memory");
  if (!isa<BlockArgument>(in.attention.keys) ||
      !isa<BlockArgument>(in.attention.values))
    return fail("its caches are not arguments");
  return true;
}

/// Where the output's elements (t, h, g, d) are stored.
bool MemoryReader::readResult() {
  auto parts = elements.parts(of.kernel);
  if (!parts || parts->size() != 1 || parts->front().stores.size() != 1)
    return fail("its result is not stored once");
  const Part &part = parts->front();
  const Store &store = part.stores[0];
  Element value = elements.origin(store.value, part.box);
  if (value.tensor != in.attention.output())
    return fail("what is stored is not its result");
  // The store's loops in the output's: both have its elements in order.
  Box box = sizesOf(value.tensor);
  SmallVector<AffineExpr> loops(part.box.size()), own = fourLoops(elements);
  AffineExpr number = elements.constant(0);
  for (auto [loop, size] : llvm::enumerate(box)) {
    if (size.constant == 1)
      own[loop] = elements.constant(0);
    number = loop ? number * size.constant + own[loop] : own[loop];
  }
  for (size_t loop = loops.size(); --loop > 0;) {
    if (!part.box[loop].isConstant())
      return fail("its result is stored in another order");
    int64_t size = part.box[loop].constant;
    loops[loop] = elements.simplify(number % size, box);
    number = elements.simplify(number.floorDiv(size), box);
  }
  loops[0] = number;
  auto inLoops = [&](AffineExpr at) {
    return elements.simplify(at.replaceDims(loops), box);
  };
  if (llvm::map_to_vector(value.at, inLoops) != own)
    return fail("its result is stored in another order");
  in.result = {store.into.tensor, llvm::map_to_vector(store.into.at, inLoops)};
  return true;
}

/// Whether a kernel can compute what is done to scores and results, from
/// arguments and numbers.
bool MemoryReader::readPayloads() {
  const Attention &attention = in.attention;
  Value scores = attention.scores->getResult(0);
  auto isKnown = [&](Value made, Value product) {
    Element element{made, fourLoops(elements)};
    Box box = sizesOf(made);
    bool known = true;
    auto check = [&](const Element &leaf) {
      known &= leaf.tensor == product || elements.isStored(leaf.tensor);
    };
    return elements.leaves(element, box, check) && known &&
           canEvaluate(elements, element, box);
  };
  if (!isKnown(attention.softmaxInput, scores) ||
      !isKnown(attention.output(), attention.product->getResult(0)))
    return fail("what is done to its scores or result reads no argument");
  for (OpFoldResult number :
       {attention.layer, attention.firstKey, attention.keyCount})
    if (auto value = dyn_cast<Value>(number); value && !isNumber(value))
      return fail("its layer or keys are no numbers");
  return true;
}

std::optional<AttentionMemory> MemoryReader::read(linalg::SoftmaxOp softmax) {
  auto attention = Attention::match(softmax, reason);
  if (!attention)
    return std::nullopt;
  in.attention = *attention;
  if (readSizes() && readOperands() && readPayloads() && readResult())
    return in;
  return std::nullopt;
}

bool simt::emitAttention(KernelFunction &function, StringRef &reason) {
  auto softmaxes = llvm::to_vector(function.kernel.getOps<linalg::SoftmaxOp>());
  if (softmaxes.empty())
    return false;
  auto in = MemoryReader(function, reason).read(softmaxes[0]);
  if (!in)
    return false;
  if (takesAttentionMma(*in))
    emitAttentionMma(function, *in);
  else
    AttentionScan(function, *in).emit();
  return true;
}
