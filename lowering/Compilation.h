/// One compilation: a program taken from phase to phase.
#pragma once

#include "lowering/Pipeline.h"
#include "lowering/artifact/Manifest.h"
#include "lowering/cpu/Codegen.h"
#include "lowering/entry/Costs.h"
#include "lowering/gpu/cuda/Image.h"
#include "lowering/import/Import.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

namespace cria {

/// The input of a compilation, and its options.
struct CompileOptions {
  /// A config.json, a GGUF file, or a program as --emit prints it at import,
  /// fuse, linalg or tile, as text (*.mlir) or bytecode.
  std::string input;
  /// Unknown keys of the config that are ignored instead of refused.
  std::vector<std::string> allowUnknown;
  // Values that the user asked for. Without them, a text's own values are used,
  // or else the defaults.
  ProgramOptions program;
  std::optional<Device> device;
  /// LLVM's names of CPUs, or "native", separated by commas.
  std::optional<std::string> cpu;
  /// A file of the CPU's measured rates, or none.
  std::string machine;
  /// NVIDIA chips to generate PTX for, the oldest first.
  std::vector<std::string> chips;
  /// NVIDIA chips for which the PTX is also assembled.
  std::vector<std::string> cubins;
  /// Whether a CPU's artifact is to have code for GPUs, too.
  bool alsoForGpus = false;
  /// See PipelineOptions. For CPUs `lines` counts lines of `input`, which must
  /// be a text of Linalg or Tile, unless countLinesIn is called.
  bool plain = false, lines = false;
  std::function<void(mlir::OpPassManager &)> beforeTile;
  /// The NVIDIA chips, if neither `chips` nor a text names any.
  std::vector<std::string> defaultChips = {"sm_80", "sm_90", "sm_90a",
                                           "sm_100"};
};

/// Registers every dialect that a compilation may use, and their interfaces.
void registerCompilerDialects(mlir::DialectRegistry &registry);

class Compilation {
public:
  /// Reads the input. The phase is then Import, or the phase of the text. If
  /// MLIR reports an error to the context's diagnostic handler, the returned
  /// error has an empty message.
  static llvm::Expected<Compilation> start(const CompileOptions &options,
                                           mlir::MLIRContext &context);

  /// The same program for another device, or another CPU. The phase must be
  /// Import, Fuse or, of a text, Linalg.
  Compilation fork(Device device) const;
  Compilation fork(const CpuTarget &cpu) const;

  /// Calls `listener` with the module of this phase and of each later one up to
  /// Llvm, before other code reads the module. The listener may change
  /// locations.
  using Listener = std::function<void(Phase, mlir::ModuleOp)>;
  void listen(Listener told) {
    listener = std::move(told);
    listener(current, *module);
  }

  /// Lets PipelineOptions.lines count lines of a file that will have the text
  /// of Linalg. The phase must be before Linalg, the device Cpu.
  void countLinesIn(std::string file) { linalgFile = std::move(file); }

  /// Adds timers of later phases to `scope`, which must outlive these phases. A
  /// phase's timer has timers for MLIR's passes and for LLVM's work in it.
  void time(mlir::TimingScope &scope) { timing = &scope; }

  /// Compiles the program up to `phase`.
  llvm::Error advance(Phase phase);

  /// Prints the program in its current phase, as text or bytes. Printing an
  /// object resets LLVM's command-line options, as lld does; so does `link`.
  /// At Import the text has locations, because fusion names kernels after the
  /// module paths in them, unless `locations` is false.
  llvm::Error print(llvm::raw_ostream &os, bool locations = true) const;

  /// Kernels and host plan. The device must be Cuda, the phase Ptx or later.
  const CudaImage &cudaImage() const { return *image; }

  /// The weights, as described in the manifest.
  mlir::ArrayAttr weights() const {
    return manifest.get<mlir::ArrayAttr>("weights");
  }

  /// The description of the model in the manifest: sizes, types.
  mlir::DictionaryAttr model() const { return manifest.model(); }

  /// Adds kernels and plan to this program's artifact. The phase must be before
  /// LlvmIr.
  void embed(const CudaImage &image);

  /// Adds the same program's code for another CPU, of phase LlvmIr or Asm, to
  /// this program's artifact. The phase must be before LlvmIr.
  void embed(Compilation version);

  /// The artifact's bytes. The phase must be Obj.
  llvm::Expected<llvm::SmallVector<char, 0>> link();

  Phase phase() const { return current; }
  Device device() const { return pipeline.device; }
  const CpuTarget &cpu() const { return pipeline.cpu; }
  /// The chips that PTX is generated for, the oldest first.
  llvm::ArrayRef<std::string> chips() const { return pipeline.chips; }
  /// The other CPUs, besides `cpu`, that the artifact gets code for.
  llvm::ArrayRef<CpuTarget> otherCpus() const { return others; }
  /// Whether a CPU's artifact gets code for GPUs, too.
  bool isAlsoForGpus() const { return alsoForGpus; }

  /// The costs of a forward pass. The phase must be Import.
  Costs costs() { return costsOf(*module); }
  /// Counts the caches of a text as they are at Fuse, if they are in pages.
  void countCaches(Costs &costs) {
    if (pipeline.program.batch.value_or(0))
      countPages(*module, chunk(), costs);
  }
  /// The costs of each kernel of each entry. The phase must be Fuse.
  std::vector<KernelCost> kernelCosts() { return kernelCostsOf(*module); }
  /// The most tokens of a call of `prefill`.
  int64_t chunk() const { return pipeline.program.chunkSize(); }
  /// Warnings about the config, one line each.
  llvm::ArrayRef<std::string> warnings() const { return notes; }
  /// What happened to each key of the config; empty if there was no config.
  std::vector<LedgerRow> ledger() const { return manifest.ledger(); }

private:
  llvm::Error readModel(const CompileOptions &options,
                        mlir::MLIRContext &context);
  llvm::Error readText(const CompileOptions &options,
                       mlir::MLIRContext &context);
  llvm::Error select(const CompileOptions &options);
  llvm::Error readProgram();
  void describeProgram(mlir::Attribute config);
  void describeTile();
  llvm::Error next(Phase phase);
  llvm::Error runPasses(Phase phase, mlir::TimingScope &scope);
  llvm::Error translate(mlir::TimingScope &scope);
  llvm::Error generate(Phase phase, mlir::TimingScope &scope);
  mlir::TimingScope timePhase(Phase phase) const;
  llvm::Error serialize();

  mlir::MLIRContext *context = nullptr;
  PipelineOptions pipeline;
  std::vector<CpuTarget> others;
  bool alsoForGpus = false;
  /// The suffix of function names. It distinguishes them from the functions of
  /// other CPUs' code.
  std::string suffix;
  std::vector<std::string> cubins;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Up to Tile the manifest is also in the module.
  Manifest manifest;
  std::vector<std::string> notes;
  Phase current = Phase::Import;
  Listener listener;
  mlir::TimingScope *timing = nullptr;
  std::string linalgFile; // of countLinesIn
  bool fromText = false;
  std::vector<CodePart> parts;                     // LlvmIr and Asm
  llvm::SmallVector<char, 0> assembly;             // Asm
  std::vector<llvm::SmallVector<char, 0>> objects; // Obj
  /// The code for other CPUs, in the order of their manifests.
  std::vector<CodePart> versions;
  std::vector<Manifest> versionManifests;
  std::optional<CudaImage> image;
};

} // namespace cria
