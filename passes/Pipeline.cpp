#include "dialect/Signature.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void cria::buildInlinePipeline(OpPassManager &pm) {
  pm.addPass(createVerifyHelpers());
  pm.addPass(createSymbolDCEPass()); // functions that are not checked
  // Without the inliner's own canonicalizer, the ops stay as they were written.
  pm.addPass(createInlinerPass({}, [](OpPassManager &) {}));
  pm.addPass(createSymbolDCEPass());
}

void cria::buildFusePipeline(OpPassManager &pm, int64_t rows,
                             int64_t windowChunk) {
  // Entries are made first, so that later passes see the shapes of each entry.
  if (rows)
    pm.addPass(createPageCaches({rows, windowChunk, kPage}));
  else
    pm.addPass(createSpecializeEntries());
  OpPassManager &entry = pm.nest<func::FuncOp>();
  // Merges equal constants and equal ops (such as a norm that three linears
  // read), because fusion looks at uses.
  entry.addPass(createCanonicalizerPass());
  entry.addPass(createCSEPass());
  // Both run before attention is fused, which would hide the only reader of
  // queries and caches.
  entry.addPass(createFuseLatent());
  entry.addPass(createFuseQKV());
  // Runs before the residual is fused, which takes a merging of heads that
  // attention left.
  entry.addPass(createFuseAttention());
  // Runs before the gate is fused, for which it copies a norm.
  entry.addPass(createFuseRoute());
  entry.addPass(createFuseResidual());
  entry.addPass(createFuseGateUp());
  // Runs last: each remaining op becomes a kernel, such as embedding and head.
  entry.addPass(createOutlineKernels());
}
