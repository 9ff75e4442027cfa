/// cria-lsp-server: editor support for IR with the llama dialect.
#include "lowering/Compilation.h"
#include "tools/CompilerVersion.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  cria::setVersionPrinter("cria-lsp-server");
  mlir::DialectRegistry registry;
  cria::registerCompilerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
