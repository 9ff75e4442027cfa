/// func @k(tensors)  =>  gpu.func @k, ... and func @k.launch(memrefs)
///
/// Tries the schedules, the fastest first. A kernel function stays as it is, so
/// that bufferization sees what it reads and writes; later, its callers call
/// `k.launch` instead. A function that no schedule takes gets no `k.launch`.
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/schedules/Schedules.h"
#include "lowering/kernel/Elements.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"

namespace cria {
#define GEN_PASS_DEF_CONVERTLINALGTOGPU
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// Whether each size that a function reads is that of a dimension that a tensor
/// is known to have.
static bool readsSizesOfDimensions(func::FuncOp function) {
  return !function
              .walk([](tensor::DimOp op) {
                return dimensionOf(op) ? WalkResult::advance()
                                       : WalkResult::interrupt();
              })
              .wasInterrupted();
}

/// Whether a function has a tensor without elements, which no block computes.
static bool hasEmptyTensors(func::FuncOp function) {
  auto isEmpty = [](Type type) {
    auto shaped = dyn_cast<RankedTensorType>(type);
    return shaped && llvm::is_contained(shaped.getShape(), 0);
  };
  return llvm::any_of(function.getArgumentTypes(), isEmpty) ||
         function
             .walk([&](Operation *op) {
               return llvm::any_of(op->getResultTypes(), isEmpty)
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted();
}

/// Builds the launches of a kernel function by the first schedule that takes
/// it. If none does, a remark says why. A schedule that does not apply to the
/// form of a function gives no reason, and the next one is tried.
static void convert(func::FuncOp kernel, Block &kernels,
                    const simt::Chips &chips, const simt::Choose &choose) {
  StringRef reason;
  if (!readsSizesOfDimensions(kernel))
    reason = "it reads a size of no known dimension";
  else if (hasEmptyTensors(kernel))
    reason = "a tensor has no elements";
  for (auto emit : {simt::emitAttention, simt::emitColumns,
                    simt::emitRecurrence, simt::emitParts}) {
    if (!reason.empty())
      break;
    simt::KernelFunction function(kernel, kernels, chips);
    if (emit(function, choose, reason))
      return function.finish();
    function.erase();
  }
  remark::missed(kernel.getLoc(), remark::RemarkOpts::name("no-schedule")
                                      .category("convert-linalg-to-gpu")
                                      .function(kernel.getName()))
      << remark::reason("{0}", reason.str());
}

/// Checks that a kernel's arrays fit shared memory, which numbers of
/// `schedules` may be too large for.
static LogicalResult checkMemory(mlir::gpu::GPUFuncOp kernel) {
  int64_t bytes = 0;
  for (BlockArgument array : kernel.getWorkgroupAttributions()) {
    auto type = cast<MemRefType>(array.getType());
    bytes += type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }
  if (bytes <= simt::kDeclaredMemory)
    return success();
  return emitError(kernel.getLoc(), "expected at most ")
         << simt::kDeclaredMemory << " bytes of shared memory, got " << bytes
         << " in " << kernel.getName()
         << ": its schedule's sizes are too large";
}

/// Whether a function only calls others, which become launches.
static bool callsKernels(func::FuncOp function) {
  return !function.getOps<func::CallOp>().empty();
}

/// The target of a chip. gpu-attach-target is not used, because an older chip
/// is attached to kernels for later generations, too, until each chip gets its
/// own kernels.
static Attribute targetOf(MLIRContext *context, StringRef chip,
                          const simt::Chips &chips) {
  auto later = static_cast<int>(simt::generationOf(chip)) + 1;
  bool hasAll = !chips.haveSome(later, simt::kGenerations);
  return NVVM::NVVMTargetAttr::get(context, /*optLevel=*/3,
                                   "nvptx64-nvidia-cuda", chip, "+ptx80",
                                   /*targetFlags=*/nullptr,
                                   /*linkFiles=*/nullptr, hasAll);
}

namespace {
struct ConvertLinalgToGpu
    : cria::impl::ConvertLinalgToGpuBase<ConvertLinalgToGpu> {
  using ConvertLinalgToGpuBase::ConvertLinalgToGpuBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto tuning = simt::Tuning::readChanges(schedules);
    if (!tuning) {
      module.emitError("schedules: ") << llvm::toString(tuning.takeError());
      return signalPassFailure();
    }
    simt::Choose choose(cuda::schedules(), *tuning);
    simt::Chips generations;
    generations.has[0] = chips.empty();
    for (const std::string &chip : chips)
      generations.has[static_cast<size_t>(simt::generationOf(chip))] = true;
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    // The manifest stays the last op: people read what is before it.
    if (!module.getBody()->empty() && isa<ModuleOp>(module.getBody()->back()))
      b.setInsertionPoint(&module.getBody()->back());
    module->setAttr(mlir::gpu::GPUDialect::getContainerModuleAttrName(),
                    b.getUnitAttr());
    if (Operation *other = module.lookupSymbol("kernels")) {
      other->emitError("expected no @kernels before the GPU's are built");
      return signalPassFailure();
    }
    auto kernels =
        mlir::gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
    SmallVector<Attribute> targets;
    for (const std::string &chip : chips)
      targets.push_back(targetOf(&getContext(), chip, generations));
    if (!targets.empty())
      kernels.setTargetsAttr(b.getArrayAttr(targets));
    Block &body = kernels.getBodyRegion().front();
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (!isEntry(function) && function.getBody().hasOneBlock() &&
          !callsKernels(function))
        convert(function, body, generations, choose);
    for (auto kernel : body.getOps<mlir::gpu::GPUFuncOp>())
      if (failed(checkMemory(kernel)))
        return signalPassFailure();
    for (StringRef name : {"decode", "batch"})
      if (auto entry = module.lookupSymbol<func::FuncOp>(name))
        simt::emitSampling(module, body, entry);
    // ptxas would spill to fit three of its blocks of 512 threads.
    if (auto sample = kernels.lookupSymbol<gpu::GPUFuncOp>("sample"))
      sample->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      b.getI32IntegerAttr(2));
  }
};
} // namespace
