#include "tools/emulator/translate/Compile.h"

#include "tools/emulator/run/Entries.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

namespace cria::emulator {
namespace {

/// The host as a target. It exists wherever this library runs.
struct Host {
  llvm::orc::JITTargetMachineBuilder builder;
  std::unique_ptr<llvm::TargetMachine> machine;
};

const Host &host() {
  static const Host detected = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    Host host{llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost()),
              nullptr};
    host.machine = llvm::cantFail(host.builder.createTargetMachine());
    return host;
  }();
  return detected;
}

void optimize(llvm::Module &module, unsigned level) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", host().machine->getTargetCPU());
      function.addFnAttr("target-features",
                         host().machine->getTargetFeatureString());
    }
  if (level == 0)
    return;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(host().machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  builder
      .buildPerModuleDefaultPipeline(level == 1 ? llvm::OptimizationLevel::O1
                                                : llvm::OptimizationLevel::O2)
      .run(module, modules);
}

llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> makeJit(unsigned level) {
  auto target = host().builder;
  target.setCodeGenOptLevel(level ? llvm::CodeGenOptLevel::Default
                                  : llvm::CodeGenOptLevel::None);
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(target))
                 .create();
  if (!jit)
    return jit.takeError();
  llvm::orc::SymbolMap symbols;
  for (const RuntimeEntry &entry : runtimeEntries())
    symbols[(*jit)->mangleAndIntern(entry.name)] = {
        llvm::orc::ExecutorAddr::fromPtr(entry.address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (auto error = (*jit)->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return error;
  return jit;
}

llvm::Expected<uint64_t> compile(std::unique_ptr<llvm::orc::LLJIT> &jit,
                                 llvm::orc::ThreadSafeModule module,
                                 const std::string &function, unsigned level) {
  if (!jit) {
    auto made = makeJit(level);
    if (!made)
      return made.takeError();
    jit = std::move(*made);
  }
  module.withModuleDo([&](llvm::Module &inside) { optimize(inside, level); });
  if (auto error = jit->addIRModule(std::move(module)))
    return error;
  auto address = jit->lookup(function);
  if (!address)
    return address.takeError();
  return address->getValue();
}

} // namespace

void prepareForHost(llvm::Module &module) {
  module.setDataLayout(host().machine->createDataLayout());
  module.setTargetTriple(host().machine->getTargetTriple());
}

std::variant<uint64_t, std::string>
compileKernel(std::unique_ptr<llvm::orc::LLJIT> &jit,
              llvm::orc::ThreadSafeModule module, const std::string &function,
              unsigned optimization) {
  auto address = compile(jit, std::move(module), function, optimization);
  if (!address)
    return llvm::toString(address.takeError());
  return *address;
}

} // namespace cria::emulator
