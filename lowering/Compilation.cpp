#include "lowering/Compilation.h"

#include "dialect/Dialect.h"
#include "lowering/Resume.h"
#include "lowering/artifact/Footer.h"
#include "lowering/artifact/Link.h"
#include "lowering/entry/CacheWindows.h"
#include "lowering/entry/Entry.h"
#include "lowering/entry/Slots.h"
#include "lowering/gpu/cuda/Toolkit.h"
#include "lowering/import/Adapters.h"
#include "lowering/import/Program.h"
#include "lowering/support/Json.h"
#include "passes/Passes.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/LocationSnapshot.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Compression.h"

using namespace mlir;
using namespace cria;

void cria::registerCompilerDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  registry.insert<llama::LlamaDialect>();
}

/// An error that MLIR has already reported.
static llvm::Error reported() { return llvm::createStringError(""); }

/// Until the result is destroyed, errors of the input are printed in one line,
/// without the op. `areOfInput`: whether this is where such errors are found.
static auto printInOneLine(MLIRContext &context, bool areOfInput = true) {
  bool before = context.shouldPrintOpOnDiagnostic();
  context.printOpOnDiagnostic(before && !areOfInput);
  return llvm::scope_exit(
      [&context, before] { context.printOpOnDiagnostic(before); });
}

llvm::Expected<Compilation> Compilation::start(const CompileOptions &options,
                                               MLIRContext &context) {
  Compilation result;
  result.cubins = options.cubins;
  result.context = &context;
  result.manifest = Manifest(&context);
  auto restore = printInOneLine(context);
  if (llvm::Error error = isProgram(options.input)
                              ? result.readText(options, context)
                              : result.readModel(options, context))
    return error;
  return result;
}

/// Parses formats such as "q4_0,head=q8_0".
static llvm::Expected<QuantizeWeightsOptions> readQuantize(StringRef text) {
  QuantizeWeightsOptions options;
  for (StringRef item : llvm::split(text, ',')) {
    auto [key, format] = item.split('=');
    std::string *option = key == "embedding" ? &options.embedding
                          : key == "head"    ? &options.head
                                             : nullptr;
    if (!item.contains('=')) {
      option = &options.format;
      format = item;
    }
    bool known = format == "none" || llama::symbolizeBlockFormat(format);
    if (!option || !known)
      return llvm::createStringError(
          "--quantize=" + text +
          ": expected q8_0, q4_0, fp8 or none, and after it, if they differ, "
          "embedding=FORMAT and head=FORMAT, got '" +
          item + "'");
    *option = format.str();
  }
  return options;
}

/// Sets the pipeline's options.
llvm::Error Compilation::select(const CompileOptions &options) {
  pipeline.device = options.device.value_or(Device::Cpu);
  pipeline.program = options.program;
  pipeline.program.chunk = options.program.chunkSize(); // manifests say it
  auto cpus = selectCpus(options.cpu.value_or("native"), options.machine);
  if (!cpus)
    return cpus.takeError();
  pipeline.cpu = cpus->front();
  pipeline.plain = options.plain;
  pipeline.lines = options.lines;
  alsoForGpus = options.alsoForGpus;
  pipeline.beforeTile = options.beforeTile;
  pipeline.chips = options.chips.empty() ? options.defaultChips : options.chips;
  others.assign(cpus->begin() + 1, cpus->end());
  if (!others.empty())
    suffix = "." + pipeline.cpu.name;
  return llvm::Error::success();
}

/// Inlines helper functions, and removes private symbols that nothing uses. If
/// there are any, slots are assigned again.
static LogicalResult inlineHelpers(ModuleOp program) {
  auto isPrivate = [](SymbolOpInterface symbol) { return symbol.isPrivate(); };
  if (llvm::any_of(program.getOps<SymbolOpInterface>(), isPrivate))
    for (Operation &op : program.getOps())
      if (isa<llama::WeightOp, llama::RopeTableOp>(op))
        op.removeAttr("slot");
  PassManager pm(program.getContext());
  buildInlinePipeline(pm);
  return pm.run(program);
}

/// Checks a program at Import, makes room for adapters, splits it over ranks,
/// and quantizes weights and caches.
llvm::Error Compilation::readProgram() {
  const ProgramOptions &options = pipeline.program;
  if (failed(inlineHelpers(*module)) || failed(verifyProgram(*module)))
    return reported();
  if (failed(
          verifyRings(module->lookupSymbol<func::FuncOp>("forward"), chunk())))
    return reported();
  if (int64_t rank = options.loraRank.value_or(0);
      rank && failed(addAdapters(*module, rank)))
    return reported();
  PassManager pm(context);
  // Sharding comes first, because the columns of a rank's share must be whole
  // blocks.
  pm.addPass(createShardWeights({options.shards.value_or(1)}));
  if (options.quantize) {
    auto formats = readQuantize(*options.quantize);
    if (!formats)
      return formats.takeError();
    pm.addPass(createQuantizeWeights(*formats));
  }
  if (options.kv)
    pm.addPass(createQuantizeCache({*options.kv}));
  return failed(pm.run(*module)) ? reported() : llvm::Error::success();
}

/// Gives a program at Import slots and a manifest.
void Compilation::describeProgram(Attribute config) {
  assignSlots(*module);
  manifest.fromProgram(*module, config, chunk());
  setFlags(manifest, pipeline.program);
  manifest.store(*module);
}

static std::optional<DType> dtypeOf(const std::optional<std::string> &name) {
  if (!name)
    return std::nullopt;
  return *name == "f32"   ? DType::F32
         : *name == "f16" ? DType::F16
                          : DType::BF16;
}

llvm::Error Compilation::readModel(const CompileOptions &options,
                                   MLIRContext &context) {
  if (llvm::Error error = select(options))
    return error;
  llvm::Expected<ModelConfig> model =
      readConfig(options.input, options.allowUnknown,
                 options.program.part.value_or(kTextPart.str()));
  if (!model)
    return model.takeError();
  notes = model->warnings;
  ProgramOptions &program = pipeline.program;
  if (!program.quantize && !model->quantize.empty())
    program.quantize = model->quantize;
  if (model->family->readsImages() && !options.program.chunk)
    program.chunk = model->maxPositions; // an image is one call
  ImportOptions importing = {program.maxSeq, dtypeOf(program.dtype), {}};
  if (program.keepsWindows())
    importing.windowChunk = chunk();
  importing.rows = program.batch.value_or(0);
  module = importModel(*model, importing, &context);
  if (!module)
    return reported();
  if (llvm::Error error = readProgram())
    return error;
  manifest.setLedger(model->ledger);
  auto config = llvm::cantFail(parseJsonObject(model->json));
  describeProgram(fromJson(&context, config));
  return llvm::Error::success();
}

llvm::Error Compilation::readText(const CompileOptions &options,
                                  MLIRContext &context) {
  fromText = true;
  module = loadProgram(options.input, &context);
  if (!module)
    return reported();
  current = phaseOf(*module);
  CompileOptions asked = options;
  if (current != Phase::Import || Manifest::isIn(*module)) {
    FailureOr<Manifest> read = Manifest::of(*module);
    if (failed(read))
      return reported();
    manifest = std::move(*read);
    if (llvm::Error error = resume(asked, current, manifest))
      return error;
  }
  if (llvm::Error error = select(asked))
    return error;
  if (current == Phase::Import) {
    if (llvm::Error error = readProgram())
      return error;
    auto config = manifest.get<DictionaryAttr>("config");
    describeProgram(config ? Attribute(config) : UnitAttr::get(&context));
    return checkModel(options.program, options.input, manifest);
  }
  if (failed(verifyResumed(*module, current, manifest)))
    return reported();
  if (current != Phase::Tile)
    return llvm::Error::success();
  if (options.plain || options.beforeTile)
    return llvm::createStringError(
        "--taps, --plain: expected a phase before tile, got " + options.input);
  std::vector<std::string> chips = chipsOf(*module);
  if (!options.chips.empty() && options.chips != chips)
    return llvm::createStringError("--chip=" + llvm::join(options.chips, ",") +
                                   ": expected " + llvm::join(chips, ",") +
                                   ", which " + options.input + " is made for");
  pipeline.chips = std::move(chips);
  if (llvm::Error error = checkTarget(pipeline, options.input, manifest))
    return error;
  describeTile();
  return llvm::Error::success();
}

Compilation Compilation::fork(Device device) const {
  Compilation other;
  other.context = context;
  other.pipeline = pipeline;
  other.pipeline.device = device;
  other.others = others;
  other.alsoForGpus = alsoForGpus;
  other.cubins = cubins;
  other.module = OwningOpRef<ModuleOp>((*module).clone());
  other.manifest = manifest;
  other.current = current;
  other.timing = timing;
  other.fromText = fromText;
  return other;
}

Compilation Compilation::fork(const CpuTarget &cpu) const {
  Compilation other = fork(Device::Cpu);
  other.pipeline.cpu = cpu;
  other.suffix = "." + cpu.name;
  return other;
}

/// Adds to the manifest what is only known at Tile: kernels and arenas. For
/// PTX, sets the locations of ops to lines of the text.
void Compilation::describeTile() {
  manifest = *Manifest::of(*module);
  if (device() == Device::Cpu)
    manifest.fromTile(*module);
  else // The .loc lines of PTX refer to the file that --dump-phases writes.
    generateLocationsFromIR(llvm::nulls(), dumpName(device(), Phase::Tile),
                            *module, OpPrintingFlags());
}

/// Refuses options that paged caches do not support.
static llvm::Error checkBatch(const PipelineOptions &pipeline) {
  if (pipeline.program.batch && pipeline.beforeTile)
    return llvm::createStringError("--batch: expected no --taps with it");
  return llvm::Error::success();
}

llvm::Error Compilation::runPasses(Phase phase, TimingScope &scope) {
  if (phase == Phase::Tile)
    if (llvm::Error error = checkBatch(pipeline))
      return error;
  PassManager pm(module->getContext());
  if (failed(applyPassManagerCLOptions(pm)))
    return reported();
  pm.enableTiming(scope);
  // Passes of this phase refuse what a program has, or what options ask of it.
  auto restore = printInOneLine(*module->getContext(), phase == Phase::Fuse);
  // The phase's result is verified. If the user may have edited the text, the
  // result of each pass is verified, too.
  pm.enableVerifier(fromText);
  buildPhase(pm, phase, pipeline);
  if (failed(pm.run(*module)) || failed(verify(*module)))
    return reported();
  if (listener)
    listener(phase, *module);
  if (phase == Phase::Linalg && !linalgFile.empty())
    generateLocationsFromIR(llvm::nulls(), linalgFile, *module,
                            OpPrintingFlags());
  if (phase == Phase::Tile)
    describeTile();
  return llvm::Error::success();
}

/// `bytes` as a frame of zstd, which the runtime unpacks.
static std::string pack(StringRef bytes) {
  // Levels from 11 to 15 make the text of kernels no smaller; from 16 on they
  // take ten times the time for a tenth of the size.
  static constexpr int kLevel = 10;
  SmallVector<uint8_t, 0> packed;
  llvm::compression::zstd::compress(llvm::arrayRefFromStringRef(bytes), packed,
                                    kLevel);
  return llvm::toStringRef(packed).str();
}

llvm::Error Compilation::translate(TimingScope &scope) {
  if (pipeline.device == Device::Cpu)
    manifest.renameEntries(suffix);
  for (const Manifest &version : versionManifests)
    manifest.addCpu(version);
  if (image)
    manifest.addCuda(*image);
  llvm::Expected<std::string> text = manifest.text();
  if (!text)
    return text.takeError();
  Manifest::removeFrom(*module);
  std::vector<Text> texts = {{"cria_manifest", ".cria.manifest", *text}};
  if (image) {
    const CudaBinary &ptx = image->binaries.front();
    texts.push_back({ptx.symbol(), ".cria.ptx", pack(image->text),
                     /*exported=*/true});
    for (const CudaBinary &binary : image->binaries)
      if (binary.format != "ptx")
        texts.push_back({binary.symbol(), ".cria." + binary.format,
                         pack(binary.bytes), /*exported=*/true});
  }
  // Code for a GPU is embedded as text. There is no code for the host.
  OwningOpRef<ModuleOp> none;
  if (pipeline.device == Device::Cuda)
    none = ModuleOp::create(module->getLoc());
  auto translated = translateToLlvm(none ? *none : *module, texts, pipeline.cpu,
                                    suffix, scope);
  if (!translated)
    return translated.takeError();
  parts = std::move(*translated);
  module = nullptr; // No later phase prints it.
  return llvm::Error::success();
}

/// Generates assembly of all parts joined, which is only made to be read; or
/// objects, one for each part, which are linked later.
llvm::Error Compilation::generate(Phase phase, TimingScope &scope) {
  if (phase == Phase::Asm) {
    auto whole = joinParts(parts);
    if (!whole)
      return whole.takeError();
    auto text = generateAssembly(*whole, scope);
    if (!text)
      return text.takeError();
    assembly = std::move(*text);
    return llvm::Error::success();
  }
  if (pipeline.device == Device::Cuda)
    if (llvm::Error error = translate(scope))
      return error;
  for (CodePart &part : versions)
    parts.push_back(std::move(part));
  auto generated = generateObjects(context, parts, scope);
  if (!generated)
    return generated.takeError();
  objects = std::move(*generated);
  parts.clear();
  return llvm::Error::success();
}

llvm::Error Compilation::serialize() {
  auto made = makeCudaImage(*module);
  if (!made)
    return made.takeError();
  for (const std::string &chip : cubins) {
    auto binary = assemble(*made, chip);
    if (!binary)
      return binary.takeError();
    made->binaries.push_back(std::move(*binary));
  }
  embed(*made);
  return llvm::Error::success();
}

void Compilation::embed(const CudaImage &made) { image = made; }

void Compilation::embed(Compilation version) {
  // The last part is the version's manifest, which is merged into this
  // program's.
  version.parts.pop_back();
  for (CodePart &part : version.parts)
    versions.push_back(std::move(part));
  versionManifests.push_back(std::move(version.manifest));
}

/// A timer with the phase's name. If targets or CPUs do not share the phase,
/// the name also says which one the code is for: "asm, znver4".
TimingScope Compilation::timePhase(Phase phase) const {
  if (!timing)
    return TimingScope();
  std::string name = phases()[static_cast<int>(phase)].name;
  if (!isShared(phase))
    name += device() == Device::Cuda ? ", cuda" : ", " + cpu().name;
  return timing->nest(name);
}

llvm::Error Compilation::next(Phase phase) {
  TimingScope scope = timePhase(phase);
  if (phase <= Phase::Llvm) {
    if (llvm::Error error = runPasses(phase, scope))
      return error;
  } else if (phase == Phase::LlvmIr) {
    if (llvm::Error error = translate(scope))
      return error;
  } else if (phase == Phase::Ptx) {
    if (llvm::Error error = serialize())
      return error;
  } else {
    if (llvm::Error error = generate(phase, scope))
      return error;
  }
  current = phase;
  return llvm::Error::success();
}

llvm::Error Compilation::advance(Phase phase) {
  for (Phase next : phasesOf(pipeline.device)) {
    // Assembly is only made to be read.
    bool skip = next == Phase::Asm && phase == Phase::Obj;
    if (next <= current || next > phase || skip)
      continue;
    if (llvm::Error error = this->next(next))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Compilation::print(llvm::raw_ostream &os, bool locations) const {
  OpPrintingFlags flags;
  if (current == Phase::Import && locations)
    flags.enableDebugInfo(true, /*prettyForm=*/false).useLocalScope();
  if (current <= Phase::Llvm) {
    (*module)->print(os, flags);
  } else if (current == Phase::LlvmIr) {
    auto whole = joinParts(parts);
    if (!whole)
      return whole.takeError();
    whole->module->print(os, nullptr);
  } else if (current == Phase::Ptx) {
    os << image->ptx();
  } else if (current == Phase::Asm) {
    os.write(assembly.data(), assembly.size());
  } else {
    auto object = linkRelocatable(objects);
    if (!object)
      return object.takeError();
    os.write(object->data(), object->size());
  }
  return llvm::Error::success();
}

llvm::Expected<llvm::SmallVector<char, 0>> Compilation::link() {
  auto linked = linkSharedObject(objects);
  if (!linked)
    return linked.takeError();
  if (llvm::Error error = appendFooter(*linked))
    return error;
  return linked;
}
