/// What kernels of attention share, and the reading of an attention out of a
/// kernel function.
#include "lowering/gpu/schedules/Choose.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Schedules.h"

#include <cfloat>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

int64_t simt::scanWidth(const AttentionMemory &in) {
  int64_t width =
      std::gcd<int64_t>(in.size, 128 / in.queryElement.getIntOrFloatBitWidth());
  while (width * kWarp < in.size)
    width *= 2;
  return in.size % width == 0 ? width : 0;
}

//===----------------------------------------------------------------------===//
// What kernels share
//===----------------------------------------------------------------------===//

AttentionKernel::AttentionKernel(KernelFunction &of, const AttentionMemory &in,
                                 const Twine &suffix, int64_t threads)
    : of(of), in(in), launch(of, suffix, threads), b(launch.b),
      bounds(in.attention.keysSeen()), factor(in.attention.factor()) {
  Elements &elements = of.elements;
  auto symbols = llvm::map_to_vector(
      bounds.symbols, [&](Value number) { return elements.expr(number); });
  for (auto *exprs : {&bounds.first, &bounds.end})
    for (AffineExpr &expr : *exprs)
      expr = expr.replaceSymbols(symbols);
  auto first = [&](Value cache) {
    AffineExpr layer = elements.expr(in.attention.layer);
    SmallVector<AffineExpr> at = {layer, elements.dim(0),
                                  elements.expr(in.attention.firstKey)};
    if (in.attention.pages)
      at = {elements.dim(1), layer, elements.dim(0), elements.dim(2)};
    else if (in.page)
      at = {layer, elements.dim(0), elements.dim(1)};
    at.resize(cast<RankedTensorType>(cache.getType()).getRank(),
              elements.constant(0));
    return launch.place({cache, at});
  };
  Launch::Place place = first(in.attention.keys);
  keys = place.rows;
  keyRow = place.row;
  values = first(in.attention.values).rows;
  if (Value table = in.attention.pages)
    pages =
        launch.rows(of.memory(table),
                    cast<RankedTensorType>(table.getType()).getShape().back());
}

Value AttentionKernel::rowOfKey(Value key, Value token) {
  if (!in.page)
    return b.add(launch.value(keyRow, kvHead), b.mul(key, in.keyRows));
  Elements &elements = of.elements;
  key = b.add(key, launch.value(elements.expr(in.attention.firstKey), {}));
  if (!in.attention.pages)
    return launch.value(keyRow, {kvHead, b.rem(key, in.page)});
  Value page = b.load(pages, token ? token : b.i32(0), b.div(key, in.page), 1,
                      Access::ReadOnly);
  return launch.value(keyRow, {kvHead, page, b.rem(key, in.page)});
}

Value AttentionKernel::alignedKey(Value key, int64_t of) {
  return aligns() ? floorOf(key, of) : key;
}

Value AttentionKernel::floorOf(Value key, int64_t of) {
  AffineExpr first = this->of.elements.expr(in.attention.firstKey);
  return b.sub(key, b.rem(b.add(key, launch.value(first, {})), of));
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

Value AttentionKernel::divisor(Value sum, Value max, Value query) {
  if (Value sinks = in.attention.sinks) {
    Value at[] = {kvHead, query, b.i32(0), b.i32(0)};
    Evaluator evaluate(launch, sizesOf(sinks), at, 1,
                       [](const Element &) { return Value(); });
    Value sink = evaluate({sinks, fourLoops(of.elements)});
    sum = b.fadd(sum, b.exp2(b.fma(sink, b.f32(1 / std::log(2.0)),
                                   b.fsub(b.f32(0), max))));
  }
  return b.fmax(sum, b.f32(FLT_MIN));
}

Value AttentionKernel::finished(Value out) {
  if (in.attention.onlyRounds())
    return out;
  linalg::LinalgOp op = in.attention.result;
  Box box = sizesOf(in.attention.output());
  Evaluator evaluate(launch, box, {}, 1, [&](const Element &) { return out; });
  return b.widen(evaluate.payload(op, 0, fourLoops(of.elements)));
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Which of its memory's elements an element is, over (t, h, g, d); null where
/// the memory's sizes are not known.
static AffineExpr elementNumber(const Element &element) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(element.tensor.getType()).getShape();
  AffineExpr number = element.at[0];
  for (size_t i = 1; i < shape.size(); ++i) {
    if (ShapedType::isDynamic(shape[i]))
      return {};
    number = number * shape[i] + element.at[i];
  }
  return number;
}

static AffineExpr simplified(AffineExpr expr) {
  AffineMap map = AffineMap::inferFromExprList(ArrayRef<AffineExpr>(expr),
                                               expr.getContext())[0];
  return simplifyAffineExpr(map.getResult(0), map.getNumDims(),
                            map.getNumSymbols());
}

bool simt::isContiguous(const Element &element, int64_t width) {
  AffineExpr number = elementNumber(element);
  if (!number)
    return false;
  MLIRContext *context = number.getContext();
  AffineExpr d = getAffineDimExpr(3, context);
  AffineExpr first = number.replace(d, getAffineConstantExpr(0, context));
  return simplified(number - first - d) == 0 && first.isMultipleOf(width);
}

std::optional<int64_t> simt::tokenStride(const Element &element, int64_t group,
                                         int64_t size) {
  AffineExpr number = elementNumber(element);
  if (!number)
    return std::nullopt;
  AffineExpr t, h, g, d;
  bindDims(number.getContext(), t, h, g, d);
  auto zero = getAffineConstantExpr(0, number.getContext());
  AffineExpr rest = number - (h * group + g) * size - d;
  auto stride = dyn_cast<AffineConstantExpr>(
      simplified(rest.replace(t, zero + 1) - rest.replace(t, zero)));
  if (!stride || simplified(rest - t * stride.getValue()) != 0)
    return std::nullopt;
  return stride.getValue();
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
  in.valueSize = in.attention.valueSize;
  Value pages = in.attention.pages;
  int64_t positions = pages ? 3 : 2; // the caches' dimension
  in.room = keys.getDimSize(positions);
  if (pages || in.attention.areRings)
    in.page = in.room;
  if (pages)
    in.room *= cast<RankedTensorType>(pages.getType()).getShape().back();
  in.queryElement = query.getElementType();
  in.cacheElement = keys.getElementType();
  if (pages && !hasMemory(pages))
    return fail(kNoMemory);
  linalg::GenericOp widened = in.attention.widenedKeys;
  in.keyRows = widened ? keys.getDimSize(positions + 1) : 1;
  auto isFloat = llvm::IsaPred<Float32Type, BFloat16Type, Float16Type>;
  if (!isFloat(in.queryElement) || !(widened || isFloat(in.cacheElement)))
    return fail("it is not of f32, bf16 or f16");
  if (!scanWidth(in))
    return fail("a warp does not hold a head");
  if (in.valueSize % scanWidth(in))
    return fail("a lane has parts of a key that are not a value");
  if (widened && !(canLoadWidened(widened, scanWidth(in)) &&
                   canLoadWidened(in.attention.widenedValues, scanWidth(in))))
    return fail("its caches are not in blocks of bytes");
  return true;
}

bool MemoryReader::readOperands() {
  Value query = in.attention.query;
  in.query = elements.origin({query, fourLoops(elements)}, sizesOf(query));
  if (!elements.isStored(in.query.tensor) ||
      !isContiguous(in.query, scanWidth(in)))
    return fail("its query is not heads in memory");
  if (!isa<BlockArgument>(in.attention.keys) ||
      !isa<BlockArgument>(in.attention.values) ||
      (in.attention.pages && !isa<BlockArgument>(in.attention.pages)))
    return fail("its caches or their pages are not arguments");
  return true;
}

/// Where the output's elements (t, h, g, d) are stored.
bool MemoryReader::readResult() {
  auto parts = elements.parts(of.kernel);
  if (!parts || parts->size() != 1 || parts->front().stores.size() != 1)
    return fail("its result is not stored once");
  const Part &part = parts->front();
  const Store &store = part.stores[0];
  if (!hasMemory(store.into.tensor))
    return fail(kNoMemory);
  Element value = elements.origin(store.value, part.box);
  if (value.tensor != in.attention.output())
    return fail("another value than its result is stored");
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
      known &= leaf.tensor == product ||
               (elements.isStored(leaf.tensor) && hasMemory(leaf.tensor));
    };
    return elements.leaves(element, box, check) && known &&
           canEvaluate(elements, element, box);
  };
  if (!isKnown(attention.softmaxInput, scores) ||
      (attention.sinks && !isKnown(attention.sinks, {})) ||
      !isKnown(attention.output(), attention.product->getResult(0)))
    return fail("ops on its scores or result read more than arguments");
  for (OpFoldResult number :
       {attention.layer, attention.firstKey, attention.keyCount})
    if (auto value = dyn_cast<Value>(number); value && !isNumber(value))
      return fail("its layer or keys are not numbers of the call");
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

bool simt::emitAttention(KernelFunction &function, const Choose &choose,
                         StringRef &reason) {
  auto softmaxes = llvm::to_vector(function.kernel.getOps<linalg::SoftmaxOp>());
  if (softmaxes.empty())
    return false;
  auto in = MemoryReader(function, reason).read(softmaxes[0]);
  if (!in)
    return false;
  choose.attention(function, *in);
  return true;
}
