/// cria-opt: runs passes and phases over textual IR. Has everything that
/// upstream's mlir-opt has, plus the llama dialect, its passes and the phases.
#include "lowering/Compilation.h"
#include "lowering/Passes.h"
#include "lowering/import/Nesting.h"
#include "passes/Passes.h"
#include "tools/CompilerVersion.h"
#include "tools/taps/Passes.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

/// Does what mlir-opt does with a file, after a check that its text does not
/// nest too deep.
static llvm::Error process(llvm::StringRef input, llvm::StringRef output,
                           mlir::DialectRegistry &registry) {
  std::string problem;
  std::unique_ptr<llvm::MemoryBuffer> file =
      mlir::openInputFile(input, &problem);
  if (!file)
    return llvm::createStringError(problem);
  if (!mlir::isBytecode(file->getMemBufferRef()))
    if (llvm::Error error = cria::checkNesting(file->getBuffer(), input))
      return error;
  std::unique_ptr<llvm::ToolOutputFile> out =
      mlir::openOutputFile(output, &problem);
  if (!out)
    return llvm::createStringError(problem);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (mlir::failed(
          mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return llvm::createStringError(""); // MLIR has reported the error
  out->keep();
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cria::setVersionPrinter("cria-opt");
  mlir::DialectRegistry registry;
  cria::registerCompilerDialects(registry);
  mlir::registerAllPasses();
  cria::registerCriaPasses();
  cria::registerCriaLoweringPasses();
  cria::registerCriaTapsPasses();
  cria::registerPhasePipelines();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "Cria optimizer driver\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, input, output, registry));
  llvm::Error error = process(input, output, registry);
  if (!error)
    return 0;
  std::string text = llvm::toString(std::move(error));
  if (!text.empty())
    llvm::WithColor::error(llvm::errs(), "cria-opt") << text << "\n";
  return 1;
}
