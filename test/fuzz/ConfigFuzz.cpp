/// config.json; an accepted config becomes a program that verifies.
#include "dialect/Dialect.h"
#include "lowering/Compilation.h"
#include "lowering/import/Import.h"
#include "test/fuzz/Fuzz.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mlir::MLIRContext *context = [] {
    mlir::DialectRegistry registry;
    registerCompilerDialects(registry);
    return new mlir::MLIRContext(registry,
                                 mlir::MLIRContext::Threading::DISABLED);
  }();
  auto config = parseConfig(fuzz::textOf(data, size));
  if (!config) {
    fuzz::require(!llvm::toString(config.takeError()).empty(),
                  "an error says something");
    return 0;
  }
  mlir::ScopedDiagnosticHandler quiet(context, [](mlir::Diagnostic &) {});
  auto module = importModel(*config, {}, context);
  fuzz::require(!module || mlir::succeeded(mlir::verify(*module)),
                "what is imported verifies");
  return 0;
}
