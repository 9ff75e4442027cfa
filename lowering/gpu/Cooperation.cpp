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

Value KernelBuilder::atomicAdd(const Rows &rows, Value index, Value value) {
  return create<LLVM::AtomicRMWOp>(LLVM::AtomicBinOp::add,
                                   address(rows, i32(0), index), value,
                                   LLVM::AtomicOrdering::monotonic, "block");
}

SmallVector<Value> KernelBuilder::loadMatrices(Value address, bool transposed) {
  auto type = LLVM::LLVMStructType::getLiteral(
      getContext(), SmallVector<Type>(4, getI32Type()));
  auto shape = NVVM::LdStMatrixShapeAttr::get(getContext(), 8, 8);
  Value all = create<NVVM::LdMatrixOp>(type, address, 4,
                                       transposed ? NVVM::MMALayout::col
                                                  : NVVM::MMALayout::row,
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

Value KernelBuilder::shuffle(Value x, NVVM::ShflKind kind, int64_t operand,
                             int64_t clamp) {
  auto word = [&](Value part) -> Value {
    return create<NVVM::ShflOp>(part.getType(), i32(-1), part, i32(operand),
                                i32(clamp), kind, UnitAttr());
  };
  if (x.getType().getIntOrFloatBitWidth() == 32)
    return word(x);
  // Two words, of which bitcasts make one again.
  auto pair = VectorType::get({2}, getI32Type());
  Value halves = create<LLVM::BitcastOp>(pair, x);
  Value low = word(extract(halves, 0)), high = word(extract(halves, 1));
  return create<LLVM::BitcastOp>(x.getType(), pack({low, high}));
}

Value KernelBuilder::shuffleXor(Value x, int64_t mask) {
  return shuffle(x, NVVM::ShflKind::bfly, mask, kWarp - 1);
}

Value KernelBuilder::shuffleFrom(Value x, int64_t lane) {
  return shuffle(x, NVVM::ShflKind::idx, lane, kWarp - 1);
}

Value KernelBuilder::warpReduce(Value x, int64_t width, Combine combine) {
  for (int64_t mask = width / 2; mask; mask /= 2)
    x = combine(x, shuffleXor(x, mask));
  return x;
}

Value KernelBuilder::warpSum(Value x, int64_t width) {
  return warpReduce(x, width, [&](Value a, Value b) { return fadd(a, b); });
}

Value KernelBuilder::warpMax(Value x, int64_t width) {
  return warpReduce(x, width, [&](Value a, Value b) { return fmax(a, b); });
}

Value KernelBuilder::warpScan(Value x) {
  Value own = lane();
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value before = shuffle(x, NVVM::ShflKind::up, distance, 0);
    x = select(less(own, i32(distance)), x, add(x, before));
  }
  return x;
}

Value KernelBuilder::blockReduce(Value x, const Rows &scratch,
                                 Combine combine) {
  Value own = warpReduce(x, kWarp, combine);
  when(equal(lane(), i32(0)), [&] { store(own, scratch, i32(0), warp()); });
  barrier();
  Value all = load(scratch, i32(0), i32(0));
  for (int64_t i = 1; i < blockThreads / kWarp; ++i)
    all = combine(all, load(scratch, i32(0), i32(i)));
  return all;
}

Value KernelBuilder::blockSum(Value x, const Rows &scratch) {
  return blockReduce(x, scratch, [&](Value a, Value b) { return fadd(a, b); });
}
