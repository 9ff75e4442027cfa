#include "tools/emulator/translate/Compile.h"

#include "tools/emulator/run/Entries.h"

#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/ExecutionEngine/Orc/CompileUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Caching.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

namespace cria::emulator {
namespace {

/// The host as a target, detected where this library runs.
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

llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> makeJit() {
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(host().builder)
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

using Object = std::unique_ptr<llvm::MemoryBuffer>;

/// Optimizes a module and returns its machine code.
llvm::Expected<Object> toObject(llvm::Module &module, unsigned level) {
  optimize(module, level);
  auto target = host().builder;
  target.setCodeGenOptLevel(level ? llvm::CodeGenOptLevel::Default
                                  : llvm::CodeGenOptLevel::None);
  target.setRelocationModel(llvm::Reloc::PIC_);
  auto machine = target.createTargetMachine();
  if (!machine)
    return machine.takeError();
  return llvm::orc::SimpleCompiler(**machine)(module);
}

/// A name for the machine code that toObject() returns for these arguments.
std::string keyOf(const llvm::Module &module, unsigned level) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::WriteBitcodeToFile(module, stream);
  stream << LLVM_VERSION_STRING << level << host().machine->getTargetCPU()
         << host().machine->getTargetFeatureString();
  llvm::SHA256 hash;
  hash.update(stream.str());
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

/// The machine code of toObject(), kept from an earlier call if there was one.
llvm::Expected<Object> findObject(llvm::Module &module, unsigned level,
                                  const std::string &folder) {
  Object object;
  auto cache = llvm::localCache("emulator", "kernel", folder,
                                [&](size_t, const llvm::Twine &, Object kept) {
                                  object = std::move(kept);
                                });
  if (!cache)
    return cache.takeError();
  auto add = (*cache)(0, keyOf(module, level), "");
  if (!add)
    return add.takeError();
  if (!*add) // found
    return object;
  auto made = toObject(module, level);
  if (!made)
    return made;
  auto stream = (*add)(0, "");
  if (!stream)
    return stream.takeError();
  *(*stream)->OS << (*made)->getBuffer();
  if (auto error = (*stream)->commit())
    return error;
  return object;
}

llvm::Expected<uint64_t> compile(std::unique_ptr<llvm::orc::LLJIT> &jit,
                                 llvm::orc::ThreadSafeModule module,
                                 const std::string &function, unsigned level,
                                 const std::string &cache) {
  if (!jit) {
    auto made = makeJit();
    if (!made)
      return made.takeError();
    jit = std::move(*made);
    llvm::pruneCache(cache, {}); // files that were not used for a week; no
                                 // folder: nothing
  }
  auto object = module.withModuleDo([&](llvm::Module &inside) {
    return cache.empty() ? toObject(inside, level)
                         : findObject(inside, level, cache);
  });
  if (!object)
    return object.takeError();
  if (auto error = jit->addObjectFile(std::move(*object)))
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
              unsigned optimization, const std::string &cache) {
  auto address = compile(jit, std::move(module), function, optimization, cache);
  if (!address)
    return llvm::toString(address.takeError());
  return *address;
}

} // namespace cria::emulator
