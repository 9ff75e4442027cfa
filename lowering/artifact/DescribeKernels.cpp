#include "lowering/Passes.h"
#include "lowering/artifact/Manifest.h"
#include "lowering/entry/Phase.h"

namespace cria {
#define GEN_PASS_DEF_DESCRIBEKERNELS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
struct DescribeKernels : cria::impl::DescribeKernelsBase<DescribeKernels> {
  void runOnOperation() override {
    if (!Manifest::isIn(getOperation()))
      return;
    FailureOr<Manifest> manifest = Manifest::of(getOperation());
    if (failed(manifest))
      return signalPassFailure();
    if (phaseOf(getOperation()) > Phase::Fuse) {
      getOperation().emitError("expected a program at fuse");
      return signalPassFailure();
    }
    manifest->fromFuse(getOperation());
    manifest->store(getOperation());
  }
};
} // namespace
