#include "lowering/cpu/Codegen.h"

#include "lowering/cpu/Split.h"

#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace cria;

/// Adds a constant that the linker keeps, because readelf prints it and the
/// runtime reads it.
static void addText(llvm::Module &module, const Text &text) {
  auto *data = llvm::ConstantDataArray::getString(module.getContext(),
                                                  text.text, /*AddNull=*/false);
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
    function.addFnAttr("target-cpu", target.baseline());
    function.addFnAttr("tune-cpu", target.tuning);
    // Gathers and scatters of x86 are slower than the scalar accesses that they
    // replace.
    function.addFnAttr(
        "target-features",
        target.featureString() +
            (target.unit.neon ? "" : ",+prefer-no-gather,+prefer-no-scatter"));
    // Without this attribute LLVM uses vectors of at most 256 bits on CPUs that
    // it considers slow with 512.
    function.addFnAttr("prefer-vector-width",
                       std::to_string(32 * target.unit.lanes));
    function.addFnAttr("frame-pointer", "non-leaf");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

/// Appends the suffix to the names of functions, so that they differ from those
/// of other CPUs' code.
static void rename(llvm::Module &module, llvm::StringRef suffix) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration() || function.hasHiddenVisibility())
      function.setName(function.getName() + suffix);
}

/// What code from MLIR leaves to do, as `opt -passes=` reads it: chains of
/// blocks become loops whose invariants are outside, and loops over scalars
/// become vectors. O3 takes twice to three times as long and makes half as much
/// code again, with inner loops of as many instructions. It unrolls other loops
/// than schedules do, which unroll those that become faster by it.
static constexpr char kPasses[] =
    "sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-instsimplify,loop-simplifycfg,licm,loop-rotate,licm),"
    "simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop(loop-idiom,indvars,loop-deletion),loop-vectorize,"
    "instcombine<no-verify-fixpoint>,early-cse,loop-mssa(licm),simplifycfg";

static llvm::Error optimize(llvm::Module &module,
                            llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, kPasses))
    return error;
  llvm::createModuleToFunctionPassAdaptor(std::move(passes))
      .run(module, modules);
  return llvm::Error::success();
}

/// Translates one part, and optimizes it.
static llvm::Expected<CodePart> translatePart(mlir::ModuleOp op,
                                              llvm::ArrayRef<Text> texts,
                                              const CpuTarget &target,
                                              llvm::StringRef suffix,
                                              mlir::TimingScope &timing) {
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  CodePart part;
  part.target = target;
  part.context = std::make_unique<llvm::LLVMContext>();
  mlir::TimingScope translation = timing.nest("translate to LLVM IR");
  part.module = mlir::translateModuleToLLVMIR(op, *part.context, "cria");
  if (!part.module)
    return llvm::createStringError("translation to LLVM IR failed");
  part.module->setDataLayout((*machine)->createDataLayout());
  part.module->setTargetTriple((*machine)->getTargetTriple());
  setTarget(*part.module, target);
  rename(*part.module, suffix);
  for (const Text &text : texts)
    addText(*part.module, text);
  translation.stop();
  mlir::TimingScope optimization = timing.nest("optimize LLVM IR");
  if (llvm::Error error = optimize(*part.module, **machine))
    return error;
  return part;
}

/// Computes results[i] for every i, on the context's threads. If there are
/// errors, the one of the least i is returned.
template <typename T>
static llvm::Expected<std::vector<T>>
computeEach(mlir::MLIRContext *context, size_t count,
            llvm::function_ref<llvm::Expected<T>(size_t)> compute) {
  std::vector<T> results(count);
  std::vector<std::string> errors(count);
  mlir::parallelFor(context, 0, count, [&](size_t i) {
    llvm::Expected<T> result = compute(i);
    if (result)
      results[i] = std::move(*result);
    else
      errors[i] = llvm::toString(result.takeError());
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return llvm::createStringError(error);
  return results;
}

llvm::Expected<std::vector<CodePart>>
cria::translateToLlvm(mlir::ModuleOp op, llvm::ArrayRef<Text> texts,
                      const CpuTarget &target, llvm::StringRef suffix,
                      mlir::TimingScope &timing) {
  mlir::registerBuiltinDialectTranslation(*op.getContext());
  mlir::registerLLVMDialectTranslation(*op.getContext());
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules = splitByKernel(op);
  size_t last = modules.size();
  modules.push_back(mlir::ModuleOp::create(op.getLoc()));
  return computeEach<CodePart>(op.getContext(), modules.size(), [&](size_t i) {
    auto part =
        translatePart(*modules[i], i == last ? texts : llvm::ArrayRef<Text>(),
                      target, suffix, timing);
    modules[i] = nullptr;
    return part;
  });
}

llvm::Expected<CodePart> cria::joinParts(llvm::ArrayRef<CodePart> parts) {
  CodePart whole;
  whole.target = parts.front().target;
  whole.context = std::make_unique<llvm::LLVMContext>();
  for (const CodePart &part : parts) {
    llvm::SmallVector<char, 0> bitcode;
    llvm::BitcodeWriter writer(bitcode);
    // Code generation depends on the order of uses: in another order the code
    // could differ.
    writer.writeModule(*part.module, /*ShouldPreserveUseListOrder=*/true);
    writer.writeSymtab();
    writer.writeStrtab();
    llvm::MemoryBufferRef buffer(
        llvm::StringRef(bitcode.data(), bitcode.size()), "cria");
    auto copy = llvm::parseBitcodeFile(buffer, *whole.context);
    if (!copy)
      return copy.takeError();
    if (!whole.module)
      whole.module = std::move(*copy);
    else if (llvm::Linker::linkModules(*whole.module, std::move(*copy)))
      return llvm::createStringError("LLVM cannot link the parts");
  }
  return whole;
}

static llvm::Expected<llvm::SmallVector<char, 0>>
generateCode(const CodePart &part, llvm::CodeGenFileType kind,
             mlir::TimingScope &timing) {
  mlir::TimingScope scope = timing.nest("generate code");
  auto machine = createTargetMachine(part.target);
  if (!machine)
    return machine.takeError();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, kind))
    return llvm::createStringError("LLVM cannot emit this kind of file");
  passes.run(*part.module);
  return bytes;
}

llvm::Expected<llvm::SmallVector<char, 0>>
cria::generateAssembly(CodePart &part, mlir::TimingScope &timing) {
  return generateCode(part, llvm::CodeGenFileType::AssemblyFile, timing);
}

llvm::Expected<std::vector<llvm::SmallVector<char, 0>>>
cria::generateObjects(mlir::MLIRContext *context,
                      llvm::ArrayRef<CodePart> parts,
                      mlir::TimingScope &timing) {
  return computeEach<llvm::SmallVector<char, 0>>(
      context, parts.size(), [&](size_t i) {
        return generateCode(parts[i], llvm::CodeGenFileType::ObjectFile,
                            timing);
      });
}
