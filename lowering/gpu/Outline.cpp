#include "lowering/gpu/Outline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace cria::cuda;

Outline::Outline(gpu::GPUModuleOp module, StringRef name, Operation *before,
                 int64_t threads, const Spills &spills)
    : before(before), threads(threads), spills(spills), b(before) {
  std::string symbol = name.str();
  // As PTX spells names.
  for (char &c : symbol)
    if (!llvm::isAlnum(c))
      c = '_';
  b.setInsertionPointToEnd(module.getBody());
  kernel = gpu::GPUFuncOp::create(b, before->getLoc(), symbol,
                                  b.getFunctionType({}, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  kernel.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  kernel->remove();
  SymbolTable(module).insert(kernel);
  b.setInsertionPointToStart(&kernel.getBody().front());
  Operation *end = gpu::ReturnOp::create(b, before->getLoc());
  b.setInsertionPoint(end);
}

bool cria::cuda::dependsOnLoop(Value number) {
  if (auto argument = dyn_cast<BlockArgument>(number))
    return isa<scf::ForOp>(argument.getOwner()->getParentOp());
  return llvm::any_of(number.getDefiningOp()->getOperands(), dependsOnLoop);
}

Value Outline::parameter(Value value) {
  operands.push_back(value);
  unsigned index = operands.size() - 1;
  Value argument =
      kernel.getBody().insertArgument(index, value.getType(), value.getLoc());
  mapping.map(value, argument);
  return argument;
}

/// The sizes and strides of a parameter are not at hand: it is given those of
/// the allocation.
static Value withSizes(OpBuilder &b, Value parameter, ValueRange sizes) {
  auto type = cast<MemRefType>(parameter.getType());
  Location loc = parameter.getLoc();
  SmallVector<OpFoldResult> shape, strides(type.getRank());
  unsigned next = 0;
  for (int64_t size : type.getShape())
    shape.push_back(ShapedType::isDynamic(size)
                        ? OpFoldResult(sizes[next++])
                        : OpFoldResult(b.getIndexAttr(size)));
  OpFoldResult stride = b.getIndexAttr(1);
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    strides[i] = stride;
    auto known = getConstantIntValue(stride),
         size = getConstantIntValue(shape[i]);
    if (known && size)
      stride = b.getIndexAttr(*known * *size);
    else
      stride = arith::MulIOp::create(
                   b, loc, getValueOrCreateConstantIndexOp(b, loc, stride),
                   getValueOrCreateConstantIndexOp(b, loc, shape[i]))
                   .getResult();
  }
  auto [own, offset] = type.getStridesAndOffset();
  for (auto [i, stride] : llvm::enumerate(own))
    if (!ShapedType::isDynamic(stride))
      strides[i] = b.getIndexAttr(stride);
  return memref::ReinterpretCastOp::create(
      b, loc, type, parameter, b.getIndexAttr(offset), shape, strides);
}

/// What a loop's turn chooses is chosen on the host, the rest in the kernel.
Value Outline::captureSubview(Value view) {
  auto op = view.getDefiningOp<memref::SubViewOp>();
  OpBuilder host(op);
  Location loc = op.getLoc();
  SmallVector<OpFoldResult> offsets, sizes, strides;
  SmallVector<OpFoldResult> offsetsHere, sizesHere, stridesHere;
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  auto here = [&](OpFoldResult value) -> OpFoldResult {
    if (auto number = dyn_cast<Value>(value))
      return capture(number);
    return value;
  };
  for (auto [i, offset, size, stride] : llvm::enumerate(
           op.getMixedOffsets(), op.getMixedSizes(), op.getMixedStrides())) {
    auto number = dyn_cast<Value>(offset);
    bool chosen = number && dependsOnLoop(number);
    offsets.push_back(chosen ? offset : zero);
    sizes.push_back(
        chosen ? size : memref::getMixedSize(host, loc, op.getSource(), i));
    strides.push_back(chosen ? stride : one);
    offsetsHere.push_back(chosen ? zero : here(offset));
    sizesHere.push_back(here(size));
    stridesHere.push_back(chosen ? one : here(stride));
  }
  Value layer = memref::SubViewOp::create(host, loc, op.getSource(), offsets,
                                          sizes, strides);
  return memref::SubViewOp::create(b, loc, op.getType(), parameter(layer),
                                   offsetsHere, sizesHere, stridesHere);
}

/// Constants are the kernels' own.
Value Outline::captureGlobal(Value memref) {
  auto get = memref.getDefiningOp<memref::GetGlobalOp>();
  auto module = kernel->getParentOfType<gpu::GPUModuleOp>();
  if (!module.lookupSymbol(get.getName())) {
    auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
        get, get.getNameAttr());
    OpBuilder::atBlockBegin(module.getBody()).clone(*global);
  }
  return b.clone(*get)->getResult(0);
}

/// Maps what the op, and ops in it, use of the entry.
void Outline::captureUses(Operation *op) {
  for (Value operand : op->getOperands())
    capture(operand);
  SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  for (Value value : used)
    capture(value);
}

Value Outline::capture(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(kernel.getBody().front().getTerminator());
  Operation *op = value.getDefiningOp();
  Value result;
  auto subview = dyn_cast_if_present<memref::SubViewOp>(op);
  auto alloc = dyn_cast_if_present<memref::AllocOp>(op);
  if (Value at = spills.lookup(value)) {
    result = memref::LoadOp::create(b, value.getLoc(), capture(at));
  } else if (alloc && !alloc.getDynamicSizes().empty()) {
    SmallVector<Value> sizes;
    for (Value size : alloc.getDynamicSizes())
      sizes.push_back(capture(size));
    result = withSizes(b, parameter(value), sizes);
  } else if (isa_and_present<memref::GetGlobalOp>(op)) {
    result = captureGlobal(value);
  } else if (subview && llvm::any_of(subview.getOffsets(), dependsOnLoop)) {
    result = captureSubview(value);
  } else if (op && !isa<func::CallOp>(op) && isMemoryEffectFree(op)) {
    captureUses(op);
    b.clone(*op, mapping);
    return mapping.lookup(value);
  } else {
    return parameter(value);
  }
  mapping.map(value, result);
  return result;
}

Operation *Outline::clone(Operation *op) {
  captureUses(op);
  return b.clone(*op, mapping);
}

void Outline::launch(const gpu::KernelDim3 &grid) {
  SmallVector<Type> types;
  for (Value operand : operands)
    types.push_back(operand.getType());
  kernel.setFunctionType(b.getFunctionType(types, {}));
  OpBuilder host(before);
  Location loc = before->getLoc();
  Value one = arith::ConstantIndexOp::create(host, loc, 1);
  Value size = arith::ConstantIndexOp::create(host, loc, threads);
  gpu::LaunchFuncOp::create(host, loc, kernel, grid,
                            gpu::KernelDim3{size, one, one}, Value(), operands);
}
