#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void cria::buildFusePipeline(OpPassManager &pm, int64_t rows) {
  // First, so that all that follows sees each entry's own shapes.
  if (rows)
    pm.addPass(createPageCaches({rows}));
  else
    pm.addPass(createSpecializeEntries());
  OpPassManager &entry = pm.nest<func::FuncOp>();
  // Constants once each, and ops written twice (a norm read by three linears)
  // once: fusion looks at uses.
  entry.addPass(createCanonicalizerPass());
  entry.addPass(createCSEPass());
  // Before attention, which would hide the queries' and caches' only reader.
  entry.addPass(createFuseQKV());
  // Before the residual, which takes the merging of heads that attention left.
  entry.addPass(createFuseAttention());
  entry.addPass(createFuseResidual());
  entry.addPass(createFuseGateUp());
  // Last: one kernel for each op that is left, embedding and head among them.
  entry.addPass(createOutlineKernels());
}
