#include "lowering/gpu/build/Launch.h"
#include "lowering/entry/Entry.h"

#include "dialect/Attributes.h"
#include "lowering/entry/LayerNumber.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

//===----------------------------------------------------------------------===//
// The launching function
//===----------------------------------------------------------------------===//

static MemRefType memoryOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

memref::GlobalOp simt::createZeros(OpBuilder b, Location loc, const Twine &name,
                                   int64_t count) {
  auto type = MemRefType::get({count}, b.getI32Type());
  auto zeros = DenseElementsAttr::get(
      RankedTensorType::get({count}, b.getI32Type()), b.getI32IntegerAttr(0));
  return memref::GlobalOp::create(b, loc, name.str(),
                                  b.getStringAttr("private"), type, zeros,
                                  /*constant=*/false,
                                  /*alignment=*/nullptr);
}

KernelFunction::KernelFunction(func::FuncOp kernel, Block &kernels,
                               const Chips &chips)
    : kernel(kernel), kernels(kernels), chips(chips),
      elements(kernel.getContext()),
      host(kernel.getLoc(), kernel.getContext()) {
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    types.push_back(isa<RankedTensorType>(type) ? memoryOf(type) : type);
  host.setInsertionPointAfter(kernel);
  function = func::FuncOp::create(host, (kernel.getName() + ".launch").str(),
                                  host.getFunctionType(types, {}));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  host.setInsertionPointToEnd(body);
  for (auto [old, now] : llvm::zip(kernel.getArguments(), body->getArguments()))
    (now.getType().isIndex() ? numbers : memories)[old] = now;
  if (auto uses = kernel.getSymbolUses(kernel->getParentOp()))
    for (SymbolTable::SymbolUse use : *uses)
      if (auto call = dyn_cast<func::CallOp>(use.getUser()))
        calls.push_back(call);
}

std::optional<int64_t> KernelFunction::mostTokens() const {
  return chunkOf(kernel);
}

void KernelFunction::finish() { func::ReturnOp::create(host); }

void KernelFunction::erase() {
  for (Operation *op : made)
    op->erase();
  function.erase();
}

Value KernelFunction::constant(int64_t value) {
  return arith::ConstantIndexOp::create(host, value);
}

Value KernelFunction::number(Value index) {
  if (Value known = numbers.lookup(index))
    return known;
  Operation *op = index.getDefiningOp();
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    Size size = sizeOf(dim.getSource(), *dim.getConstantIndex());
    return numbers[index] = number(size);
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, number(operand));
  return numbers[index] = host.clone(*op, mapping)->getResult(0);
}

Value KernelFunction::number(const Size &size) {
  if (size.isConstant())
    return constant(size.constant);
  if (size.dim < 0)
    return number(size.value);
  // Dimensions that a reshape merges: the product of their sizes.
  if (auto merged = size.value.getDefiningOp<tensor::CollapseShapeOp>()) {
    Value product = constant(1);
    for (int64_t dim : merged.getReassociationIndices()[size.dim])
      product = host.createOrFold<arith::MulIOp>(
          product, number(sizeOf(merged.getSrc(), dim)));
    return product;
  }
  return host.createOrFold<memref::DimOp>(memory(size.value), size.dim);
}

Value KernelFunction::allocate(Value tensor) {
  SmallVector<Value> sizes;
  for (const Size &size : sizesOf(tensor))
    if (!size.isConstant())
      sizes.push_back(number(size));
  return memories[tensor] =
             memref::AllocOp::create(host, memoryOf(tensor.getType()), sizes);
}

Value KernelFunction::allocate(Type element, int64_t count) {
  return memref::AllocOp::create(host, MemRefType::get({count}, element));
}

Value KernelFunction::zeroed(int64_t count) {
  std::string name = (kernel.getName() + ".zeros").str();
  if (globals++)
    name += std::to_string(globals);
  memref::GlobalOp global =
      createZeros(OpBuilder(kernel), host.getLoc(), name, count);
  made.push_back(global);
  return memref::GetGlobalOp::create(host, global.getType(), name);
}

bool KernelFunction::isLayer(Value index) const {
  auto argument = dyn_cast<BlockArgument>(index);
  return argument && !calls.empty() &&
         llvm::all_of(calls, [&](func::CallOp call) {
           return layerNumber(call.getOperand(argument.getArgNumber()));
         });
}

Value KernelFunction::blocks(const Size &size, int64_t each, int64_t least) {
  if (size.isConstant())
    return constant(
        std::max<int64_t>(least, llvm::divideCeil(size.constant, each)));
  Value blocks = number(size);
  if (each > 1)
    blocks = arith::CeilDivUIOp::create(host, blocks, constant(each));
  if (least > 1)
    blocks = arith::MaxUIOp::create(host, blocks, constant(least));
  return blocks;
}

Value KernelFunction::blocksWhere(const Size &size, int64_t bound, bool beyond,
                                  Value blocks) {
  Value within = arith::CmpIOp::create(host, arith::CmpIPredicate::ule,
                                       number(size), constant(bound));
  Value none = constant(0);
  return arith::SelectOp::create(host, within, beyond ? none : blocks,
                                 beyond ? blocks : none);
}

//===----------------------------------------------------------------------===//
// One launch
//===----------------------------------------------------------------------===//

KernelLaunch::KernelLaunch(ImplicitLocOpBuilder &host, Block &kernels,
                           const Twine &name, int64_t threads)
    : b(host.getLoc(), kernels, name.str(), threads), host(host) {}

Value KernelLaunch::param(Value passed, llvm::function_ref<Value()> add) {
  Value &param = params[passed];
  if (!param) {
    param = add();
    operands.push_back(passed);
  }
  return param;
}

Value KernelLaunch::param(Value memory) {
  return param(memory,
               [&] { return b.addParam(cast<MemRefType>(memory.getType())); });
}

Value KernelLaunch::tensorMap(const Rows &rows, const TensorMap &map) {
  Value &memory = mapped[rows.base];
  Value own = rows.base;
  if (memory) {
    // The first map took the place of the parameter.
    own = param(memory);
  } else {
    auto found = llvm::find_if(
        params, [&](auto &entry) { return entry.second == rows.base; });
    assert(found != params.end() && "not rows of a parameter");
    memory = found->first;
  }
  // Code that loads elements of the memory takes it as another parameter.
  params.erase(memory);
  return b.setTensorMap(own, map);
}

Rows KernelLaunch::rows(Value memory, int64_t stride) {
  return {param(memory), cast<MemRefType>(memory.getType()).getElementType(),
          stride};
}

void KernelLaunch::finish(ArrayRef<Value> grid, int64_t sharedBytes) {
  b.finish();
  SmallVector<Value> sizes(grid);
  Value one = arith::ConstantIndexOp::create(host, 1);
  sizes.resize(3, one);
  Value shared;
  if (sharedBytes)
    shared = arith::ConstantIntOp::create(host, host.getI32Type(), sharedBytes);
  Value threads = arith::ConstantIndexOp::create(host, b.threads());
  gpu::LaunchFuncOp::create(
      host, b.function, gpu::KernelDim3{sizes[0], sizes[1], sizes[2]},
      gpu::KernelDim3{threads, one, one}, shared, operands);
}

Launch::Launch(KernelFunction &of, const Twine &suffix, int64_t threads)
    : KernelLaunch(of.host, of.kernels, of.kernel.getName() + suffix, threads),
      of(of) {
  of.made.push_back(b.function);
}

void Launch::erase() {
  of.made.pop_back();
  b.function.erase();
}

/// A number of the kernel function in this kernel, computed from parameters at
/// its entry.
Value Launch::index(Value number) {
  if (Value known = numbers.lookup(number))
    return known;
  Operation *op = number.getDefiningOp();
  auto dim = dyn_cast_or_null<tensor::DimOp>(op);
  if (!op || dim) {
    return numbers[number] =
               param(of.number(number), [&] { return b.addNumber(); });
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, index(operand));
  OpBuilder::InsertionGuard guard(b);
  if (lastNumber)
    b.setInsertionPointAfter(lastNumber);
  else
    b.setInsertionPointToStart(&b.function.front());
  lastNumber = b.clone(*op, mapping);
  return numbers[number] = lastNumber->getResult(0);
}

Value Launch::number(Value index) {
  if (std::optional<int64_t> known = getConstantIntValue(index))
    return b.i32(*known);
  return b.create<arith::IndexCastOp>(b.getI32Type(), this->index(index));
}

Value Launch::number(const Size &size) {
  if (size.isConstant())
    return b.i32(size.constant);
  if (size.dim < 0)
    return number(size.value);
  Value index = param(of.number(size), [&] { return b.addNumber(); });
  return b.create<arith::IndexCastOp>(b.getI32Type(), index);
}

/// The dimension that counts layers: the first one, or in paged caches the
/// second one, after the pages.
std::optional<unsigned> Launch::layerOf(ArrayRef<AffineExpr> at) {
  for (unsigned dim = 0; dim < 2 && dim + 1 < at.size(); ++dim)
    if (auto symbol = dyn_cast<AffineSymbolExpr>(at[dim]))
      if (Value number = of.elements.symbol(symbol.getPosition());
          number && of.isLayer(number))
        return dim;
  return std::nullopt;
}

/// The part of memory that belongs to a layer. Dimension `dim` counts layers.
Value Launch::partOf(Value memory, unsigned dim, Value layer) {
  Value &part = layers[{memory, layer}];
  if (part)
    return part;
  ImplicitLocOpBuilder &h = of.host;
  auto type = cast<MemRefType>(memory.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), h.getIndexAttr(0)),
      strides(type.getRank(), h.getIndexAttr(1)), sizes;
  for (auto [i, size] : llvm::enumerate(type.getShape()))
    sizes.push_back(ShapedType::isDynamic(size)
                        ? h.createOrFold<memref::DimOp>(memory, i)
                        : OpFoldResult(h.getIndexAttr(size)));
  offsets[dim] = of.number(layer);
  sizes[dim] = h.getIndexAttr(1);
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + dim);
  MemRefType reduced = memref::SubViewOp::inferRankReducedResultType(
      shape, type, offsets, sizes, strides);
  return part = memref::SubViewOp::create(h, h.getLoc(), reduced, memory,
                                          offsets, sizes, strides);
}

Rows Launch::memoryOf(Value tensor) {
  if (auto found = held.find(tensor); found != held.end())
    return found->second;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(tensor.getType()).getShape();
  return rows(of.memory(tensor), shape.empty() ? 1 : shape.back());
}

Launch::Place Launch::place(const Element &element) {
  Value memory = of.memory(element.tensor);
  SmallVector<AffineExpr> at(element.at);
  if (holds(element.tensor)) {
    auto type = cast<RankedTensorType>(element.tensor.getType());
    AffineExpr row = of.elements.constant(0), column = row;
    for (size_t i = 1; i + 1 < at.size(); ++i)
      row = row * type.getDimSize(i) + at[i];
    return {memoryOf(element.tensor), row, at.size() > 1 ? at.back() : column};
  }
  ArrayRef<int64_t> shape = cast<MemRefType>(memory.getType()).getShape();
  if (auto dim = layerOf(at)) {
    unsigned layer = cast<AffineSymbolExpr>(at[*dim]).getPosition();
    memory = partOf(memory, *dim, of.elements.symbol(layer));
    at[*dim] = of.elements.constant(0);
  }
  int64_t stride =
      shape.empty() || ShapedType::isDynamic(shape.back()) ? 1 : shape.back();
  Place place{rows(memory, stride), of.elements.constant(0),
              at.empty() ? of.elements.constant(0) : at.back()};
  if (at.size() > 1) {
    place.row = at[0];
    for (size_t i = 1; i + 1 < at.size(); ++i)
      place.row = place.row * shape[i] + at[i];
  }
  return place;
}

/// A number of a turn (Elements.h), where the loop of the turns is one of
/// `loops`. If `number` is a tensor, the element for the first loop.
Value Launch::numberOfTurn(Value number, ValueRange loops) {
  if (std::optional<int64_t> known = getConstantIntValue(number))
    return b.i32(*known);
  if (auto loop = of.elements.counter(number))
    return loops[*loop];
  if (isa<RankedTensorType>(number.getType()))
    return load({number, {of.elements.dim(0)}}, loops);
  Operation *op = number.getDefiningOp();
  if (!op || (isa<func::FuncOp>(op->getParentOp()) && !readsTensor(op)))
    return this->number(number);
  auto in = [&](unsigned i) { return numberOfTurn(op->getOperand(i), loops); };
  if (auto read = dyn_cast<tensor::ExtractOp>(op)) {
    int64_t stride = read.getTensor().getType().getShape().back();
    bool isRow = read.getIndices().size() == 1;
    return b.load(rows(of.memory(read.getTensor()), isRow ? 1 : stride),
                  isRow ? b.i32(0) : in(1), in(isRow ? 1 : 2), 1,
                  Access::ReadOnly);
  }
  return TypeSwitch<Operation *, Value>(op)
      .Case<arith::IndexCastOp>([&](auto) { return in(0); })
      .Case<arith::AddIOp>([&](auto) { return b.add(in(0), in(1)); })
      .Case<arith::DivUIOp>([&](auto div) {
        return b.div(in(0), *getConstantIntValue(div.getRhs()));
      })
      .Case<arith::RemUIOp>([&](auto rem) {
        return b.rem(in(0), *getConstantIntValue(rem.getRhs()));
      });
}

Value Launch::value(AffineExpr expr, ValueRange loops) {
  if (auto known = dyn_cast<AffineConstantExpr>(expr))
    return b.i32(known.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return loops[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    unsigned place = symbol.getPosition();
    if (const Element &chosen = of.elements.chosen(place); chosen.tensor)
      return load(chosen, loops);
    return numberOfTurn(of.elements.symbol(place), loops);
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value x = value(binary.getLHS(), loops);
  auto by = dyn_cast<AffineConstantExpr>(binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return by ? b.add(x, by.getValue())
              : b.add(x, value(binary.getRHS(), loops));
  case AffineExprKind::Mul:
    return by ? b.mul(x, by.getValue())
              : b.mul(x, value(binary.getRHS(), loops));
  case AffineExprKind::FloorDiv:
    return b.div(x, by.getValue());
  case AffineExprKind::Mod:
    return b.rem(x, by.getValue());
  default:
    return b.ceilDiv(x, by.getValue());
  }
}

Address Launch::address(const Element &element, ValueRange loops) {
  Place at = place(element);
  return b.address(at.rows, value(at.row, loops), value(at.column, loops));
}

Value Launch::load(const Element &element, ValueRange loops, int64_t lanes) {
  Place from = place(element);
  return b.load(from.rows, value(from.row, loops), value(from.column, loops),
                lanes, Access::ReadOnly);
}

void Launch::store(Value x, const Element &element, ValueRange loops) {
  Place to = place(element);
  b.store(x, to.rows, value(to.row, loops), value(to.column, loops));
}

/// Whether an expression is a loop's number, plus terms that do not depend on
/// it.
static bool counts(AffineExpr expr, AffineExpr dim, unsigned loop) {
  auto sum = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!sum || sum.getKind() != AffineExprKind::Add)
    return expr == dim;
  AffineExpr x = sum.getLHS(), y = sum.getRHS();
  return (counts(x, dim, loop) && !y.isFunctionOfDim(loop)) ||
         (counts(y, dim, loop) && !x.isFunctionOfDim(loop));
}

int64_t simt::accessWidth(const Launch::Place &place, unsigned loop,
                          int64_t terms) {
  int64_t width = std::gcd<int64_t>(
      terms, 128 / place.rows.element.getIntOrFloatBitWidth());
  AffineExpr dim = getAffineDimExpr(loop, place.column.getContext());
  if (!counts(place.column, dim, loop) || place.row.isFunctionOfDim(loop))
    return 1;
  AffineExpr first =
      place.column.replace(dim, getAffineConstantExpr(0, dim.getContext()));
  AffineExpr start = place.row * place.rows.stride + first;
  while (width > 1 && !start.isMultipleOf(width))
    width /= 2;
  return width;
}
