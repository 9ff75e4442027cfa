#include "lowering/entry/Phase.h"

#include "dialect/Attributes.h"
#include "dialect/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace cria;

static constexpr PhaseInfo kPhases[] = {
    {Phase::Import, "import", "the program in the llama dialect"},
    {Phase::Fuse, "fuse", "entries, with ops grouped into kernels"},
    {Phase::Linalg, "linalg", "linalg on tensors; MLIR's dialects from here"},
    {Phase::Tile, "tile", "loops over vectors on memrefs"},
    {Phase::Llvm, "llvm", "the LLVM dialect"},
    {Phase::LlvmIr, "llvmir", "LLVM IR, optimized"},
    {Phase::Ptx, "ptx", "PTX, for NVIDIA GPUs"},
    {Phase::Asm, "asm", "assembly"},
    {Phase::Obj, "obj", "a relocatable object"},
};

ArrayRef<PhaseInfo> cria::phases() { return kPhases; }

static constexpr Phase kCpuPhases[] = {
    Phase::Import, Phase::Fuse,   Phase::Linalg, Phase::Tile,
    Phase::Llvm,   Phase::LlvmIr, Phase::Asm,    Phase::Obj};
static constexpr Phase kCudaPhases[] = {
    Phase::Import, Phase::Fuse, Phase::Linalg, Phase::Tile,
    Phase::Llvm,   Phase::Ptx,  Phase::Obj};

ArrayRef<Phase> cria::phasesOf(Device device) {
  if (device == Device::Cpu)
    return kCpuPhases;
  return kCudaPhases;
}

std::string cria::dumpName(Device device, Phase phase) {
  const char *extension = phase <= Phase::Llvm     ? ".mlir"
                          : phase == Phase::LlvmIr ? ".ll"
                          : phase == Phase::Ptx    ? ".ptx"
                          : phase == Phase::Asm    ? ".s"
                                                   : ".o";
  ArrayRef<Phase> order = phasesOf(device);
  return std::to_string(llvm::find(order, phase) - order.begin()) + "-" +
         kPhases[static_cast<int>(phase)].name + extension;
}

std::optional<Phase> cria::phaseByName(StringRef name) {
  for (const PhaseInfo &info : kPhases)
    if (name == info.name)
      return info.phase;
  return std::nullopt;
}

Phase cria::phaseOf(ModuleOp module) {
  if (!module.getOps<gpu::GPUModuleOp>().empty())
    return Phase::Tile;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kArgumentsAttribute) ||
        function->hasAttr(kWeightAttribute) ||
        function->hasAttr(kRopeAttribute))
      return llvm::any_of(function.getArgumentTypes(),
                          llvm::IsaPred<MemRefType>) ||
                     llvm::any_of(function.getResultTypes(),
                                  llvm::IsaPred<MemRefType>)
                 ? Phase::Tile
                 : Phase::Linalg;
  WalkResult kernels =
      module.walk([](llama::KernelOp) { return WalkResult::interrupt(); });
  return kernels.wasInterrupted() ? Phase::Fuse : Phase::Import;
}
