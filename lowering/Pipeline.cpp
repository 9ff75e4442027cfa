#include "lowering/Pipeline.h"

#include "lowering/Passes.h"
#include "passes/Passes.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace cria;

/// The tokens that a CPU's recurrence takes at once in a prefill; what its
/// schedules do not take would become loops of scalars. Products of a chunk
/// are as many multiply-adds as its tokens one by one. With eight lanes they
/// are measured to be faster (docs/performance.md, "States"); with 16, single
/// tokens are near the multiply-add rate, and chunks are worth it on AMX alone,
/// where a step of a product has 32 terms. GPUs' schedules read a loop over
/// tokens, and make chunks of it themselves (RecurrenceMma.cpp).
static int64_t recurrenceChunk(const VectorUnit &unit) {
  return unit.amx ? 32 : unit.lanes == 8 ? 16 : 1;
}

static void buildLinalg(OpPassManager &pm, const PipelineOptions &options) {
  ConvertLlamaToLinalgOptions form;
  form.chunk = options.program.chunkSize();
  if (options.device == Device::Cuda) {
    // GPUs multiply 16 bits in less time than integers of blocks
    // (docs/performance/nvidia.md, "Predicted times").
    form.widenedTypes = {"bf16", "f16"};
  } else {
    form.recurrenceChunk = recurrenceChunk(options.cpu.unit);
    form.recurrenceInParts = options.cpu.unit.amx;
    // AMX multiplies bf16 in less time than it takes to turn sums of integers
    // into floats (docs/performance/xeon-amx.md).
    if (options.cpu.unit.amx)
      form.widenedTypes = {"bf16"};
  }
  pm.addPass(createConvertLlamaToLinalg(form));
  // Folds sizes and extensions that the lowering leaves. There is no CSE,
  // because merging two tensor.empty would make one buffer of two, and a copy.
  pm.addPass(createCanonicalizerPass());
}

static void bufferize(OpPassManager &pm) {
  pm.addPass(createCarryInPlace());
  // A result that is inserted into a tensor is computed in this tensor.
  pm.addPass(bufferization::createEmptyTensorEliminationPass());
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  // Kernels return, and loops carry, buffers that are always the same argument.
  // Uses of these results become uses of the argument.
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addPass(bufferization::createDropEquivalentBufferResultsPass());
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  // Equal views become one, and a copy of a view to itself vanishes.
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addPass(createVerifyCacheInPlace());
}

/// Arithmetic that the target does not have becomes arithmetic of f32.
template <typename Function> static void addMath(OpPassManager &pm, bool exp2) {
  // The target converts bf16 but has no arithmetic of it: it is done in f32 and
  // rounded.
  arith::ArithEmulateUnsupportedFloatsOptions floats;
  floats.sourceTypeStrs = {"bf16"};
  pm.addNestedPass<Function>(
      arith::createArithEmulateUnsupportedFloats(floats));
  pm.addNestedPass<Function>(math::createMathExtendToSupportedTypes());
  // Runs on scalars: LLVM vectorizes the loops, including the polynomials.
  pm.addNestedPass<Function>(createApproximateMath({exp2}));
}

static void buildTile(OpPassManager &pm, const PipelineOptions &options) {
  if (options.plain)
    pm.addPass(createDecomposeSoftmax());
  else
    pm.addNestedPass<func::FuncOp>(createFlashAttention());
  bufferize(pm);
  if (!options.plain)
    pm.addNestedPass<func::FuncOp>(createLowerContractions());
  pm.addNestedPass<func::FuncOp>(createLowerToLoops({options.plain}));
  addMath<func::FuncOp>(pm, /*exp2=*/false);
  // Simplifies the index arithmetic of the schedules before lifetimes are
  // counted.
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  pm.addPass(createPlanArena());
}

static void buildLlvm(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createLowerToAbi());
  // Passes run on each function, in parallel, if upstream's passes allow it.
  auto add = [&](std::unique_ptr<Pass> pass) {
    pm.addNestedPass<func::FuncOp>(std::move(pass));
  };
  if (!options.cpu.convertsBf16) {
    // Without these passes LLVM calls a library to round to bf16.
    add(createRoundToBf16());
    arith::ArithExpandOpsPassOptions expand;
    expand.includeBf16 = true;
    add(arith::createArithExpandOpsPass(expand));
  }
  add(createSCFToControlFlowPass());
  // Views of views become one offset. The pass leaves affine arithmetic.
  add(memref::createExpandStridedMetadataPass());
  add(createLowerAffinePass());
  if (options.cpu.unit.amx) {
    // Branches are converted together with AMX, because they carry tiles.
    ConvertToLLVMPassOptions tiles;
    tiles.filterDialects = {"amx", "cf"};
    add(createConvertToLLVMPass(tiles));
  }
  ConvertVectorToLLVMPassOptions vectors;
  vectors.x86Vector = true;
  add(createConvertVectorToLLVMPass(vectors));
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  add(createConvertMathToLLVMPass());
  add(createArithToLLVMConversionPass());
  add(createConvertIndexToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addNestedPass<LLVM::LLVMFuncOp>(createReconcileUnrealizedCastsPass());
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCSEPass());
  if (options.lines) {
    LLVM::DIScopeForLLVMFuncOpPassOptions lines;
    lines.emissionKind = LLVM::DIEmissionKind::LineTablesOnly;
    pm.addPass(LLVM::createDIScopeForLLVMFuncOpPass(lines));
  }
}

/// Canonicalizes ops, but does not merge the blocks of kernels, which LLVM
/// does.
static std::unique_ptr<Pass> createOpCanonicalizer() {
  return createCanonicalizerPass(
      GreedyRewriteConfig().setRegionSimplificationLevel(
          GreedySimplifyRegionLevel::Disabled));
}

static void buildCudaTile(OpPassManager &pm, const PipelineOptions &options) {
  ConvertLinalgToGpuOptions schedules;
  schedules.chips.assign(options.chips.begin(), options.chips.end());
  schedules.schedules = options.program.schedules.value_or("");
  pm.addPass(createCutAtAllReduces());
  pm.addPass(createConvertLinalgToGpu(schedules));
  pm.addPass(createDecomposeSoftmax());
  bufferize(pm);
  pm.addPass(createInlineLaunches());
  // After inlining, sizes of buffers follow from the operands of kernel calls.
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addPass(createLowerLinalgToLaunches());
  addMath<gpu::GPUFuncOp>(pm.nest<gpu::GPUModuleOp>(), /*exp2=*/true);
  // Simplifies sizes of buffers before lifetimes are counted.
  pm.addPass(createOpCanonicalizer());
  pm.addPass(createCSEPass());
  pm.addPass(createPlanArena({/*alignment=*/256}));
}

static void buildCudaLlvm(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createPlanLaunches());
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addNestedPass<gpu::GPUFuncOp>(createOverlapLaunches());
  kernels.addNestedPass<gpu::GPUFuncOp>(createLowerKernelArguments());
  kernels.addNestedPass<gpu::GPUFuncOp>(createMathToIntrinsics());
  // Views of memrefs become offsets. The pass leaves affine arithmetic. Between
  // blocks it would make a tensor map an argument of those that are alike.
  kernels.addPass(memref::createExpandStridedMetadataPass());
  kernels.addPass(createLowerAffinePass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertNVGPUToNVVMPass());
  // No pattern here is rolled back. Without rollback the conversion keeps less
  // in memory.
  ConvertGpuOpsToNVVMOpsOptions nvvm;
  nvvm.allowPatternRollback = false;
  kernels.addPass(createConvertGpuOpsToNVVMOps(nvvm));
  // Ops without an intrinsic become inline PTX.
  kernels.addPass(createConvertNVVMToLLVMPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  // LLVM would do the same, with more memory.
  kernels.addPass(createOpCanonicalizer());
  kernels.addPass(createCSEPass());
  if (!options.lines)
    return;
  // Only .loc lines: with more debug info, PTX asks its compiler to keep debug
  // code.
  LLVM::DIScopeForLLVMFuncOpPassOptions lines;
  lines.emissionKind = LLVM::DIEmissionKind::DebugDirectivesOnly;
  pm.addPass(LLVM::createDIScopeForLLVMFuncOpPass(lines));
}

static void buildFuse(OpPassManager &pm, const PipelineOptions &options) {
  buildInlinePipeline(pm);
  pm.addPass(createAssignSlots());
  const ProgramOptions &program = options.program;
  buildFusePipeline(pm, program.batch.value_or(0),
                    program.keepsWindows() ? program.chunkSize() : 0);
  pm.addPass(createDescribeKernels());
}

namespace {
/// The function that adds the passes from one phase of a device to the next.
struct Pipeline {
  Device device;
  Phase to;
  void (*build)(OpPassManager &, const PipelineOptions &);
};
} // namespace

static constexpr Pipeline kPipelines[] = {
    {Device::Cpu, Phase::Fuse, buildFuse},
    {Device::Cpu, Phase::Linalg, buildLinalg},
    {Device::Cpu, Phase::Tile, buildTile},
    {Device::Cpu, Phase::Llvm, buildLlvm},
    {Device::Cuda, Phase::Fuse, buildFuse},
    {Device::Cuda, Phase::Linalg, buildLinalg},
    {Device::Cuda, Phase::Tile, buildCudaTile},
    {Device::Cuda, Phase::Llvm, buildCudaLlvm},
};

static const Pipeline &pipelineTo(Device device, Phase phase) {
  const Pipeline *found = llvm::find_if(kPipelines, [&](const Pipeline &each) {
    return each.device == device && each.to == phase;
  });
  assert(found != std::end(kPipelines) && "not a phase of passes");
  return *found;
}

void cria::buildPhase(OpPassManager &pm, Phase phase,
                      const PipelineOptions &options) {
  if (phase == Phase::Tile && options.beforeTile)
    options.beforeTile(pm);
  bool isCpu = options.device == Device::Cpu;
  if (phase == Phase::Tile)
    pm.addPass(createAttachTarget({isCpu ? "cpu" : "cuda", options.cpu.flag,
                                   isCpu ? options.cpu.unit.text() : "",
                                   options.plain}));
  pipelineTo(options.device, phase).build(pm, options);
}

namespace {
struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu or cuda"),
                             llvm::cl::init("cpu")};
  Option<std::string> cpu{*this, "cpu", llvm::cl::desc("the CPU's name"),
                          llvm::cl::init("native")};
  Option<std::string> machine{
      *this, "machine", llvm::cl::desc("a file of the CPU's measured rates")};
  ListOption<std::string> chips{
      *this, "chips",
      llvm::cl::desc("NVIDIA architectures to generate code for")};
  Option<int64_t> chunk{*this, "chunk",
                        llvm::cl::desc("the most tokens of a prefill call"),
                        llvm::cl::init(512)};
  Option<int64_t> batch{*this, "batch",
                        llvm::cl::desc("the most rows of the batch entry"),
                        llvm::cl::init(0)};
};

using ErrorHandler = llvm::function_ref<LogicalResult(const Twine &)>;
} // namespace

/// Adds the passes of a phase, with options as the opt tool passes them.
static LogicalResult addPhase(OpPassManager &pm, Phase phase, StringRef text,
                              ErrorHandler error) {
  PhaseOptions options;
  if (failed(options.parseFromString(text)))
    return failure();
  PipelineOptions pipeline;
  if (options.target == "cuda")
    pipeline.device = Device::Cuda;
  else if (options.target != "cpu")
    return error("target=" + options.target + ": expected cpu or cuda");
  llvm::Expected<CpuTarget> cpu = selectCpu(options.cpu, options.machine);
  if (!cpu)
    return error(llvm::toString(cpu.takeError()));
  pipeline.cpu = *cpu;
  if (!options.chips.empty())
    pipeline.chips.assign(options.chips.begin(), options.chips.end());
  pipeline.program.chunk = options.chunk;
  if (options.batch)
    pipeline.program.batch = options.batch;
  buildPhase(pm, phase, pipeline);
  return success();
}

void cria::registerPhasePipelines() {
  for (Phase phase : {Phase::Fuse, Phase::Linalg, Phase::Tile, Phase::Llvm}) {
    const PhaseInfo &info = phases()[static_cast<int>(phase)];
    registerPassPipeline(
        (Twine("cria-") + info.name).str(), info.summary,
        [phase](OpPassManager &pm, StringRef options, ErrorHandler error) {
          return addPhase(pm, phase, options, error);
        },
        [](llvm::function_ref<void(const mlir::detail::PassOptions &)> show) {
          show(PhaseOptions());
        });
  }
}
