#include "lowering/Compilation.h"

#include "dialect/Dialect.h"
#include "lowering/artifact/Link.h"
#include "lowering/artifact/Writer.h"
#include "lowering/cpu/Codegen.h"
#include "lowering/import/Adapters.h"
#include "lowering/import/Program.h"

#include "mlir/IR/AsmState.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/LocationSnapshot.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace cria;

void cria::registerCompilerDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  registry.insert<llama::LlamaDialect>();
}

/// MLIR has said why.
static llvm::Error reported() { return llvm::createStringError(""); }

llvm::Expected<Compilation> Compilation::start(const CompileOptions &options,
                                               MLIRContext &context) {
  Compilation result;
  result.options = options;
  std::string config;
  if (StringRef(options.input).ends_with(".mlir")) {
    result.module = loadProgram(options.input, &context);
  } else {
    llvm::Expected<ModelConfig> model =
        readConfig(options.input, options.allowUnknown);
    if (!model)
      return model.takeError();
    config = model->json;
    result.rows = model->ledger;
    result.notes = model->warnings;
    result.module = importModel(*model, options.import, &context);
  }
  if (!result.module || failed(verifyProgram(*result.module)))
    return reported();
  int64_t rank = options.import.loraRank;
  if (rank && failed(addAdapters(*result.module, rank)))
    return reported();
  Manifest &manifest = result.manifest;
  manifest.fromProgram(*result.module, config, options.pipeline);
  manifest.setLedger(result.rows);
  manifest.setFlag("cpu", options.cpuFlag);
  manifest.setFlag("chunk", options.pipeline.chunk);
  if (options.import.maxSeq)
    manifest.setFlag("max_seq", options.import.maxSeq);
  if (rank)
    manifest.setFlag("lora_rank", rank);
  return result;
}

llvm::Error Compilation::runPasses(Phase phase) {
  // The program that CUDA's tile reads waits beside linalg.
  if (phase == Phase::Linalg && inputOf(device(), Phase::Tile) != Phase::Linalg)
    fused = module->clone();
  if (phase == Phase::Tile && fused)
    module = std::move(fused);
  PassManager pm(module->getContext());
  if (failed(applyPassManagerCLOptions(pm)))
    return reported();
  applyDefaultTimingPassManagerCLOptions(pm);
  buildPhase(pm, phase, options.pipeline);
  if (failed(pm.run(*module)))
    return reported();
  if (phase == Phase::Tile && options.pipeline.device == Device::Cpu)
    manifest.fromTile(*module);
  // PTX has .loc lines into what --dump-phases writes of this phase.
  if (phase == Phase::Tile && options.pipeline.device == Device::Cuda)
    generateLocationsFromIR(llvm::nulls(), dumpName(device(), phase), *module,
                            OpPrintingFlags());
  return llvm::Error::success();
}

llvm::Error Compilation::translate() {
  auto target = createTargetMachine(options.pipeline.cpu);
  if (!target)
    return target.takeError();
  machine = std::move(*target);
  llvmContext = std::make_unique<llvm::LLVMContext>();
  std::vector<Text> texts = {
      {"cria_manifest", ".cria.manifest", manifest.text()}};
  if (image)
    for (const CudaBinary &binary : image->binaries)
      texts.push_back({binary.symbol(), ".cria." + binary.format, binary.bytes,
                       /*exported=*/true});
  // Code for a GPU is text; its host runs none of ours.
  OwningOpRef<ModuleOp> none;
  if (options.pipeline.device == Device::Cuda)
    none = ModuleOp::create(module->getLoc());
  auto translated =
      translateToLlvm(none ? *none : *module, texts, options.pipeline.cpu,
                      *machine, *llvmContext);
  if (!translated)
    return translated.takeError();
  llvmModule = std::move(*translated);
  return llvm::Error::success();
}

llvm::Error Compilation::serialize() {
  auto made = makeCudaImage(*module);
  if (!made)
    return made.takeError();
  for (const std::string &chip : options.cubins) {
    auto binary = assemble(made->binaries[0], chip);
    if (!binary)
      return binary.takeError();
    made->binaries.push_back(std::move(*binary));
  }
  embed(*made);
  return llvm::Error::success();
}

void Compilation::embed(const CudaImage &made) {
  image = made;
  manifest.addCuda(*image);
}

llvm::Error Compilation::next(Phase phase) {
  if (phase <= Phase::Llvm) {
    if (llvm::Error error = runPasses(phase))
      return error;
  } else if (phase == Phase::LlvmIr) {
    if (llvm::Error error = translate())
      return error;
  } else if (phase == Phase::Ptx) {
    if (llvm::Error error = serialize())
      return error;
  } else {
    if (options.pipeline.device == Device::Cuda)
      if (llvm::Error error = translate())
        return error;
    // Code generation changes the module: assembly comes from a copy.
    auto copy = llvm::CloneModule(*llvmModule);
    auto generated =
        generateCode(*copy, *machine,
                     phase == Phase::Asm ? llvm::CodeGenFileType::AssemblyFile
                                         : llvm::CodeGenFileType::ObjectFile);
    if (!generated)
      return generated.takeError();
    code = std::move(*generated);
  }
  current = phase;
  return llvm::Error::success();
}

llvm::Error Compilation::advance(Phase phase) {
  for (Phase next : phasesOf(options.pipeline.device)) {
    // Assembly is only made to be read.
    bool skip = next == Phase::Asm && phase == Phase::Obj;
    if (next <= current || next > phase || skip)
      continue;
    if (llvm::Error error = this->next(next))
      return error;
  }
  return llvm::Error::success();
}

void Compilation::print(llvm::raw_ostream &os) {
  if (current <= Phase::Llvm)
    module->print(os);
  else if (current == Phase::LlvmIr)
    llvmModule->print(os, nullptr);
  else if (current == Phase::Ptx)
    os << image->ptx();
  else
    os.write(code.data(), code.size());
}

llvm::Expected<llvm::SmallVector<char, 0>> Compilation::link() {
  auto linked = linkSharedObject(code);
  if (!linked)
    return linked.takeError();
  if (llvm::Error error = appendFooter(*linked))
    return error;
  return linked;
}
