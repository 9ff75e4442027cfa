/// gpu.func @k(%x: memref<?x64xf32>)
///   =>
/// gpu.func @k(%p: !llvm.ptr<1>) { %x = cast(descriptor of %p) : memref<...> }
#include "lowering/Passes.h"
#include "lowering/gpu/build/KernelBuilder.h"

#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria {
#define GEN_PASS_DEF_LOWERKERNELARGUMENTS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// NVPTX's and AMDGPU's number of the address space of device memory.
static constexpr unsigned kGlobal = 1;

/// The memref that begins at `pointer`. Its dynamic sizes and strides are
/// poison: nothing computes with them.
static Value fromPointer(ImplicitLocOpBuilder &b, Value pointer,
                         MemRefType type, ArrayRef<int64_t> strides) {
  LLVMTypeConverter converter(b.getContext());
  auto descriptor =
      MemRefDescriptor::poison(b, b.getLoc(), converter.convertType(type));
  descriptor.setAllocatedPtr(b, b.getLoc(), pointer);
  descriptor.setAlignedPtr(b, b.getLoc(), pointer);
  descriptor.setConstantOffset(b, b.getLoc(), 0);
  for (auto [i, size, stride] : llvm::enumerate(type.getShape(), strides)) {
    if (!ShapedType::isDynamic(size))
      descriptor.setConstantSize(b, b.getLoc(), i, size);
    if (!ShapedType::isDynamic(stride))
      descriptor.setConstantStride(b, b.getLoc(), i, stride);
  }
  Value all = descriptor;
  return UnrealizedConversionCastOp::create(b, type, all).getResult(0);
}

/// A tensor map is passed by value: a cast of the memref becomes a cast of the
/// pointer to the map.
static LogicalResult lowerTensorMap(BlockArgument argument) {
  if (!llvm::all_of(argument.getUsers(),
                    llvm::IsaPred<UnrealizedConversionCastOp>))
    return argument.getOwner()->getParentOp()->emitOpError("expected argument ")
           << argument.getArgNumber()
           << ", which has a tensor map, to be cast alone";
  argument.setType(LLVM::LLVMPointerType::get(argument.getContext()));
  // Upstream's conversion keeps the attributes of functions.
  auto kernel = cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp());
  SmallVector<int32_t> all;
  if (auto known =
          kernel->getAttrOfType<DenseI32ArrayAttr>(simt::kTensorMapAttribute))
    llvm::append_range(all, known.asArrayRef());
  all.push_back(static_cast<int32_t>(argument.getArgNumber()));
  kernel->setAttr(simt::kTensorMapAttribute,
                  DenseI32ArrayAttr::get(kernel.getContext(), all));
  kernel.removeArgAttr(argument.getArgNumber(), simt::kTensorMapAttribute);
  return success();
}

static LogicalResult lowerArgument(gpu::GPUFuncOp kernel, unsigned index) {
  BlockArgument argument = kernel.getArgument(index);
  auto type = dyn_cast<MemRefType>(argument.getType());
  if (!type)
    return success();
  if (kernel.getArgAttr(index, simt::kTensorMapAttribute))
    return lowerTensorMap(argument);
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)) ||
      (llvm::any_of(strides, ShapedType::isDynamic) &&
       !llvm::all_of(argument.getUsers(),
                     llvm::IsaPred<memref::ReinterpretCastOp>)) ||
      type.getMemorySpace())
    return kernel.emitOpError("expected arguments with constant strides in the "
                              "default memory space, got ")
           << type;
  ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getContext());
  b.setInsertionPointToStart(&kernel.getBody().front());
  argument.setType(LLVM::LLVMPointerType::get(b.getContext(), kGlobal));
  auto generic = LLVM::LLVMPointerType::get(b.getContext());
  auto pointer = LLVM::AddrSpaceCastOp::create(b, generic, argument);
  Value memref = fromPointer(b, pointer, type, strides);
  argument.replaceAllUsesExcept(memref, pointer);
  return success();
}

namespace {
struct LowerKernelArguments
    : cria::impl::LowerKernelArgumentsBase<LowerKernelArguments> {
  void runOnOperation() override {
    gpu::GPUFuncOp kernel = getOperation();
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      if (failed(lowerArgument(kernel, i)))
        return signalPassFailure();
    // After the arguments, the entry block has the kernel's shared memory.
    SmallVector<Type> types;
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      types.push_back(kernel.getArgument(i).getType());
    kernel.setFunctionType(FunctionType::get(&getContext(), types, {}));
  }
};
} // namespace
