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
    if (!Manifest::isIn(getOperation()))
      return;
    FailureOr<Manifest> manifest = Manifest::of(getOperation());
    if (failed(manifest))
      return signalPassFailure();
    PipelineOptions options;
    options.device = target == "cuda" ? Device::Cuda : Device::Cpu;
    llvm::Expected<CpuTarget> selected = selectCpu(cpu);
    if (!selected) {
      getOperation().emitError(llvm::toString(selected.takeError()));
      return signalPassFailure();
    }
    options.cpu = *selected;
    options.plain = plain;
    manifest->setTarget(options);
    manifest->store(getOperation());
  }
};
} // namespace
