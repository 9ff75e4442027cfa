/// Numbers are read as affine expressions of the numbers that a step knows, so
/// that all ways to compute a number have one form. A place is memory of some
/// kind with such an expression for its offset.
#include "lowering/gpu/host/HostValues.h"

#include "dialect/Attributes.h"
#include "lowering/entry/LayerNumber.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// The symbols of expressions. `Turn` counts the turns of the loop around, from
/// 0.
enum Symbol { Tokens, Position, First, FirstHidden, Source, Turn, kSymbols };

static AffineExpr symbol(Symbol which, MLIRContext *context) {
  return getAffineSymbolExpr(which, context);
}

/// One form for equal expressions; null if the expression is not affine.
static AffineExpr simplify(AffineExpr expr) {
  if (!expr || !expr.isPureAffine())
    return {};
  return simplifyAffineExpr(expr, 0, kSymbols);
}

static AffineExpr sum(AffineExpr a, AffineExpr b) {
  return a && b ? simplify(a + b) : AffineExpr();
}

static AffineExpr product(AffineExpr a, AffineExpr b) {
  auto x = dyn_cast_if_present<AffineConstantExpr>(a),
       y = dyn_cast_if_present<AffineConstantExpr>(b);
  bool fits = !x || !y || llvm::checkedMul(x.getValue(), y.getValue());
  return a && b && fits ? simplify(a * b) : AffineExpr();
}

static AffineExpr quotient(AffineExpr a, AffineExpr b, bool up) {
  auto divisor = dyn_cast_if_present<AffineConstantExpr>(b);
  if (!a || !divisor || divisor.getValue() < 1)
    return {};
  return simplify(up ? a.ceilDiv(b) : a.floorDiv(b));
}

AffineExpr HostValues::read(BlockArgument index) const {
  std::optional<LayerNumber> number = loopNumber(index);
  if (number && std::max(number->step, number->last) > INT32_MAX)
    return {};
  if (number)
    return simplify(constant(number->first) +
                    constant(number->step) * symbol(Turn, context));
  if (!isa<func::FuncOp>(index.getOwner()->getParentOp()))
    return {};
  switch (arguments.all()[index.getArgNumber()]) {
  case EntryArgument::Tokens:
    return symbol(Tokens, context);
  case EntryArgument::Position:
    return symbol(Position, context);
  case EntryArgument::First:
    return symbol(First, context);
  case EntryArgument::FirstHidden:
    return symbol(FirstHidden, context);
  case EntryArgument::Source:
    return symbol(Source, context);
  default:
    return {};
  }
}

/// Null if the number is not such an expression. No number is negative, so all
/// divisions that do not round up round down.
AffineExpr HostValues::read(Value index) const {
  if (std::optional<int64_t> known = getConstantIntValue(index))
    return constant(*known);
  if (auto argument = dyn_cast<BlockArgument>(index))
    return read(argument);
  Operation *op = index.getDefiningOp();
  auto in = [&](unsigned i) { return read(op->getOperand(i)); };
  return TypeSwitch<Operation *, AffineExpr>(op)
      .Case<arith::IndexCastOp, arith::IndexCastUIOp>(
          [&](auto) { return in(0); })
      .Case<arith::AddIOp>([&](auto) { return sum(in(0), in(1)); })
      .Case<arith::SubIOp>(
          [&](auto) { return sum(in(0), product(in(1), constant(-1))); })
      .Case<arith::MulIOp>([&](auto) { return product(in(0), in(1)); })
      .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>(
          [&](auto) { return quotient(in(0), in(1), /*up=*/true); })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(
          [&](auto) { return quotient(in(0), in(1), /*up=*/false); })
      .Case<affine::AffineApplyOp>([&](affine::AffineApplyOp apply) {
        SmallVector<AffineExpr> dims, symbols;
        for (Value operand : apply.getDimOperands())
          dims.push_back(read(operand));
        for (Value operand : apply.getSymbolOperands())
          symbols.push_back(read(operand));
        if (llvm::is_contained(dims, AffineExpr()) ||
            llvm::is_contained(symbols, AffineExpr()))
          return AffineExpr();
        AffineExpr result = apply.getAffineMap().getResult(0);
        return simplify(result.replaceDimsAndSymbols(dims, symbols));
      })
      .Default([](Operation *) { return AffineExpr(); });
}

AffineExpr HostValues::read(OpFoldResult index) const {
  if (auto value = dyn_cast<Value>(index))
    return read(value);
  return constant(*getConstantIntValue(index));
}

static DictionaryAttr with(DictionaryAttr size, StringRef key, int64_t value) {
  Builder b(size.getContext());
  NamedAttrList attrs(size);
  attrs.set(key, b.getI64IntegerAttr(value));
  return attrs.getDictionary(size.getContext());
}

/// A size that is chosen by whether there are at most `to` tokens, or rows of
/// logits, or more.
DictionaryAttr HostValues::chosenSize(arith::SelectOp size) const {
  auto test = size.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!test || test.getPredicate() != arith::CmpIPredicate::ule)
    return {};
  std::optional<int64_t> to = getConstantIntValue(test.getRhs());
  bool beyond = getConstantIntValue(size.getTrueValue()) == 0;
  Value other = beyond ? size.getTrueValue() : size.getFalseValue();
  auto chosen = dyn_cast_if_present<DictionaryAttr>(
      gridSize(beyond ? size.getFalseValue() : size.getTrueValue()));
  auto counted = dyn_cast_if_present<DictionaryAttr>(gridSize(test.getLhs()));
  StringRef bound = beyond ? "from" : "to";
  if (!to || !chosen || !counted || getConstantIntValue(other) != 0 ||
      chosen.get(bound))
    return {};
  StringRef name = counted.begin()->getName();
  if (!chosen.get(name) || cast<IntegerAttr>(counted.get(name)).getInt() != 1)
    return {};
  return with(chosen, bound, beyond ? *to + 1 : *to);
}

Attribute HostValues::gridSize(Value size) const {
  Builder b(context);
  if (auto choice = size.getDefiningOp<arith::SelectOp>())
    return chosenSize(choice);
  if (auto larger = size.getDefiningOp<arith::MaxUIOp>()) {
    auto counted =
        dyn_cast_if_present<DictionaryAttr>(gridSize(larger.getLhs()));
    std::optional<int64_t> least = getConstantIntValue(larger.getRhs());
    return counted && counted.size() == 1 && least
               ? with(counted, "least", *least)
               : DictionaryAttr();
  }
  AffineExpr expr = read(size);
  if (auto known = dyn_cast_if_present<AffineConstantExpr>(expr))
    return known.getValue() < 0 ? Attribute()
                                : b.getI64IntegerAttr(known.getValue());
  int64_t divisor = 1;
  auto division = dyn_cast_if_present<AffineBinaryOpExpr>(expr);
  if (division)
    if (auto rhs = dyn_cast<AffineConstantExpr>(division.getRHS()))
      divisor = rhs.getValue();
  AffineExpr tokens = symbol(Tokens, context), over = constant(divisor);
  AffineExpr logits = simplify(tokens - symbol(First, context));
  AffineExpr hidden = simplify(tokens - symbol(FirstHidden, context));
  for (auto [name, count] :
       {std::pair("tokens", tokens), {"logits", logits}, {"hidden", hidden}}) {
    AffineExpr padded = sum(count, constant(divisor - 1));
    bool is = expr && (expr == count || expr == quotient(count, over, true) ||
                       expr == quotient(padded, over, false));
    if (is)
      return b.getDictionaryAttr(b.getNamedAttr(
          name, b.getI64IntegerAttr(expr == count ? 1 : divisor)));
  }
  return {};
}

std::optional<int64_t> cria::simt::slotOf(func::FuncOp function) {
  for (StringRef name : {kWeightAttribute, kRopeAttribute})
    if (auto what = function->getAttrOfType<DictionaryAttr>(name))
      if (auto slot = what.getAs<IntegerAttr>("slot"))
        return slot.getInt();
  return std::nullopt;
}

/// The slots of each layer of a weight: one, or one for each expert. The
/// matrices of a layer's experts lie one after the other in a GPU's memory.
static int64_t slotsOfLayer(func::FuncOp function) {
  auto what = function->getAttrOfType<DictionaryAttr>(kWeightAttribute);
  auto experts = what ? what.getAs<IntegerAttr>("experts") : IntegerAttr();
  return experts ? experts.getInt() : 1;
}

func::FuncOp cria::simt::calledWeight(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  return callee && slotOf(callee) ? callee : func::FuncOp();
}

static int64_t elementBytes(Value memref) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  Operation *scope = memref.getParentRegion()->getParentOp();
  return DataLayout::closest(scope).getTypeSize(element);
}

/// The elements of a cache, or of one page of a paged cache.
static int64_t cacheElements(MemRefType cache) {
  int64_t elements = 1;
  for (int64_t size : cache.getShape())
    elements *= ShapedType::isDynamic(size) ? 1 : size;
  return elements;
}

/// Memory of an argument of the entry: loops carry none.
HostValues::Memory HostValues::find(BlockArgument argument) const {
  ArrayRef<EntryArgument> all = arguments.all();
  unsigned place = argument.getArgNumber();
  switch (all[place]) {
  case EntryArgument::Cache: {
    Memory cache = memory("cache", constant(llvm::count(all.take_front(place),
                                                        EntryArgument::Cache)));
    cache.size = cacheElements(cast<MemRefType>(argument.getType())) *
                 elementBytes(argument);
    return cache;
  }
  case EntryArgument::Arena:
    return memory("arena", constant(0), kZeroed);
  default:
    return memory(EntryArguments::nameOf(all[place]), constant(0));
  }
}

/// A weight, or a RoPE table: other calls have been refused before.
HostValues::Memory HostValues::find(func::CallOp call) const {
  func::FuncOp weight = calledWeight(call);
  AffineExpr number = constant(*slotOf(weight));
  if (call.getNumOperands())
    number = sum(number, product(read(call.getOperand(0)),
                                 constant(slotsOfLayer(weight))));
  return memory("weight", number);
}

/// Bytes from the source's first element to the view's.
AffineExpr HostValues::offsetOf(memref::SubViewOp view) const {
  auto [strides, ignored] = view.getSourceType().getStridesAndOffset();
  int64_t bytes = elementBytes(view.getSource());
  AffineExpr offset = constant(0);
  for (auto [index, stride] : llvm::zip(view.getMixedOffsets(), strides)) {
    AffineExpr part = read(index);
    if (part == constant(0))
      continue;
    if (ShapedType::isDynamic(stride))
      return {};
    offset = sum(offset, product(part, constant(stride * bytes)));
  }
  return offset;
}

FailureOr<HostValues::Memory> HostValues::find(Value memref,
                                               Expected expected) const {
  if (auto argument = dyn_cast<BlockArgument>(memref))
    return find(argument);
  Operation *op = memref.getDefiningOp();
  if (auto global = dyn_cast<memref::GetGlobalOp>(op))
    return memory("arena", constant(0), globals.lookup(global.getName()));
  if (auto call = dyn_cast<func::CallOp>(op))
    return find(call);
  if (!isa<memref::ViewOp, memref::SubViewOp, memref::CastOp,
           memref::ReinterpretCastOp, memref::CollapseShapeOp,
           memref::ExpandShapeOp, memref::AssumeAlignmentOp>(op))
    return expected() << "lie in a weight, a global or an argument of the "
                         "entry, got a result of '"
                      << op->getName() << "'";
  FailureOr<Memory> source = find(op->getOperand(0), expected);
  if (failed(source))
    return failure();
  if (auto view = dyn_cast<memref::ViewOp>(op))
    source->base = sum(source->base, read(view.getByteShift()));
  if (auto view = dyn_cast<memref::SubViewOp>(op))
    source->offset = sum(source->offset, offsetOf(view));
  if (auto view = dyn_cast<memref::ReinterpretCastOp>(op))
    source->offset = product(read(view.getMixedOffsets().front()),
                             constant(elementBytes(memref)));
  return source;
}

namespace {
/// first + step * turn.
struct Linear {
  int64_t first, step;
};
} // namespace

/// Nothing if the expression has other numbers than the turn, or is below zero.
static std::optional<Linear> linear(AffineExpr expr) {
  if (!expr)
    return std::nullopt;
  MLIRContext *context = expr.getContext();
  auto at = [&](int64_t turn) {
    SmallVector<AffineExpr> values;
    for (int i = 0; i < Turn; ++i)
      values.push_back(symbol(static_cast<Symbol>(i), context));
    values.push_back(getAffineConstantExpr(turn, context));
    return dyn_cast_if_present<AffineConstantExpr>(
        simplify(expr.replaceSymbols(values)));
  };
  AffineConstantExpr first = at(0), second = at(1);
  if (!first || !second || first.getValue() < 0)
    return std::nullopt;
  int64_t step = second.getValue() - first.getValue();
  AffineExpr line = simplify(first + step * symbol(Turn, context));
  if (step < 0 || line != expr)
    return std::nullopt;
  return Linear{first.getValue(), step};
}

/// {weight = 5, layered, stride = 2}.
static DictionaryAttr weightPlace(Builder b, Linear slot) {
  SmallVector<NamedAttribute> attrs = {
      b.getNamedAttr("weight", b.getI64IntegerAttr(slot.first))};
  if (slot.step)
    attrs.push_back(b.getNamedAttr("layered", b.getBoolAttr(true)));
  if (slot.step > 1)
    attrs.push_back(b.getNamedAttr("stride", b.getI64IntegerAttr(slot.step)));
  return b.getDictionaryAttr(attrs);
}

/// {cache = 0, offset = 64, layer_bytes = 1024}.
static DictionaryAttr cachePlace(Builder b, int64_t cache, Linear address) {
  SmallVector<NamedAttribute> attrs = {
      b.getNamedAttr("cache", b.getI64IntegerAttr(cache))};
  if (address.first || !address.step)
    attrs.push_back(
        b.getNamedAttr("offset", b.getI64IntegerAttr(address.first)));
  if (address.step)
    attrs.push_back(
        b.getNamedAttr("layer_bytes", b.getI64IntegerAttr(address.step)));
  return b.getDictionaryAttr(attrs);
}

FailureOr<DictionaryAttr> HostValues::place(Operation *op, unsigned i,
                                            Value memref) const {
  auto expected = [&] {
    return op->emitOpError("expected argument ") << i << " to ";
  };
  FailureOr<Memory> found = find(memref, expected);
  if (failed(found))
    return failure();
  AffineExpr address = sum(found->base, found->offset);
  int64_t own = cast<MemRefType>(memref.getType()).getStridesAndOffset().second;
  if (!ShapedType::isDynamic(own))
    address = sum(address, constant(-own * elementBytes(memref)));
  std::optional<Linear> number = linear(found->number), at = linear(address);
  if (!number)
    return expected() << "be of a constant layer, or one that a loop between "
                         "constants counts";
  if (!at)
    return expected() << "begin at a constant, or at one that a loop between "
                         "constants counts";
  Builder b(context);
  auto loop = op->getParentOfType<scf::ForOp>();
  int64_t turns = loop ? loop.getStaticTripCount()->getSExtValue() : 1;
  int64_t last = at->first + (turns - 1) * at->step;
  if (found->kind == "cache" && last >= found->size)
    return expected() << "begin below byte " << found->size
                      << " of its cache, got " << last;
  if (found->kind == "cache")
    return cachePlace(b, number->first, *at);
  if (found->kind == "arena" && !at->step)
    return b.getDictionaryAttr(
        b.getNamedAttr("arena", b.getI64IntegerAttr(at->first)));
  if (found->kind == "arena")
    return expected() << "lie at one place of the arena in all turns";
  if (at->first || at->step)
    return expected() << "begin at byte 0 of '" << found->kind << "'";
  if (found->kind == "weight")
    return weightPlace(b, *number);
  return b.getDictionaryAttr(
      b.getNamedAttr(found->kind, b.getI64IntegerAttr(0)));
}
