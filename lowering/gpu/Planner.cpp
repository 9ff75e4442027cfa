#include "lowering/gpu/Planner.h"

#include "lowering/LayerNumber.h"
#include "lowering/Signature.h"
#include "lowering/Slots.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

int64_t Arena::zeroed(int64_t size) {
  int64_t offset = nextZeroed;
  nextZeroed += llvm::alignTo(size, kAlign);
  return offset;
}

int64_t Arena::temporary(int64_t size) {
  int64_t offset = next;
  next += llvm::alignTo(size, kAlign);
  highest = std::max(highest, next);
  return offset;
}

Planner::Planner(func::FuncOp entry, Block &kernels, Arena &arena,
                 int64_t maxTokens)
    : entry(entry), module(entry->getParentOfType<ModuleOp>()),
      kernels(kernels), arena(arena), tokens(maxTokens) {
  for (auto [op, slot] : assignSlots(module))
    slots[op] = slot;
}

DictionaryAttr Planner::arg(StringRef kind, int64_t value) {
  Builder b(module.getContext());
  return b.getDictionaryAttr(b.getNamedAttr(kind, b.getI64IntegerAttr(value)));
}

int64_t Planner::bytesOf(Value tensor, Type element) const {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!element)
    element = type.getElementType();
  int64_t rows = type.isDynamicDim(0) ? tokens : type.getDimSize(0);
  return rows * rowSize(tensor) * element.getIntOrFloatBitWidth() / 8;
}

/// What has no place gets some address: the kernel is never used, for the
/// plan fails on `unplaced`.
Place Planner::placeOf(Value tensor) {
  Place place = places.lookup(tensor);
  if (place.arg)
    return place;
  unplaced = tensor;
  return named("nowhere");
}

Extent Planner::rowsOf(Value tensor) { return places.lookup(tensor).rows; }

Place Planner::named(StringRef kind) { return {arg(kind, 0)}; }

Place Planner::temporary(int64_t bytes) {
  return {arg("arena", arena.temporary(bytes))};
}

Place Planner::zeroed(int64_t bytes) {
  return {arg("arena", arena.zeroed(bytes))};
}

Place Planner::weight(Operation *symbol, int64_t part, Value layer) {
  Builder b(module.getContext());
  LayerNumber number;
  if (layer)
    number = *layerNumber(layer);
  SmallVector<NamedAttribute> attrs = {b.getNamedAttr(
      "weight",
      b.getI64IntegerAttr(slots.lookup(symbol) + part + number.first))};
  if (number.step)
    attrs.push_back(b.getNamedAttr("layered", b.getBoolAttr(true)));
  if (number.step > 1)
    attrs.push_back(b.getNamedAttr("stride", b.getI64IntegerAttr(number.step)));
  return {b.getDictionaryAttr(attrs)};
}

Place Planner::cachePlace(Value cache, Value layer) {
  Builder b(module.getContext());
  auto type = cast<RankedTensorType>(cache.getType());
  int64_t bytes = type.getNumElements() / type.getDimSize(0) *
                  type.getElementTypeBitWidth() / 8;
  LayerNumber number = *layerNumber(layer);
  SmallVector<NamedAttribute> attrs = {
      b.getNamedAttr("cache", places.lookup(cache).arg.get("cache"))};
  if (number.first || !number.step)
    attrs.push_back(
        b.getNamedAttr("offset", b.getI64IntegerAttr(number.first * bytes)));
  if (number.step)
    attrs.push_back(b.getNamedAttr("layer_bytes",
                                   b.getI64IntegerAttr(number.step * bytes)));
  return {b.getDictionaryAttr(attrs)};
}

/// Fails where the function is no entry: see the class.
LogicalResult Planner::placeArguments() {
  FunctionType type = entry.getFunctionType();
  size_t caches = cacheTypes(type).size();
  auto isIndex = [](Type type) { return type.isIndex(); };
  bool fits =
      entry.getBody().hasOneBlock() && type.getNumInputs() >= 3 + caches &&
      llvm::all_of(type.getInputs().slice(1, 2), isIndex) &&
      (type.getNumResults() == caches || type.getNumResults() == 1 + caches) &&
      llvm::all_of(type.getResults(), llvm::IsaPred<RankedTensorType>);
  if (!fits)
    return entry.emitOpError("expected (ids, position, first, caches...) -> "
                             "(logits, caches...), got ")
           << type;
  places[entry.getArgument(0)] = {arg("ids", 0)};
  for (auto [i, cache] :
       llvm::enumerate(entry.getArguments().take_back(caches)))
    places[cache] = {arg("cache", i)};
  if (type.getNumResults() > caches)
    places[entry.front().getTerminator()->getOperand(0)] = {arg("logits", 0)};
  return success();
}

/// Caches are returned in the order in which they are given: a plan moves
/// none. Logits are a kernel's, of the rows that are wanted.
LogicalResult Planner::checkResults() {
  Operation *end = entry.front().getTerminator();
  OperandRange results = end->getOperands();
  size_t caches = cacheTypes(entry.getFunctionType()).size();
  for (auto [i, cache] : llvm::enumerate(results.take_back(caches)))
    if (places.lookup(cache).arg != arg("cache", i))
      return end->emitOpError("expected to return cache ")
             << i << " in its place, got another tensor; the cuda target "
             << "copies none";
  if (results.size() == caches)
    return success();
  Value logits = results.front();
  auto type = cast<RankedTensorType>(logits.getType());
  if (!logits.getDefiningOp<KernelOp>())
    return emitError(logits.getLoc(), "the logits are no kernel's result; the "
                                      "cuda target copies none");
  if (type.isDynamicDim(0) && rowsOf(logits) != Extent::Logits)
    return emitError(logits.getLoc(),
                     "expected logits of the rows from the argument 'first' "
                     "on, got those of all tokens");
  return success();
}

/// A reshape is the same memory, read with other dimensions. How many rows
/// there are is known only where their dimension stays.
LogicalResult Planner::placeReshape(Operation *reshape) {
  Value source = reshape->getOperand(0), result = reshape->getResult(0);
  auto isStatic = [](Value value) {
    return cast<RankedTensorType>(value.getType()).hasStaticShape();
  };
  if (!keepsRows(reshape) && !(isStatic(source) && isStatic(result)))
    return reshape->emitOpError("expected a reshape that keeps the first "
                                "dimension, the tokens; the cuda target "
                                "supports no other");
  if (places.count(source))
    places[result] = places.lookup(source);
  return success();
}

/// Whether `size` is the number of tokens of the call.
bool Planner::isTokenCount(OpFoldResult size) {
  auto value = dyn_cast<Value>(size);
  auto dim = value ? value.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
  if (!dim || dim.getConstantIndex() != 0 || !places.count(dim.getSource()))
    return false;
  auto type = dyn_cast<RankedTensorType>(dim.getSource().getType());
  return type && type.isDynamicDim(0) &&
         rowsOf(dim.getSource()) == Extent::Tokens;
}

/// Whether `size` is the number of tokens whose logits are wanted.
bool Planner::isLogitCount(OpFoldResult size) {
  auto value = dyn_cast<Value>(size);
  auto difference =
      value ? value.getDefiningOp<arith::SubIOp>() : arith::SubIOp();
  return difference && isTokenCount(difference.getLhs()) &&
         difference.getRhs() == entry.getArgument(2);
}

/// A slice is memory of its source: the rows whose logits are wanted, or some
/// first rows. No other slice has a place.
LogicalResult Planner::placeSlice(tensor::ExtractSliceOp slice) {
  RankedTensorType source = slice.getSourceType(), type = slice.getType();
  Value first = entry.getArgument(2);
  Place place = places.lookup(slice.getSource());
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets(),
                            sizes = slice.getMixedSizes();
  bool whole = type.getRank() == source.getRank() && type.getRank() >= 2 &&
               slice.hasUnitStride();
  for (int64_t d = 1; whole && d < type.getRank(); ++d)
    whole = isConstantIntValue(offsets[d], 0) &&
            getConstantIntValue(sizes[d]) == source.getDimSize(d);
  bool fromFirst = whole && offsets[0] == OpFoldResult(first) &&
                   isLogitCount(sizes[0]) && place.rows == Extent::Tokens;
  bool leading =
      whole && isConstantIntValue(offsets[0], 0) && type.hasStaticShape();
  if (!fromFirst && !leading)
    return slice.emitOpError(
        "expected all columns of the rows from the argument 'first' to the "
        "last token, or of a constant number of first rows; the cuda target "
        "supports no other slice");
  if (fromFirst) {
    place.rows = Extent::Logits;
    place.fromFirstLogit = true;
  }
  places[slice] = place;
  return success();
}

/// Ops outside of kernels may compute indices, never tensors.
LogicalResult Planner::checkScalars(Operation *op) {
  if (llvm::none_of(op->getResultTypes(), llvm::IsaPred<ShapedType>))
    return success();
  return op->emitOpError("is in no kernel: the cuda target cannot run it on "
                         "the host");
}

/// Whether ops of the kernel other than `residual` read its stream: then other
/// blocks may read what a block has updated.
static bool readsStream(KernelOp kernel, ResidualOp residual) {
  return llvm::any_of(residual.getStream().getUsers(), [&](Operation *user) {
    return user != residual && kernel->isProperAncestor(user);
  });
}

/// Whether `user` runs after `op`: behind it in its block, or in one around it.
static bool runsAfter(Operation *user, Operation *op) {
  for (; op; op = op->getParentOp())
    if (Operation *other = op->getBlock()->findAncestorOpInBlock(*user))
      return op->isBeforeInBlock(other);
  return false;
}

/// Whether what lies at the place of `tensor` is read after `op`, also by the
/// next turn of a loop around it.
bool Planner::isReadAfter(Value tensor, Operation *op) {
  if (tensor.getParentRegion() != op->getParentRegion())
    return true;
  Attribute place = places.lookup(tensor).arg;
  return llvm::any_of(places, [&](const auto &entry) {
    return entry.second.arg == place &&
           llvm::any_of(entry.first.getUsers(),
                        [&](Operation *user) { return runsAfter(user, op); });
  });
}

/// Weights, caches and ids stay as they are; a kernel may write over the rest.
static bool isScratch(const Place &place) {
  return place.arg &&
         (place.arg.contains("arena") || place.arg.contains("logits"));
}

/// The tensor over which a kernel may write `value`: a residual stream, or what
/// is normalized row by row.
static Value overwritten(KernelOp kernel, Value value) {
  if (auto residual = value.getDefiningOp<ResidualOp>())
    return readsStream(kernel, residual) ? Value() : residual.getStream();
  if (isa_and_nonnull<RMSNormOp, LayerNormOp>(value.getDefiningOp()))
    return value.getDefiningOp()->getOperand(0);
  return Value();
}

/// Gives the values that a kernel computes their numbers of rows. Reshapes of
/// what comes from outside are places of it.
LogicalResult Planner::placeInside(KernelOp kernel) {
  std::optional<Extent> rows;
  auto isDynamic = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() && type.isDynamicDim(0);
  };
  for (Operation &op : kernel.getBody().front().without_terminator())
    for (Value operand : op.getOperands()) {
      if (!isDynamic(operand) ||
          kernel->isAncestor(operand.getParentRegion()->getParentOp()))
        continue;
      if (rows && *rows != rowsOf(operand))
        return op.emitOpError("reads the rows of all tokens where its kernel "
                              "reads those from the argument 'first' on, or "
                              "the other way round; expected one of the two");
      rows = rowsOf(operand);
    }
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    for (Value result : op.getResults())
      places[result].rows = rows.value_or(Extent::Tokens);
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
      continue;
    if (!keepsRows(&op))
      return op.emitOpError("changes the number of rows inside a kernel; the "
                            "cuda target supports one number of rows in a "
                            "kernel");
    if (failed(placeReshape(&op)))
      return failure();
  }
  return success();
}

/// Logits have a place. Appended caches stay where they are, and so does what
/// is written over if nothing reads it later; anything else is new.
LogicalResult Planner::placeResults(KernelOp kernel) {
  Operation *yield = kernel.getBody().front().getTerminator();
  for (auto [value, result] :
       llvm::zip(yield->getOperands(), kernel.getResults())) {
    Extent rows = rowsOf(value);
    if (auto logits = places.find(result); logits != places.end()) {
      logits->second.rows = rows;
      continue;
    }
    if (auto append = value.getDefiningOp<KVAppendOp>()) {
      if (isReadAfter(append.getCache(), kernel))
        return append.emitOpError("changes a cache that is read as it was "
                                  "later; the cuda target copies none");
      places[result] = places.lookup(append.getCache());
    } else if (Value old = overwritten(kernel, value);
               old && isScratch(places.lookup(old)) &&
               old.getType() == value.getType() && !isReadAfter(old, kernel)) {
      places[result] = places.lookup(old);
    } else {
      places[result] = {temporary(bytesOf(result)).arg, rows};
    }
  }
  return success();
}

/// Products that are normalized lie in between, not rounded, where the launch
/// that finishes them reads them.
void Planner::placeNormalized(const KernelSpec &spec) {
  for (const Output &output : spec.finished) {
    Value normalized = output.products[0]->getOperand(0);
    for (const Output &product : spec.outputs)
      if (product.result == flatten(normalized)) {
        Value raw = product.result;
        Type f32 = Float32Type::get(raw.getContext());
        places[raw] = {temporary(bytesOf(raw, f32)).arg, rowsOf(raw),
                       /*fromFirstLogit=*/false, f32};
        places[normalized] = places.lookup(raw);
      }
  }
}

FailureOr<Steps> Planner::emitFused(const Target &target, KernelSpec &spec) {
  placeNormalized(spec);
  FailureOr<Steps> steps = emitProducts(target, spec);
  if (failed(steps))
    return failure();
  for (auto [i, output] : llvm::enumerate(spec.finished)) {
    Target finish{target.module, *this, target.name + "_finish"};
    if (i)
      finish.name += "_" + std::to_string(i);
    steps->append(emitFinish(finish, output));
  }
  return steps;
}

FailureOr<Steps> Planner::emitProducts(const Target &target, KernelSpec &spec) {
  auto type = cast<RankedTensorType>(spec.input.getType());
  bool few = !type.isDynamicDim(0) && type.getDimSize(0) <= kGemvRows;
  if (few && (!spec.norm || bytesOf(spec.input) <= kGemvShared))
    return emitGemv(target, spec);
  Steps steps;
  Place normalized;
  if (spec.norm) {
    normalized = temporary(bytesOf(spec.input));
    Target norm{target.module, *this, target.name + "_norm"};
    steps = emitNorm(norm, spec.norm, normalized);
    places[spec.input].arg = normalized.arg;
  }
  steps.append(emitGemm(target, spec, spec.norm ? &normalized : nullptr));
  return steps;
}

/// Whether the kernel's only result is that of `op`, the only op in it but for
/// reshapes.
static bool isAlone(KernelOp kernel, Operation *op) {
  bool alone = llvm::all_of(
      kernel.getBody().front().without_terminator(), [&](Operation &other) {
        return &other == op ||
               isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(other);
      });
  Operation *yield = kernel.getBody().front().getTerminator();
  return alone && yield->getNumOperands() == 1 &&
         flatten(yield->getOperand(0)) == op->getResult(0);
}

FailureOr<Steps> Planner::emit(KernelOp kernel) {
  Target target{kernels, *this,
                (kernel.getKernelName() + "_" + entry.getName()).str()};
  Block &body = kernel.getBody().front();
  for (Operation &op : body) {
    if (isa<EmbedOp, GQAOp>(op) && !isAlone(kernel, &op))
      return op.emitOpError("expected no other op but reshapes in its kernel "
                            "on the cuda target");
    if (auto embed = dyn_cast<EmbedOp>(op))
      return emitEmbed(target, embed, kernel.getResult(0));
    if (auto gqa = dyn_cast<GQAOp>(op)) {
      if (takesAttentionMma(gqa))
        return emitAttentionMma(target, gqa, kernel.getResult(0));
      if (takesAttention(gqa))
        return emitAttention(target, gqa, kernel.getResult(0));
      return gqa.emitOpError("has no kernel on the cuda target: its heads are "
                             "not made of 32 equal parts or fewer");
    }
  }
  FailureOr<KernelSpec> spec = KernelSpec::read(kernel);
  if (failed(spec))
    return failure();
  if (spec->input)
    return emitFused(target, *spec);
  if (spec->norm)
    return emitNorm(target, spec->norm, placeOf(kernel.getResult(0)));
  return emitPointwise(target, *spec);
}

/// Kernels take the text's position, and the other text's length, from the
/// state of the call: they must be the function's arguments.
static LogicalResult checkPosition(func::FuncOp entry, Operation *op) {
  Value position, over;
  TypeSwitch<Operation *>(op)
      .Case<GQAOp>([&](GQAOp gqa) {
        position = gqa.getPosition();
        over = gqa.getOver();
      })
      .Case<KVAppendOp, RopeOp, AddRowsOp>(
          [&](auto other) { position = other.getPosition(); });
  if (position && position != entry.getArgument(1))
    return op->emitOpError("expected the position that the function is given");
  if (over && (entry.getNumArguments() < 4 || over != entry.getArgument(3)))
    return op->emitOpError("expected 'over' the source that the function is "
                           "given");
  return success();
}

/// Attention and appends go to the function's caches, at layers that exist;
/// each cache is appended to once.
LogicalResult Planner::checkCaches(KernelOp kernel) {
  llvm::SmallPtrSet<Attribute, 4> appended;
  for (Operation &op : kernel.getBody().front()) {
    SmallVector<Value> caches;
    Value layer;
    if (auto gqa = dyn_cast<GQAOp>(op)) {
      caches = {gqa.getKeyCache(), gqa.getValueCache()};
      layer = gqa.getLayer();
    } else if (auto append = dyn_cast<KVAppendOp>(op)) {
      caches = {append.getCache()};
      layer = append.getLayer();
    }
    for (Value cache : caches) {
      Place place = places.lookup(cache);
      if (!place.arg || !place.arg.contains("cache"))
        return op.emitOpError("expected a cache among the function's "
                              "arguments; the cuda target supports no other");
      if (isa<KVAppendOp>(op) && !appended.insert(place.arg).second)
        return op.emitOpError("is the second append of its kernel to one "
                              "cache; the cuda target copies none");
      auto type = cast<RankedTensorType>(cache.getType());
      if (failed(verifyLayer(&op, layer, type.getDimSize(0))))
        return failure();
    }
    if (failed(checkPosition(entry, &op)))
      return failure();
  }
  return success();
}

LogicalResult Planner::visitKernel(KernelOp kernel, Steps &steps) {
  if (kernel.getNumResults() == 0)
    return success();
  if (failed(checkCaches(kernel)) || failed(placeInside(kernel)) ||
      failed(placeResults(kernel)))
    return failure();
  FailureOr<Steps> emitted = emit(kernel);
  if (failed(emitted))
    return failure();
  if (unplaced)
    return emitError(unplaced.getLoc(),
                     "the cuda target reads this value from device memory, "
                     "but no kernel stores it there");
  llvm::append_range(steps, *emitted);
  return success();
}

LogicalResult Planner::visitLoop(scf::ForOp loop, Steps &steps) {
  std::optional<APInt> trips = loop.getStaticTripCount();
  if (!trips || trips->isZero())
    return loop.emitOpError("has no constant number of layers");
  if (loop->getParentOfType<scf::ForOp>())
    return loop.emitOpError("is inside another loop; the cuda target supports "
                            "no nested loops");
  for (auto [arg, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInits()))
    places[arg] = places.lookup(init);
  Steps body;
  if (failed(walk(*loop.getBody(), body)))
    return failure();
  for (auto [arg, value, result] :
       llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues(),
                 loop.getResults())) {
    if (!(places.lookup(value) == places.lookup(arg)))
      return loop.emitOpError("carries a tensor that no kernel updates in "
                              "place; the cuda target copies none");
    places[result] = places.lookup(arg);
  }
  Builder b(module.getContext());
  steps.push_back(b.getDictionaryAttr(
      {b.getNamedAttr("loop", b.getI64IntegerAttr(trips->getSExtValue())),
       b.getNamedAttr("body", b.getArrayAttr(body))}));
  return success();
}

LogicalResult Planner::visit(Operation &op, Steps &steps) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<KernelOp>([&](auto kernel) { return visitKernel(kernel, steps); })
      .Case<scf::ForOp>([&](auto loop) { return visitLoop(loop, steps); })
      .Case<GetWeightOp>([&](GetWeightOp get) {
        auto symbol = module.lookupSymbol<WeightOp>(get.getWeight());
        Value layer = get.getLayer();
        if (layer && failed(verifyLayer(get, layer, *symbol.getCount())))
          return failure();
        places[get] = weight(symbol, 0, layer);
        return success();
      })
      .Case<GetRopeOp>([&](GetRopeOp get) {
        Operation *table = module.lookupSymbol(get.getTable());
        places[get.getCos()] = weight(table, 0, {});
        places[get.getSin()] = weight(table, 1, {});
        return success();
      })
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
          [&](auto reshape) { return placeReshape(reshape); })
      .Case<tensor::ExtractSliceOp>(
          [&](auto slice) { return placeSlice(slice); })
      .Case<arith::ConstantOp, arith::AddIOp, arith::SubIOp, tensor::DimOp>(
          [&](auto index) { return checkScalars(index); })
      .Case<scf::YieldOp, func::ReturnOp>([](auto) { return success(); })
      .Default([](Operation *other) {
        return other->emitOpError("is in no kernel: the cuda target cannot "
                                  "run it on the host");
      });
}

LogicalResult Planner::walk(Block &block, Steps &steps) {
  for (Operation &op : block)
    if (failed(visit(op, steps)))
      return failure();
  return success();
}

FailureOr<ArrayAttr> Planner::plan() {
  arena.restart();
  Steps steps;
  if (failed(placeArguments()) || failed(walk(entry.front(), steps)) ||
      failed(checkResults()))
    return failure();
  if (arena.overflown())
    return entry.emitOpError("needs more counters than the arena keeps zeroed");
  return ArrayAttr::get(module.getContext(), steps);
}

ArrayAttr Planner::planSampling() {
  arena.restart();
  Value logits = entry.front().getTerminator()->getOperand(0);
  Steps steps = emitSampling({kernels, *this, "sample"}, logits.getLoc(),
                             rowSize(logits));
  return ArrayAttr::get(module.getContext(), steps);
}
