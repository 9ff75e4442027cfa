#include "lowering/Passes.h"
#include "lowering/artifact/Manifest.h"

namespace cria {
#define GEN_PASS_DEF_ATTACHTARGET
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
struct AttachTarget : cria::impl::AttachTargetBase<AttachTarget> {
  using AttachTargetBase::AttachTargetBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::Expected<CpuTarget> selected = selectCpu(cpu);
    if (!selected) {
      module.emitError(llvm::toString(selected.takeError()));
      return signalPassFailure();
    }
    std::string unit = vectorUnit;
    if (unit.empty())
      unit = selected->unit.text();
    if (target == "cpu" && failed(VectorUnit::store(unit, module)))
      return signalPassFailure();
    if (!Manifest::isIn(module))
      return;
    FailureOr<Manifest> manifest = Manifest::of(module);
    if (failed(manifest))
      return signalPassFailure();
    manifest->setTarget(target == "cuda" ? Device::Cuda : Device::Cpu,
                        *selected, plain);
    manifest->store(module);
  }
};
} // namespace
