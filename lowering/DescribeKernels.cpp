#include "lowering/Passes.h"
#include "lowering/artifact/Manifest.h"

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
    manifest->fromFuse(getOperation());
    manifest->store(getOperation());
  }
};
} // namespace
