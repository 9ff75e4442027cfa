/// cria-opt: runs passes and phases over textual IR. Has everything that
/// upstream's mlir-opt has, plus the llama dialect, its passes and the phases.
#include "lowering/Compilation.h"
#include "lowering/Passes.h"
#include "passes/Passes.h"
#include "tools/CompilerVersion.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  cria::setVersionPrinter("cria-opt");
  mlir::DialectRegistry registry;
  cria::registerCompilerDialects(registry);
  mlir::registerAllPasses();
  cria::registerCriaPasses();
  cria::registerCriaLoweringPasses();
  cria::registerPhasePipelines();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Cria optimizer driver\n", registry));
}
