/// Textual IR of the llama dialect through the phases to linalg: diagnostics,
/// never a crash.
#include "lowering/Compilation.h"
#include "lowering/Pipeline.h"
#include "lowering/import/Program.h"
#include "test/fuzz/Fuzz.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::DialectRegistry registry;
  registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
  // MLIR's lexer reads up to a NUL, which LLVM puts after what it reads of
  // files.
  std::string text(fuzz::textOf(data, size));
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module || mlir::failed(verifyProgram(*module)))
    return 0;
  mlir::PassManager pm(&context);
  PipelineOptions options;
  for (Phase phase : {Phase::Fuse, Phase::Linalg})
    buildPhase(pm, phase, options);
  (void)mlir::succeeded(pm.run(*module));
  return 0;
}
