/// What the threads of a block do together: barriers, shuffles, reductions,
/// asynchronous copies, matrix products.
#include "lowering/gpu/KernelBuilder.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace cria::cuda;

void KernelBuilder::copyAsync(Value to, Value from, int64_t bytes,
                              Value exists) {
  // Past the first cache where the hardware can: nobody reads it again there.
  auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                           : NVVM::LoadCacheModifierKind::CA;
  create<NVVM::CpAsyncOp>(to, from, static_cast<uint32_t>(bytes), cache,
                          select(exists, i32(bytes), i32(0)));
}

void KernelBuilder::commitCopies() { create<NVVM::CpAsyncCommitGroupOp>(); }

void KernelBuilder::awaitCopies(int64_t groups) {
  create<NVVM::CpAsyncWaitGroupOp>(static_cast<uint32_t>(groups));
}

void KernelBuilder::barrier() { create<NVVM::Barrier0Op>(); }

void KernelBuilder::fence() {
  create<LLVM::FenceOp>(LLVM::AtomicOrdering::seq_cst, "device");
}

Value KernelBuilder::atomicIncrement(const Rows &rows, Value index,
                                     int64_t last) {
  return create<LLVM::AtomicRMWOp>(LLVM::AtomicBinOp::uinc_wrap,
                                   address(rows, i32(0), index), i32(last),
                                   LLVM::AtomicOrdering::monotonic, "device");
}

SmallVector<Value> KernelBuilder::loadMatrices(Value address) {
  auto type = LLVM::LLVMStructType::getLiteral(
      getContext(), SmallVector<Type>(4, getI32Type()));
  auto shape = NVVM::LdStMatrixShapeAttr::get(getContext(), 8, 8);
  Value all = create<NVVM::LdMatrixOp>(type, address, 4, NVVM::MMALayout::row,
                                       shape, NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < 4; ++i)
    parts.push_back(create<LLVM::ExtractValueOp>(all, i));
  return parts;
}

void KernelBuilder::mma(Type element, ValueRange x, ValueRange w,
                        MutableArrayRef<Value> sums) {
  auto type = element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  auto layout = NVVM::MMALayout::row;
  auto result = LLVM::LLVMStructType::getLiteral(
      getContext(), SmallVector<Type>(4, getF32Type()));
  // f16 pairs go by their own type, bf16 pairs as i32.
  auto pairs = [&](ValueRange bits) {
    return llvm::map_to_vector(bits, [&](Value pair) -> Value {
      if (element.isBF16())
        return pair;
      return create<LLVM::BitcastOp>(VectorType::get({2}, element), pair);
    });
  };
  auto product = create<NVVM::MmaOp>(
      result, pairs(x), pairs(w), SmallVector<Value>(sums.begin(), sums.end()),
      ArrayRef<int64_t>{16, 8, 16}, std::nullopt, std::nullopt,
      std::array<NVVM::MMATypes, 2>{type, type},
      std::array<NVVM::MMALayout, 2>{layout, NVVM::MMALayout::col});
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = create<LLVM::ExtractValueOp>(product, i);
}

Value KernelBuilder::shuffleXor(Value x, int64_t mask) {
  return create<NVVM::ShflOp>(x.getType(), i32(-1), x, i32(mask), i32(31),
                              NVVM::ShflKind::bfly, UnitAttr());
}

Value KernelBuilder::reduce(Value x, int64_t width,
                            llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t mask = width / 2; mask; mask /= 2)
    x = combine(x, shuffleXor(x, mask));
  return x;
}

Value KernelBuilder::warpSum(Value x, int64_t width) {
  return reduce(x, width, [&](Value a, Value b) { return fadd(a, b); });
}

Value KernelBuilder::warpMax(Value x, int64_t width) {
  return reduce(x, width, [&](Value a, Value b) { return fmax(a, b); });
}

Value KernelBuilder::blockSum(Value x, const Rows &scratch) {
  Value own = warpSum(x);
  when(equal(lane(), i32(0)), [&] { store(own, scratch, i32(0), warp()); });
  barrier();
  Value total = f32(0);
  for (int64_t i = 0; i < blockThreads / kWarp; ++i)
    total = fadd(total, load(scratch, i32(0), i32(i)));
  return total;
}
