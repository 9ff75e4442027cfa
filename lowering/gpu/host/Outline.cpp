#include "lowering/gpu/host/Outline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/Utils/GPUUtils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Utils/MemRefUtils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace cria::simt;

/// Whether a number depends on the turn of a loop.
static bool dependsOnLoop(Value number) {
  if (isa<MemRefType>(number.getType()))
    return false;
  if (auto argument = dyn_cast<BlockArgument>(number))
    return isa<scf::ForOp>(argument.getOwner()->getParentOp());
  return llvm::any_of(number.getDefiningOp()->getOperands(), dependsOnLoop);
}

static void splitView(memref::SubViewOp view) {
  OpBuilder b(view);
  Location loc = view.getLoc();
  auto offsets = view.getMixedOffsets(), sizes = view.getMixedSizes(),
       strides = view.getMixedStrides();
  auto layers = offsets, layerSizes = sizes, layerStrides = strides;
  for (auto [i, offset] : llvm::enumerate(view.getMixedOffsets())) {
    auto number = dyn_cast<Value>(offset);
    bool isLayer = number && dependsOnLoop(number);
    (isLayer ? offsets : layers)[i] = b.getIndexAttr(0);
    (isLayer ? strides : layerStrides)[i] = b.getIndexAttr(1);
    if (!isLayer)
      layerSizes[i] = memref::getMixedSize(b, loc, view.getSource(), i);
  }
  Value layer = memref::SubViewOp::create(b, loc, view.getSource(), layers,
                                          layerSizes, layerStrides);
  Value rest = memref::SubViewOp::create(b, loc, view.getType(), layer, offsets,
                                         sizes, strides);
  view.replaceAllUsesWith(rest);
  view.erase();
}

void cria::simt::splitViews(Block &block) {
  for (auto view :
       llvm::make_early_inc_range(block.getOps<memref::SubViewOp>()))
    if (llvm::any_of(view.getOffsets(), dependsOnLoop))
      splitView(view);
}

/// Whether a kernel computes the op itself. A number that the entry loads was
/// left in memory by another kernel.
static bool isKernels(Operation *op) {
  return isa<memref::LoadOp>(op) ||
         (!isa<func::CallOp>(op) && isMemoryEffectFree(op) &&
          llvm::none_of(op->getOperands(), dependsOnLoop));
}

Value cria::simt::withSizes(OpBuilder &b, Value memref, MemRefType type,
                            ArrayRef<OpFoldResult> sizes) {
  Location loc = memref.getLoc();
  return memref::ReinterpretCastOp::create(
      b, loc, type, memref, b.getIndexAttr(0), sizes,
      memref::computeStridesIRBlock(loc, b, sizes));
}

/// Clones ops that the launch can compute itself to its start.
static void sink(gpu::LaunchOp launch) {
  OpBuilder b = OpBuilder::atBlockBegin(&launch.getBody().front());
  IRMapping mapping;
  std::function<void(Value)> clone = [&](Value value) {
    Operation *op = value.getDefiningOp();
    auto alloc = dyn_cast_if_present<memref::AllocOp>(op);
    bool isSized = alloc && !alloc.getDynamicSizes().empty();
    if (mapping.contains(value) || !op || (!isSized && !isKernels(op)))
      return;
    SetVector<Value> used(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), used);
    llvm::for_each(used, clone);
    if (!isSized) {
      b.clone(*op, mapping);
      return;
    }
    // A parameter has no sizes and strides, so an allocation is given its own.
    SmallVector<OpFoldResult> sizes = alloc.getMixedSizes();
    for (OpFoldResult &size : sizes)
      if (auto number = dyn_cast<Value>(size))
        size = mapping.lookupOrDefault(number);
    mapping.map(value, withSizes(b, alloc, alloc.getType(), sizes));
  };
  SetVector<Value> used;
  getUsedValuesDefinedAbove(launch.getBody(), used);
  for (Value value : used) {
    clone(value);
    Value own = mapping.lookupOrDefault(value);
    value.replaceUsesWithIf(own, [&](OpOperand &use) {
      return launch->isProperAncestor(use.getOwner()) &&
             use.getOwner() != own.getDefiningOp();
    });
  }
}

/// Copies constants into the kernels' module.
static void copyGlobals(gpu::GPUFuncOp kernel, ModuleOp module) {
  auto kernels = kernel->getParentOfType<gpu::GPUModuleOp>();
  kernel.walk([&](memref::GetGlobalOp get) {
    if (!kernels.lookupSymbol(get.getName()))
      OpBuilder::atBlockBegin(kernels.getBody())
          .clone(*module.lookupSymbol(get.getName()));
  });
}

void cria::simt::outline(gpu::LaunchOp launch, gpu::GPUModuleOp kernels,
                         StringRef name) {
  sink(launch);
  // Characters that PTX does not allow in names become '_'.
  std::string symbol = name.str();
  for (char &c : symbol)
    if (!llvm::isAlnum(c))
      c = '_';
  SmallVector<Value> operands;
  gpu::GPUFuncOp kernel = outlineKernelFunc(launch, symbol, operands);
  SymbolTable(kernels).insert(kernel);
  copyGlobals(kernel, launch->getParentOfType<ModuleOp>());
  OpBuilder host(launch);
  gpu::LaunchFuncOp::create(
      host, launch.getLoc(), kernel, launch.getGridSizeOperandValues(),
      launch.getBlockSizeOperandValues(), Value(), operands);
  launch.erase();
}
