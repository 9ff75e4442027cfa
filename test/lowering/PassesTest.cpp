/// Every pass alone over modules that no importer made, and over every phase:
/// an error or a result, never a signal.
#include "lowering/Passes.h"
#include "lowering/Compilation.h"
#include "passes/Passes.h"
#include "tools/taps/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/Signals.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cria;

static std::string read(const char *path) {
  auto file =
      llvm::MemoryBuffer::getFile(CRIA_SOURCE_FOLDER + std::string(path));
  EXPECT_TRUE(file) << path;
  return file ? (*file)->getBuffer().str() : "";
}

/// The passes that a Passes.td defines, in the ops on which they run. Passes of
/// fusion run on functions.
static std::vector<std::string> passesOf(const char *path) {
  std::string text = read(path);
  std::vector<std::string> passes;
  llvm::Regex name("Pass<\"([a-z0-9-]+)\"(, \"[a-z:]*(::[A-Za-z]+)\")?>");
  SmallVector<StringRef> match;
  for (StringRef rest = text; name.match(rest, &match);
       rest = rest.drop_front(match[0].end() - rest.begin()))
    passes.push_back(match[3] == "::ModuleOp" ? match[1].str()
                     : match[3] == "::GPUFuncOp"
                         ? ("gpu.module(gpu.func(" + match[1] + "))").str()
                         : ("func.func(" + match[1] + ")").str());
  return passes;
}

/// All passes, some also with options without which they do little.
static std::vector<std::string> allPasses() {
  registerCriaPasses();
  registerCriaLoweringPasses();
  registerCriaTapsPasses();
  registerPhasePipelines();
  std::vector<std::string> all = {
      "llama-quantize-weights{format=q8_0}",
      "llama-quantize-cache{format=q8_0}",
      "llama-shard-weights{shards=2}",
      "func.func(lower-linalg-to-loops{plain=true})",
      "convert-linalg-to-gpu{chips=sm_90a}",
      "add-taps{kept=none}"};
  for (const char *path : {"/passes/Passes.td", "/lowering/Passes.td"})
    llvm::append_range(all, passesOf(path));
  return all;
}

static std::vector<OwningOpRef<ModuleOp>> oddModules(MLIRContext &context) {
  std::vector<OwningOpRef<ModuleOp>> modules;
  std::string text = read("/test/lowering/Inputs/odd-modules.mlir");
  SmallVector<StringRef> parts;
  StringRef(text).split(parts, "// -----\n");
  for (StringRef part : parts) {
    modules.push_back(parseSourceString<ModuleOp>(part, &context));
    EXPECT_TRUE(modules.back()) << part.str();
  }
  return modules;
}

/// Every phase of a model, up to `last`.
static void addPhases(std::vector<OwningOpRef<ModuleOp>> &modules,
                      MLIRContext &context, CompileOptions options,
                      Phase last) {
  options.input = CRIA_SOURCE_FOLDER "/examples/tiny/config.json";
  options.program.chunk = 16;
  options.cpu = "x86-64-v3";
  auto compilation = Compilation::start(options, context);
  ASSERT_TRUE(bool(compilation));
  compilation->listen(
      [&](Phase, ModuleOp module) { modules.push_back(module.clone()); });
  EXPECT_FALSE(compilation->advance(last));
}

/// Runs a pass. The pass manager verifies what the pass makes.
static void run(const std::string &pass, ModuleOp module) {
  PassManager pm(module.getContext());
  ASSERT_TRUE(succeeded(parsePassPipeline(pass, pm))) << pass;
  (void)succeeded(pm.run(module));
}

TEST(Passes, NeverCrash) {
  llvm::EnablePrettyStackTrace();
  llvm::sys::PrintStackTraceOnErrorSignal("LoweringTests");
  registerPassManagerCLOptions(); // which a compilation reads
  DialectRegistry registry;
  registerCompilerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  std::vector<OwningOpRef<ModuleOp>> modules = oddModules(context);
  CompileOptions cpu, cuda, ranks;
  cuda.device = Device::Cuda;
  cuda.program.batch = 4;
  ranks.program.shards = 2;
  ranks.device = Device::Cuda;
  addPhases(modules, context, cpu, Phase::Llvm);
  addPhases(modules, context, cuda, Phase::Tile);
  addPhases(modules, context, ranks, Phase::Linalg);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  for (const std::string &pass : allPasses()) {
    for (size_t i = 0; i < modules.size(); ++i) {
      SCOPED_TRACE(pass + " on module " + std::to_string(i));
      OwningOpRef<ModuleOp> copy(modules[i]->clone());
      // If the process ends by a signal, this line says where.
      llvm::PrettyStackTraceFormat where("%s on module %zu", pass.c_str(), i);
      run(pass, *copy);
    }
  }
}
