#include "lowering/gpu/cuda/TensorCores.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

Operation *cuda::copyAsync(KernelBuilder &b, Address to, Address from,
                           int64_t bytes, Value exists) {
  Type element = cast<MemRefType>(to.base.getType()).getElementType();
  int64_t count = bytes * 8 / element.getIntOrFloatBitWidth();
  Value elements;
  if (exists)
    elements = b.select(exists, b.create<arith::ConstantIndexOp>(count),
                        b.create<arith::ConstantIndexOp>(0));
  // Bypasses the L1 cache where the hardware can: no thread reads it again
  // there.
  return b.create<nvgpu::DeviceAsyncCopyOp>(
      nvgpu::DeviceAsyncTokenType::get(b.getContext()), to.base, to.index,
      from.base, from.index, b.getIndexAttr(count), elements,
      bytes == 16 ? b.getUnitAttr() : UnitAttr());
}

// nvgpu's ops for groups cannot be used: copies in a loop have no token to pass
// on, and a group op without tokens prints text that does not parse.
void cuda::commitCopies(KernelBuilder &b) {
  b.create<NVVM::CpAsyncCommitGroupOp>();
}

void cuda::awaitCopies(KernelBuilder &b, int64_t groups) {
  b.create<NVVM::CpAsyncWaitGroupOp>(static_cast<uint32_t>(groups));
}

SmallVector<Value> cuda::loadMatrices(KernelBuilder &b, Address address,
                                      bool transposed) {
  Type element = cast<MemRefType>(address.base.getType()).getElementType();
  int64_t together = 32 / element.getIntOrFloatBitWidth();
  Value all =
      b.create<nvgpu::LdMatrixOp>(VectorType::get({4, together}, element),
                                  address.base, address.index, transposed,
                                  /*numTiles=*/4);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < 4; ++i)
    parts.push_back(b.bits(b.extract(all, i)));
  return parts;
}

void cuda::mma(KernelBuilder &b, Type element, ValueRange x, ValueRange w,
               MutableArrayRef<Value> sums) {
  auto type = element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  auto layout = NVVM::MMALayout::row;
  auto result = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(4, b.getF32Type()));
  // f16 pairs are passed as vectors of f16, bf16 pairs as i32.
  auto pairs = [&](ValueRange bits) {
    return llvm::map_to_vector(bits, [&](Value pair) -> Value {
      if (element.isBF16())
        return pair;
      return b.bitcast(VectorType::get({2}, element), pair);
    });
  };
  for (size_t part = 0; part < w.size() / 2; ++part) {
    MutableArrayRef<Value> own = sums.slice(part * 4, 4);
    auto product = b.create<NVVM::MmaOp>(
        result, pairs(x), pairs(w.slice(part * 2, 2)), ValueRange(own),
        ArrayRef<int64_t>{16, 8, 16}, std::nullopt, std::nullopt,
        std::array<NVVM::MMATypes, 2>{type, type},
        std::array<NVVM::MMALayout, 2>{layout, NVVM::MMALayout::col});
    for (auto [i, sum] : llvm::enumerate(own))
      sum = b.create<LLVM::ExtractValueOp>(product, i);
  }
}

SmallVector<Value> cuda::mmaBytes(KernelBuilder &b, ValueRange x,
                                  ValueRange w) {
  auto type = NVVM::MMATypes::s8;
  auto result = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(4, b.getI32Type()));
  SmallVector<Value> zeros(4, b.i32(0)), sums;
  auto product = b.create<NVVM::MmaOp>(
      result, x, w, zeros, ArrayRef<int64_t>{16, 8, 32}, std::nullopt,
      NVVM::MMAIntOverflow::wrapped, std::array<NVVM::MMATypes, 2>{type, type},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                     NVVM::MMALayout::col});
  for (int64_t i = 0; i < 4; ++i)
    sums.push_back(b.create<LLVM::ExtractValueOp>(product, i));
  return sums;
}

void cuda::fitBlocks(KernelBuilder &b, int64_t blocks) {
  b.function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      b.getI32IntegerAttr(static_cast<int32_t>(blocks)));
}

void cuda::warpBarrier(KernelBuilder &b) {
  b.create<NVVM::SyncWarpOp>(b.i32(-1));
}

Value cuda::dotBytes(KernelBuilder &b, Value x, Value w, Value sum) {
  auto bytes = [&](Value word) {
    return b.bitcast(VectorType::get({4}, b.getI8Type()), word);
  };
  auto type = NVVM::DotAccumulateType::SIGNED;
  return b.create<NVVM::DotAccumulate4WayOp>(sum.getType(), bytes(x), type,
                                             bytes(w), type, sum);
}
