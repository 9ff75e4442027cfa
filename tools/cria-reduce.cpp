/// cria-reduce: shrinks IR with the llama dialect that shows a bug.
#include "lowering/Compilation.h"
#include "lowering/Passes.h"
#include "passes/Passes.h"
#include "tools/CompilerVersion.h"
#include "tools/taps/Passes.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  cria::setVersionPrinter("cria-reduce");
  llvm::cl::HideUnrelatedOptions({}); // of LLVM's code generators
  mlir::DialectRegistry registry;
  cria::registerCompilerDialects(registry);
  mlir::registerAllPasses();
  cria::registerCriaPasses();
  cria::registerCriaLoweringPasses();
  cria::registerCriaTapsPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
