#include "lowering/gpu/cuda/Warpgroups.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Nanoseconds that a thread may sleep before it tests a barrier again.
static constexpr int64_t kPatience = 10'000'000;

static Attribute sharedSpace(KernelBuilder &b) {
  return gpu::AddressSpaceAttr::get(b.getContext(),
                                    gpu::AddressSpace::Workgroup);
}

cuda::PhaseBarriers::PhaseBarriers(KernelBuilder &b, int64_t count) : b(b) {
  auto type = nvgpu::MBarrierGroupType::get(b.getContext(), sharedSpace(b),
                                            static_cast<unsigned>(count));
  group = b.create<nvgpu::MBarrierCreateOp>(type);
}

Value cuda::PhaseBarriers::index(Value number) {
  return b.createOrFold<arith::IndexCastOp>(b.getIndexType(), number);
}

void cuda::PhaseBarriers::init(Value barrier, Value arrivals) {
  b.create<nvgpu::MBarrierInitOp>(group, index(arrivals), index(barrier),
                                  Value());
}

void cuda::PhaseBarriers::publish() { b.create<NVVM::FenceMbarrierInitOp>(); }

static Type pointerType(KernelBuilder &b, NVVM::NVVMMemorySpace space) {
  return LLVM::LLVMPointerType::get(b.getContext(),
                                    static_cast<unsigned>(space));
}

Value cuda::PhaseBarriers::pointerTo(Value barrier) {
  Value address =
      b.create<nvgpu::MBarrierGetOp>(b.getI32Type(), group, index(barrier));
  return b.create<LLVM::IntToPtrOp>(
      pointerType(b, NVVM::NVVMMemorySpace::Shared), address);
}

/// nvgpu's op can arrive only at barriers of the block itself. Who arrives at
/// another block's barrier has read what copies will overwrite, and has written
/// nothing for the other block: the release of its own block is enough. One of
/// the cluster would wait for all writes to global memory.
void cuda::PhaseBarriers::arrive(Value barrier, Value block) {
  if (!block) {
    b.create<nvgpu::MBarrierArriveOp>(
        nvgpu::MBarrierTokenType::get(b.getContext()), group, index(barrier));
    return;
  }
  Value there = b.create<NVVM::MapaOp>(
      pointerType(b, NVVM::NVVMMemorySpace::SharedCluster), pointerTo(barrier),
      block);
  b.create<NVVM::MBarrierArriveOp>(Type(), there, Value(),
                                   NVVM::MemScopeKind::CTA,
                                   /*relaxed=*/false);
}

void cuda::PhaseBarriers::announce(Value barrier, int64_t bytes) {
  b.create<nvgpu::MBarrierArriveExpectTxOp>(
      group, b.create<arith::ConstantIndexOp>(bytes), index(barrier), Value());
}

void cuda::PhaseBarriers::await(Value barrier, Value parity) {
  Value isOdd = b.equal(parity, b.i32(1));
  b.create<nvgpu::MBarrierTryWaitParityOp>(
      group, isOdd, b.create<arith::ConstantIndexOp>(kPatience),
      index(barrier));
}

void cuda::PhaseBarriers::copyBox(Value map, ValueRange coordinates,
                                  ArrayRef<int64_t> box, Value barrier,
                                  Address to, Value blocks) {
  Type element = cast<MemRefType>(to.base.getType()).getElementType();
  SmallVector<int64_t> shape(llvm::reverse(box));
  auto dense = MemRefType::get(shape, element, MemRefLayoutAttrInterface(),
                               sharedSpace(b));
  auto type = nvgpu::TensorMapDescriptorType::get(
      b.getContext(), dense,
      element.isInteger(8) ? nvgpu::TensorMapSwizzleKind::SWIZZLE_NONE
                           : nvgpu::TensorMapSwizzleKind::SWIZZLE_128B,
      nvgpu::TensorMapL2PromoKind::L2PROMO_256B,
      nvgpu::TensorMapOOBKind::OOB_ZERO,
      nvgpu::TensorMapInterleaveKind::INTERLEAVE_NONE);
  Value descriptor =
      b.create<UnrealizedConversionCastOp>(type, map).getResult(0);
  SmallVector<int64_t> strides = dense.getStridesAndOffset().first;
  auto layout =
      StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, strides);
  Value target = b.create<memref::ReinterpretCastOp>(
      MemRefType::get(shape, element, layout, sharedSpace(b)), to.base,
      OpFoldResult(to.index), getAsIndexOpFoldResult(b.getContext(), shape),
      getAsIndexOpFoldResult(b.getContext(), strides));
  SmallVector<Value> at;
  for (Value coordinate : coordinates)
    at.push_back(index(coordinate));
  b.create<nvgpu::TmaAsyncLoadOp>(target, group, descriptor, at, index(barrier),
                                  blocks, Value());
}

/// A pointer to the element at `address`.
static Value pointerTo(KernelBuilder &b, Address address,
                       NVVM::NVVMMemorySpace space) {
  Value base = b.create<memref::ExtractAlignedPointerAsIndexOp>(address.base);
  base = b.create<arith::IndexCastOp>(b.getI64Type(), base);
  base = b.create<LLVM::IntToPtrOp>(pointerType(b, space), base);
  Type element = cast<MemRefType>(address.base.getType()).getElementType();
  Value index =
      b.createOrFold<arith::IndexCastOp>(b.getI64Type(), address.index);
  return b.create<LLVM::GEPOp>(base.getType(), element, base,
                               ArrayRef<LLVM::GEPArg>{index});
}

// nvgpu's op copies only by tensor maps.
void cuda::PhaseBarriers::copyBytes(Address from, int64_t bytes, Value barrier,
                                    Address to) {
  b.create<NVVM::CpAsyncBulkGlobalToSharedClusterOp>(
      ::pointerTo(b, to, NVVM::NVVMMemorySpace::SharedCluster),
      ::pointerTo(b, from, NVVM::NVVMMemorySpace::Global), pointerTo(barrier),
      b.i32(bytes), Value(), Value());
}

Value cuda::electLane(KernelBuilder &b) {
  return b.create<NVVM::ElectSyncOp>(b.getI1Type(), Value());
}

void cuda::takeRegisters(KernelBuilder &b, int64_t count) {
  b.create<NVVM::SetMaxRegisterOp>(static_cast<uint32_t>(count),
                                   NVVM::SetMaxRegisterAction::increase);
}

void cuda::leaveRegisters(KernelBuilder &b, int64_t count) {
  b.create<NVVM::SetMaxRegisterOp>(static_cast<uint32_t>(count),
                                   NVVM::SetMaxRegisterAction::decrease);
}

void cuda::formClusters(KernelBuilder &b, ArrayRef<int32_t> size) {
  b.function.setKnownClusterSizeAttr(b.getDenseI32ArrayAttr(size));
}

void cuda::arriveAtCluster(KernelBuilder &b) {
  b.create<NVVM::ClusterArriveOp>(b.getUnitAttr());
}

void cuda::awaitCluster(KernelBuilder &b) {
  b.create<NVVM::ClusterWaitOp>(b.getUnitAttr());
}

void cuda::beginNextLaunch(KernelBuilder &b) {
  NVVM::GriddepcontrolOp::create(b, b.getLoc(),
                                 NVVM::GridDepActionKind::launch_dependents);
}

void cuda::awaitLaunch(KernelBuilder &b) {
  NVVM::GriddepcontrolOp::create(b, b.getLoc(), NVVM::GridDepActionKind::wait);
}

void cuda::barrierOf(KernelBuilder &b, int64_t threads) {
  // Barrier 0 is the block's.
  b.create<NVVM::BarrierOp>(TypeRange(), b.i32(1), b.i32(threads),
                            NVVM::BarrierReductionAttr(), Value());
}

/// The PTX ISA's matrix descriptor has four fields: the address of the matrix;
/// the distance between its parts of 64 columns; the 1024 bytes from 8 rows to
/// the next 8; and the swizzle of 128 bytes. All but the swizzle are in units
/// of 16 bytes.
Value cuda::describeRows(KernelBuilder &b, Address first, int64_t apart) {
  constexpr int64_t kAddress = (1 << 18) - 1;
  uint64_t layout =
      static_cast<uint64_t>(apart) / 16 << 16 | 1024 / 16ull << 32 | 1ull << 62;
  auto number = [&](int64_t value) {
    return b.create<arith::ConstantIntOp>(b.getI64Type(), value);
  };
  Type element = cast<MemRefType>(first.base.getType()).getElementType();
  Value start = b.create<memref::ExtractAlignedPointerAsIndexOp>(first.base);
  Value bytes = b.createOrFold<arith::MulIOp>(
      first.index,
      b.create<arith::ConstantIndexOp>(element.getIntOrFloatBitWidth() / 8));
  Value at = b.create<arith::IndexCastOp>(
      b.getI64Type(), b.createOrFold<arith::AddIOp>(start, bytes));
  at = b.create<arith::AndIOp>(at, number(kAddress));
  at = b.create<arith::ShRUIOp>(at, number(4));
  return b.create<arith::OrIOp>(at, number(static_cast<int64_t>(layout)));
}

Value cuda::further(KernelBuilder &b, Value descriptor, Value chunks) {
  return b.create<arith::AddIOp>(
      descriptor, b.create<arith::ExtUIOp>(b.getI64Type(), chunks));
}

Value cuda::further(KernelBuilder &b, Value descriptor, int64_t chunks) {
  return b.create<arith::AddIOp>(
      descriptor, b.create<arith::ConstantIntOp>(b.getI64Type(), chunks));
}

/// The type of a lane's sums.
static Type sumsType(KernelBuilder &b, int64_t columns) {
  return LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(columns / 2, b.getF32Type()));
}

Value cuda::zeroSums(KernelBuilder &b, int64_t columns) {
  return b.create<LLVM::ZeroOp>(sumsType(b, columns));
}

static Value inlineAssembly(KernelBuilder &b, Type type, ValueRange operands,
                            StringRef text, StringRef constraints) {
  return b
      .create<LLVM::InlineAsmOp>(
          type, operands, text, constraints,
          /*has_side_effects=*/true, /*is_align_stack=*/false,
          LLVM::TailCallKind::None,
          LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
          ArrayAttr())
      .getRes();
}

/// Emits an instruction whose operands and results are the sums. nvvm's ops
/// have no operands, so that LLVM could move reads and writes of the sums'
/// registers across the instruction.
static Value passThrough(KernelBuilder &b, Value sums, StringRef instruction) {
  auto type = cast<LLVM::LLVMStructType>(sums.getType());
  SmallVector<Value> values;
  std::string outputs, inputs;
  for (size_t i = 0; i < type.getBody().size(); ++i) {
    values.push_back(b.create<LLVM::ExtractValueOp>(sums, i));
    outputs += i ? ",=f" : "=f";
    inputs += "," + std::to_string(i);
  }
  return inlineAssembly(b, type, values, instruction, outputs + inputs);
}

Value cuda::fenceSums(KernelBuilder &b, Value sums) {
  return passThrough(b, sums, "wgmma.fence.sync.aligned;");
}

Value cuda::multiplyTiles(KernelBuilder &b, Type element, int64_t columns,
                          Value x, Value w, Value sums) {
  MLIRContext *context = b.getContext();
  auto type = NVVM::WGMMATypesAttr::get(context, element.isBF16()
                                                     ? NVVM::WGMMATypes::bf16
                                                     : NVVM::WGMMATypes::f16);
  auto f32 = NVVM::WGMMATypesAttr::get(context, NVVM::WGMMATypes::f32);
  auto plus = NVVM::WGMMAScaleInAttr::get(context, NVVM::WGMMAScaleIn::one);
  auto layout = [&](NVVM::MMALayout value) {
    return NVVM::MMALayoutAttr::get(context, value);
  };
  auto scale = sums ? NVVM::WGMMAScaleOut::one : NVVM::WGMMAScaleOut::zero;
  if (!sums)
    sums = b.create<LLVM::PoisonOp>(sumsType(b, columns));
  return b.create<NVVM::WgmmaMmaAsyncOp>(
      sums.getType(), sums, x, w,
      NVVM::MMAShapeAttr::get(context, 64, static_cast<int>(columns), 16), type,
      type, f32, NVVM::WGMMAScaleOutAttr::get(context, scale), plus, plus,
      layout(NVVM::MMALayout::row), layout(NVVM::MMALayout::col),
      NVVM::MMAIntOverflowAttr());
}

void cuda::commitProducts(KernelBuilder &b) {
  b.create<NVVM::WgmmaGroupSyncAlignedOp>();
}

void cuda::awaitProducts(KernelBuilder &b, int64_t groups) {
  b.create<NVVM::WgmmaWaitGroupSyncOp>(static_cast<uint64_t>(groups));
}

SmallVector<Value> cuda::awaitSums(KernelBuilder &b, Value sums,
                                   int64_t groups) {
  std::string wait =
      "wgmma.wait_group.sync.aligned " + std::to_string(groups) + ";";
  Value done = passThrough(b, sums, wait);
  SmallVector<Value> values;
  auto type = cast<LLVM::LLVMStructType>(sums.getType());
  for (size_t i = 0; i < type.getBody().size(); ++i)
    values.push_back(b.create<LLVM::ExtractValueOp>(done, i));
  return values;
}

Value cuda::joinSums(KernelBuilder &b, ValueRange sums) {
  auto columns = static_cast<int64_t>(sums.size()) * 2;
  Value joined = b.create<LLVM::PoisonOp>(sumsType(b, columns));
  for (auto [i, sum] : llvm::enumerate(sums))
    joined = b.create<LLVM::InsertValueOp>(joined, sum, i);
  return joined;
}

void cuda::fenceProducts(KernelBuilder &b) {
  b.create<NVVM::WgmmaFenceAlignedOp>();
}

// nvvm's op has no operands, so that LLVM could compute words after it.
SmallVector<Value> cuda::fenceOperands(KernelBuilder &b, ValueRange words) {
  std::string outputs, inputs;
  for (size_t i = 0; i < words.size(); ++i) {
    outputs += i ? ",=r" : "=r";
    inputs += "," + std::to_string(i);
  }
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(words.size(), b.getI32Type()));
  Value fenced = inlineAssembly(b, type, words, "wgmma.fence.sync.aligned;",
                                outputs + inputs);
  SmallVector<Value> same;
  for (size_t i = 0; i < words.size(); ++i)
    same.push_back(b.create<LLVM::ExtractValueOp>(fenced, i));
  return same;
}

// nvvm's op cannot take x in registers. `order` says how w lies in memory: rows
// of columns (1), or of terms (0).
static Value multiply(KernelBuilder &b, Type element, int64_t columns,
                      ValueRange x, Value w, Value sums, int64_t order) {
  auto type = cast<LLVM::LLVMStructType>(sums.getType());
  size_t count = type.getBody().size();
  SmallVector<Value> operands(x);
  operands.push_back(w);
  auto list = [](size_t first, size_t end) {
    auto numbers = llvm::map_range(llvm::seq(first, end), [](size_t i) {
      return "$" + std::to_string(i);
    });
    return "{" + llvm::join(numbers, ", ") + "}";
  };
  std::string kind = element.isBF16() ? "bf16" : "f16", outputs, inputs;
  std::string text = "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(columns) + "k16.f32." + kind + "." + kind +
                     " " + list(0, count) + ", " + list(count, count + 4) +
                     ", $" + std::to_string(count + 4) + ", p, 1, 1, " +
                     std::to_string(order) + ";\n}\n";
  for (size_t i = 0; i < count; ++i) {
    operands.push_back(b.create<LLVM::ExtractValueOp>(sums, i));
    outputs += "=f,";
    inputs += "," + std::to_string(i);
  }
  return inlineAssembly(b, type, operands, text,
                        outputs + "r,r,r,r,l" + inputs);
}

Value cuda::multiplyRegisters(KernelBuilder &b, Type element, int64_t columns,
                              ValueRange x, Value w, Value sums) {
  return multiply(b, element, columns, x, w, sums, /*order=*/1);
}

Value cuda::multiplyTransposed(KernelBuilder &b, Type element, int64_t columns,
                               ValueRange x, Value w, Value sums) {
  return multiply(b, element, columns, x, w, sums, /*order=*/0);
}

void cuda::fenceWrites(KernelBuilder &b) {
  b.create<NVVM::FenceProxyOp>(
      NVVM::ProxyKindAttr::get(b.getContext(), NVVM::ProxyKind::async_shared),
      NVVM::SharedSpaceAttr::get(b.getContext(),
                                 NVVM::SharedSpace::shared_cta));
}
