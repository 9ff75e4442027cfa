/// llama.kernel regions  =>  gpu.func kernels in a gpu.module, and a host plan
///
/// Walks each entry function in order. A kernel's region goes to the emitter
/// that its ops call for; the loop over the layers becomes a loop of the plan
/// over the same kernels. Tensors get places in device memory as they appear:
/// weights their slots, caches themselves, the rest offsets in one arena. The
/// residual stream is updated where it lies.
#include "lowering/Passes.h"
#include "lowering/Slots.h"
#include "lowering/gpu/Emitters.h"
#include "lowering/gpu/Planner.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace cria {
#define GEN_PASS_DEF_CONVERTLLAMATOGPU
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
struct ConvertLlamaToGpu
    : cria::impl::ConvertLlamaToGpuBase<ConvertLlamaToGpu> {
  using ConvertLlamaToGpuBase::ConvertLlamaToGpuBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    auto kernels =
        mlir::gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
    kernels.setTargetsAttr(b.getArrayAttr(NVVM::NVVMTargetAttr::get(
        &getContext(), /*optLevel=*/3, "nvptx64-nvidia-cuda", chip,
        "+" + ptxVersion)));
    cuda::Arena arena;
    SmallVector<NamedAttribute> entries;
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      cuda::Planner planner(function, kernels.getBodyRegion().front(), arena,
                            chunk);
      FailureOr<ArrayAttr> steps = planner.plan();
      if (failed(steps))
        return signalPassFailure();
      entries.push_back(b.getNamedAttr(function.getName(), *steps));
      if (function.getName() == "decode")
        entries.push_back(b.getNamedAttr("sample", planner.planSampling()));
    }
    kernels->setAttr(
        "cria.plan",
        b.getDictionaryAttr(
            {b.getNamedAttr("arena", b.getI64IntegerAttr(arena.bytes())),
             b.getNamedAttr(
                 "workspace_zeroed",
                 b.getDictionaryAttr(
                     {b.getNamedAttr("offset", b.getI64IntegerAttr(0)),
                      b.getNamedAttr("bytes",
                                     b.getI64IntegerAttr(arena.zeroed()))})),
             b.getNamedAttr("entries", b.getDictionaryAttr(entries))}));
    for (func::FuncOp function : functions)
      function.erase();
    for (auto [op, slot] : assignSlots(module))
      op->erase();
  }
};
} // namespace
