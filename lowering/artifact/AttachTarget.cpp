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
    llvm::Expected<CpuTarget> selected = selectCpu(cpu);
    if (!selected) {
      getOperation().emitError(llvm::toString(selected.takeError()));
      return signalPassFailure();
    }
    manifest->setTarget(target == "cuda" ? Device::Cuda : Device::Cpu,
                        *selected, plain);
    manifest->store(getOperation());
  }
};
} // namespace
