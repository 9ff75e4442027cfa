#include "lowering/cpu/Codegen.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace cria;

/// A constant that the linker keeps: readelf shows it, the runtime reads it.
static void addText(llvm::Module &module, const Text &text) {
  auto *data = llvm::ConstantDataArray::getString(
      module.getContext(), text.text, /*AddNull=*/text.exported);
  auto *global = new llvm::GlobalVariable(
      module, data->getType(), /*isConstant=*/true,
      text.exported ? llvm::GlobalValue::ExternalLinkage
                    : llvm::GlobalValue::InternalLinkage,
      data, text.symbol);
  global->setSection(text.section);
  global->setAlignment(llvm::Align(text.exported ? 64 : 1));
  llvm::GlobalValue *used[] = {global};
  llvm::appendToUsed(module, used);
}

static void setTarget(llvm::Module &module, const CpuTarget &target) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    if (!function.getName().starts_with("cria_"))
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.addFnAttr("target-cpu", "x86-64");
    function.addFnAttr("tune-cpu", target.name);
    // Gathers and scatters cost more than the scalar accesses they stand for.
    function.addFnAttr("target-features",
                       target.featureString() +
                           ",+prefer-no-gather,+prefer-no-scatter");
    // Without it LLVM keeps to 256 bits on CPUs it thinks are slowed by 512.
    function.addFnAttr("prefer-vector-width",
                       std::to_string(32 * target.unit.lanes));
    function.addFnAttr("frame-pointer", "non-leaf");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

/// LLVM's O3, less a pass that takes a fifth of its time here and finds
/// nothing: what a loop stores for its next turn is carried in registers
/// already.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback(
      [](llvm::StringRef pass, llvm::Any) {
        return pass != "LoopLoadEliminationPass";
      });
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(),
                            std::nullopt, &callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

llvm::Expected<std::unique_ptr<llvm::Module>>
cria::translateToLlvm(mlir::ModuleOp op, llvm::ArrayRef<Text> texts,
                      const CpuTarget &target, llvm::TargetMachine &machine,
                      llvm::LLVMContext &context) {
  mlir::registerBuiltinDialectTranslation(*op.getContext());
  mlir::registerLLVMDialectTranslation(*op.getContext());
  std::unique_ptr<llvm::Module> module =
      mlir::translateModuleToLLVMIR(op, context, "cria");
  if (!module)
    return llvm::createStringError("translation to LLVM IR failed");
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple());
  setTarget(*module, target);
  for (const Text &text : texts)
    addText(*module, text);
  optimize(*module, machine);
  return module;
}

llvm::Expected<llvm::SmallVector<char, 0>>
cria::generateCode(llvm::Module &module, llvm::TargetMachine &machine,
                   llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind))
    return llvm::createStringError("LLVM cannot emit this kind of file");
  passes.run(module);
  return bytes;
}
