/// One compilation: a program taken from phase to phase.
#pragma once

#include "lowering/Costs.h"
#include "lowering/Pipeline.h"
#include "lowering/artifact/Manifest.h"
#include "lowering/cpu/Codegen.h"
#include "lowering/gpu/cuda/Image.h"
#include "lowering/import/Import.h"

#include "mlir/IR/OwningOpRef.h"

namespace cria {

/// What is compiled, and how.
struct CompileOptions {
  /// A config.json, or a program as --emit prints it at import, fuse, linalg or
  /// tile (*.mlir).
  std::string input;
  /// Keys of the config that are ignored though nothing is known of them.
  std::vector<std::string> allowUnknown;
  ImportOptions import;
  /// Formats of blocks, as the user wrote them: "q4_0,head=q8_0"; or empty.
  std::string quantize;
  /// The format of caches, "q8_0" or "none"; or empty.
  std::string kv;
  /// How many ranks share the model, or 0: one, where the user did not say.
  int64_t shards = 0;
  // What the user asked for. Else it is what the text is made for, or the
  // default.
  std::optional<Device> device;
  std::optional<int64_t> chunk;
  /// As PipelineOptions has it.
  std::optional<int64_t> batch;
  /// Names that LLVM knows, or "native", with commas between them.
  std::optional<std::string> cpu;
  /// A file of the CPU's measured rates, or none.
  std::string machine;
  /// NVIDIA chips to generate PTX for, the oldest first.
  std::vector<std::string> chips;
  /// NVIDIA chips to assemble for, beside the PTX.
  std::vector<std::string> cubins;
  /// As PipelineOptions has them.
  bool plain = false, taps = false;
  std::vector<std::string> tapped;
  /// For tests: the schedule for AMX in plain loops, on any CPU.
  bool emulateAmx = false;
};

/// Registers every dialect a compilation may meet, and their interfaces.
void registerCompilerDialects(mlir::DialectRegistry &registry);

class Compilation {
public:
  /// Reads the input: phase Import, or that of the text. Failures of MLIR are
  /// reported to the context's diagnostic handler and return an empty message
  /// here.
  static llvm::Expected<Compilation> start(const CompileOptions &options,
                                           mlir::MLIRContext &context);

  /// The same program for another device, or another CPU. The phase must be
  /// before Tile.
  Compilation fork(Device device) const;
  Compilation fork(const CpuTarget &cpu) const;

  /// Tells `listener` of the module of this phase and of each later one up to
  /// Llvm, before anything else reads it. It may change locations.
  using Listener = std::function<void(Phase, mlir::ModuleOp)>;
  void listen(Listener told) {
    listener = std::move(told);
    listener(current, *module);
  }

  /// Takes the program on to `phase`.
  llvm::Error advance(Phase phase);

  /// The program in its present phase, as text or bytes. An object resets
  /// LLVM's command-line options, as lld does, and so does `link`.
  llvm::Error print(llvm::raw_ostream &os) const;

  /// Kernels and host plan. The device must be Cuda, the phase Ptx or later.
  const CudaImage &cudaImage() const { return *image; }

  /// The weights, as the manifest has them.
  const llvm::json::Array &weights() const {
    return *manifest.object().getArray("weights");
  }

  /// What the manifest says of the model: sizes, types.
  const llvm::json::Object &model() const {
    return *manifest.object().getObject("model");
  }

  /// Puts kernels and plan into this program's artifact. The phase must be
  /// before LlvmIr.
  void embed(const CudaImage &image);

  /// Puts the same program's code for another CPU, of phase LlvmIr or Asm, into
  /// this program's artifact. The phase must be before LlvmIr.
  void embed(Compilation version);

  /// The artifact's bytes. The phase must be Obj.
  llvm::Expected<llvm::SmallVector<char, 0>> link();

  Phase phase() const { return current; }
  Device device() const { return pipeline.device; }
  const CpuTarget &cpu() const { return pipeline.cpu; }
  /// The chips that PTX is generated for, the oldest first.
  llvm::ArrayRef<std::string> chips() const { return pipeline.chips; }
  /// The CPUs beside `cpu` that the artifact is to have code for.
  llvm::ArrayRef<CpuTarget> otherCpus() const { return others; }

  /// What a forward pass costs. The phase must be Import.
  Costs costs() { return costsOf(*module); }
  /// What each kernel of an entry costs. The phase must be Fuse.
  std::vector<KernelCost> kernelCosts() { return kernelCostsOf(*module); }
  /// The most tokens of a call of `prefill`.
  int64_t chunk() const { return pipeline.chunk; }
  /// What the user should know about the config, a line each.
  llvm::ArrayRef<std::string> warnings() const { return notes; }
  /// What became of the config's keys; empty where there was none.
  std::vector<LedgerRow> ledger() const { return manifest.ledger(); }

private:
  llvm::Error readModel(const CompileOptions &options,
                        mlir::MLIRContext &context);
  llvm::Error readText(const CompileOptions &options,
                       mlir::MLIRContext &context);
  llvm::Error select(const CompileOptions &options);
  mlir::LogicalResult readProgram(const CompileOptions &options);
  void describeProgram(const CompileOptions &options, llvm::json::Value config);
  void describeTile();
  llvm::Error next(Phase phase);
  llvm::Error runPasses(Phase phase);
  llvm::Error translate();
  llvm::Error generate(Phase phase);
  llvm::Error serialize();

  mlir::MLIRContext *context = nullptr;
  PipelineOptions pipeline;
  std::vector<CpuTarget> others;
  /// What tells the names of functions from those of other CPUs' code.
  std::string suffix;
  std::vector<std::string> cubins;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Also an attribute of the module, up to Tile.
  Manifest manifest;
  std::vector<std::string> notes;
  Phase current = Phase::Import;
  Listener listener;
  bool fromText = false;
  std::vector<CodePart> parts;                     // LlvmIr and Asm
  llvm::SmallVector<char, 0> assembly;             // Asm
  std::vector<llvm::SmallVector<char, 0>> objects; // Obj
  /// For other CPUs, in the order of their manifests.
  std::vector<CodePart> versions;
  std::vector<Manifest> versionManifests;
  std::optional<CudaImage> image;
};

} // namespace cria
