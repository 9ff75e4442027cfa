#include "lowering/gpu/Planner.h"

#include "lowering/Signature.h"
#include "lowering/Slots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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

Planner::Planner(ModuleOp module, Block &kernels, Arena &arena,
                 int64_t maxTokens)
    : module(module), kernels(kernels), arena(arena), tokens(maxTokens) {
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

Place Planner::placeOf(Value tensor) { return places.lookup(tensor); }

Place Planner::named(StringRef kind) { return {arg(kind, 0)}; }

Place Planner::temporary(int64_t bytes) {
  return {arg("arena", arena.temporary(bytes))};
}

Place Planner::zeroed(int64_t bytes) {
  return {arg("arena", arena.zeroed(bytes))};
}

/// The layer as a constant, or as what a loop around it makes of its number:
/// the first, and the layers from one turn to the next. Else nothing.
static std::optional<LayerNumber> layerNumber(Value layer) {
  if (std::optional<int64_t> known = getConstantIntValue(layer))
    return LayerNumber{*known, 0};
  if (auto sum = layer.getDefiningOp<arith::AddIOp>()) {
    auto number = layerNumber(sum.getLhs());
    std::optional<int64_t> more = getConstantIntValue(sum.getRhs());
    if (!number || !more)
      return std::nullopt;
    return LayerNumber{number->first + *more, number->step};
  }
  auto argument = dyn_cast<BlockArgument>(layer);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (!loop || layer != loop.getInductionVar())
    return std::nullopt;
  std::optional<int64_t> first = getConstantIntValue(loop.getLowerBound()),
                         step = getConstantIntValue(loop.getStep());
  if (!first || !step)
    return std::nullopt;
  return LayerNumber{*first, *step};
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

void Planner::placeArguments(func::FuncOp entry) {
  places[entry.getArgument(0)] = {arg("ids", 0)};
  size_t caches = cacheTypes(entry.getFunctionType()).size();
  for (auto [i, cache] :
       llvm::enumerate(entry.getArguments().take_back(caches)))
    places[cache] = {arg("cache", i)};
  if (entry.getNumResults() > caches)
    places[entry.front().getTerminator()->getOperand(0)] = {arg("logits", 0)};
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

/// The tensor over which a kernel may write `value`: a residual stream, or what
/// is normalized row by row.
static Value overwritten(KernelOp kernel, Value value) {
  if (auto residual = value.getDefiningOp<ResidualOp>())
    return readsStream(kernel, residual) ? Value() : residual.getStream();
  if (isa_and_nonnull<RMSNormOp, LayerNormOp>(value.getDefiningOp()))
    return value.getDefiningOp()->getOperand(0);
  return Value();
}

/// Logits have a place. Appended caches stay where they are, and so does what
/// is written over if nothing reads it later; anything else is new.
LogicalResult Planner::placeResults(KernelOp kernel) {
  Operation *yield = kernel.getBody().front().getTerminator();
  for (auto [value, result] :
       llvm::zip(yield->getOperands(), kernel.getResults())) {
    if (places.count(result))
      continue;
    if (auto append = value.getDefiningOp<KVAppendOp>()) {
      if (isReadAfter(append.getCache(), kernel))
        return append.emitOpError("changes a cache that is read as it was "
                                  "later; the cuda target copies none");
      places[result] = places.lookup(append.getCache());
    } else if (Value old = overwritten(kernel, value);
               old && places.count(old) && old.getType() == value.getType() &&
               !isReadAfter(old, kernel)) {
      places[result] = places.lookup(old);
    } else {
      places[result] = temporary(bytesOf(result));
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
      if (product.products[0]->getResult(0) == flatten(normalized)) {
        Value raw = product.result;
        Type f32 = Float32Type::get(raw.getContext());
        places[raw] = {temporary(bytesOf(raw, f32)).arg,
                       placeOf(spec.input).fromFirstLogit, f32};
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
    // Its rows are counted as its source's are.
    places[spec.input] = {normalized.arg,
                          placeOf(spec.norm->getOperand(0)).fromFirstLogit};
  }
  steps.append(emitGemm(target, spec, spec.norm ? &normalized : nullptr));
  return steps;
}

FailureOr<Steps> Planner::emit(KernelOp kernel) {
  Target target{kernels, *this,
                (kernel.getKernelName() + "_" + entryName).str()};
  Block &body = kernel.getBody().front();
  for (Operation &op : body) {
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

/// A plan knows constant layers, and those that a loop counts.
static LogicalResult checkLayer(Operation *op, Value layer) {
  if (layerNumber(layer))
    return success();
  return op->emitOpError("reads a layer that is neither constant nor a number "
                         "of a loop; the cuda target knows no other");
}

/// Launches over rows whose logits are wanted count these, and make the logits.
LogicalResult Planner::checkRows(KernelOp kernel) {
  bool ends = llvm::all_of(kernel->getUsers(), llvm::IsaPred<func::ReturnOp>);
  WalkResult walked = kernel.walk([&](Operation *op) {
    bool some = llvm::any_of(op->getOperands(), [&](Value operand) {
      return places.lookup(operand).fromFirstLogit;
    });
    if (!some || ends)
      return WalkResult::advance();
    op->emitOpError("is of the rows whose logits are wanted, and makes no "
                    "logits; the cuda target takes those rows there alone");
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

LogicalResult Planner::visitKernel(KernelOp kernel, Steps &steps) {
  WalkResult layers = kernel.walk([&](Operation *op) {
    Value layer;
    if (auto gqa = dyn_cast<GQAOp>(op))
      layer = gqa.getLayer();
    else if (auto append = dyn_cast<KVAppendOp>(op))
      layer = append.getLayer();
    return layer && failed(checkLayer(op, layer)) ? WalkResult::interrupt()
                                                  : WalkResult::advance();
  });
  if (layers.wasInterrupted())
    return failure();
  if (failed(checkRows(kernel)) || failed(placeResults(kernel)))
    return failure();
  FailureOr<Steps> emitted = emit(kernel);
  if (failed(emitted))
    return failure();
  llvm::append_range(steps, *emitted);
  return success();
}

LogicalResult Planner::visitLoop(scf::ForOp loop, Steps &steps) {
  std::optional<APInt> trips = loop.getStaticTripCount();
  if (!trips)
    return loop.emitOpError("has no constant number of layers");
  for (auto [arg, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInits()))
    places[arg] = places.lookup(init);
  Steps body;
  if (failed(walk(*loop.getBody(), body)))
    return failure();
  for (auto [arg, value, result] :
       llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues(),
                 loop.getResults())) {
    if (places.lookup(value).arg != places.lookup(arg).arg)
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
        if (get.getLayer() && failed(checkLayer(get, get.getLayer())))
          return failure();
        places[get] =
            weight(module.lookupSymbol(get.getWeight()), 0, get.getLayer());
        return success();
      })
      .Case<GetRopeOp>([&](GetRopeOp get) {
        Operation *table = module.lookupSymbol(get.getTable());
        places[get.getCos()] = weight(table, 0, {});
        places[get.getSin()] = weight(table, 1, {});
        return success();
      })
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp>([&](auto reshape) {
        places[reshape] = placeOf(reshape.getSrc());
        return success();
      })
      .Case<tensor::ExtractSliceOp>([&](tensor::ExtractSliceOp slice) {
        places[slice] = placeOf(slice.getSource());
        places[slice].fromFirstLogit = true;
        return success();
      })
      .Case<arith::ConstantOp, arith::AddIOp, arith::SubIOp, tensor::DimOp,
            scf::YieldOp, func::ReturnOp>([](auto) { return success(); })
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

FailureOr<ArrayAttr> Planner::plan(func::FuncOp entry) {
  entryName = entry.getName().str();
  arena.restart();
  for (Value result : entry.front().getTerminator()->getOperands())
    if (cast<RankedTensorType>(result.getType()).getRank() == 2 &&
        !result.getDefiningOp<KernelOp>())
      return emitError(result.getLoc(), "the logits are no kernel's result; "
                                        "the cuda target copies none");
  placeArguments(entry);
  Steps steps;
  if (failed(walk(entry.front(), steps)))
    return failure();
  if (arena.overflown())
    return entry.emitOpError("needs more counters than the arena keeps zeroed");
  return ArrayAttr::get(module.getContext(), steps);
}

ArrayAttr Planner::planSampling(func::FuncOp entry) {
  arena.restart();
  Value logits = entry.front().getTerminator()->getOperand(0);
  Steps steps = emitSampling({kernels, *this, "sample"}, logits.getLoc(),
                             rowSize(logits));
  return ArrayAttr::get(module.getContext(), steps);
}
