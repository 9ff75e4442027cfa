/// cria-opt: runs passes and phases over a program, as text, as bytecode, or
/// imported from a config.json or a GGUF file. Has everything that upstream's
/// mlir-opt has, plus the llama dialect, its passes and the phases.
#include "lowering/Compilation.h"
#include "lowering/Passes.h"
#include "lowering/import/Gguf.h"
#include "lowering/import/Nesting.h"
#include "passes/Passes.h"
#include "tools/CompilerVersion.h"
#include "tools/ProgramFlags.h"
#include "tools/taps/Passes.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

static llvm::cl::OptionCategory
    category("Options of a config.json or a GGUF file",
             "These options change the program that is made of it.");
static const cria::ProgramFlags programFlags(category, /*later=*/false);

/// The program of a config.json or a GGUF file, as cria-compile --emit=import
/// prints it.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
importModel(llvm::StringRef input, const mlir::DialectRegistry &registry) {
  cria::CompileOptions options;
  options.input = input;
  if (llvm::Error error = programFlags.read(options.program))
    return error;
  mlir::MLIRContext context(registry);
  auto compilation = cria::Compilation::start(options, context);
  if (!compilation)
    return compilation.takeError();
  for (const std::string &line : compilation->warnings())
    llvm::WithColor::warning(llvm::errs(), "cria-opt") << line << "\n";
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::Error error = compilation->print(stream))
    return error;
  return llvm::MemoryBuffer::getMemBufferCopy(text, input);
}

/// Reads the text or bytecode of a program. Refuses text that nests too deep.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInput(std::string input, const mlir::DialectRegistry &registry) {
  if (llvm::sys::fs::is_directory(input))
    input += "/config.json";
  if (llvm::StringRef(input).ends_with(".json") || cria::isGguf(input))
    return importModel(input, registry);
  std::string problem;
  std::unique_ptr<llvm::MemoryBuffer> file =
      mlir::openInputFile(input, &problem);
  if (!file)
    return llvm::createStringError(problem);
  if (!mlir::isBytecode(file->getMemBufferRef()))
    if (llvm::Error error = cria::checkNesting(file->getBuffer(), input))
      return error;
  return file;
}

/// Does what mlir-opt does with a file.
static llvm::Error process(llvm::StringRef input, llvm::StringRef output,
                           mlir::DialectRegistry &registry) {
  auto file = readInput(input.str(), registry);
  if (!file)
    return file.takeError();
  std::string problem;
  std::unique_ptr<llvm::ToolOutputFile> out =
      mlir::openOutputFile(output, &problem);
  if (!out)
    return llvm::createStringError(problem);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (mlir::failed(
          mlir::MlirOptMain(out->os(), std::move(*file), registry, config)))
    return llvm::createStringError(""); // MLIR has reported the error
  out->keep();
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cria::setVersionPrinter("cria-opt");
  llvm::cl::HideUnrelatedOptions(category); // of LLVM's code generators
  mlir::DialectRegistry registry;
  cria::registerCompilerDialects(registry);
  mlir::registerAllPasses();
  cria::registerCriaPasses();
  cria::registerCriaLoweringPasses();
  cria::registerCriaTapsPasses();
  cria::registerPhasePipelines();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv,
      "Runs passes over a program, as mlir-opt does: MLIR's, Cria's, and the "
      "phases --cria-fuse, --cria-linalg, --cria-tile and --cria-llvm\n",
      registry);
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
