/// The manifest: what the runtime must know of an artifact.
#pragma once

#include "lowering/artifact/Values.h"
#include "lowering/cpu/Target.h"
#include "lowering/entry/Phase.h"
#include "lowering/gpu/cuda/Image.h"
#include "lowering/import/Config.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// The manifest is collected while a program is lowered. `fromProgram` reads
/// the program in the llama dialect, `fromFuse` the costs of kernels,
/// `fromTile` kernels and arenas. In the text of --emit, the manifest is the
/// attribute `cria.manifest` of an empty module after the program:
///
///   module {
///     func.func @prefill ...
///     module attributes {cria.manifest = {caches = [], ...}} {
///     }
///   }
///
/// So the text begins with the program, and has all that an artifact needs.
/// Passes of MLIR leave the empty module alone.
class Manifest {
public:
  /// No manifest yet. Without a context, nothing can be set.
  explicit Manifest(mlir::MLIRContext *context = nullptr) : root(context) {}

  static bool isIn(mlir::ModuleOp module);
  /// The manifest in a module. Fails, after an error, if there is none that
  /// this compiler wrote, or a field cannot be right.
  static mlir::FailureOr<Manifest> of(mlir::ModuleOp module);
  /// Puts this manifest at the end of a module, in place of any other.
  void store(mlir::ModuleOp module) const;
  /// Removes the manifest from a module, for tools that know no such module.
  static void removeFrom(mlir::ModuleOp module);

  /// Sets all that does not depend on the target, from a program that has
  /// slots. `config` is the config.json, or null in JSON's sense for a program
  /// given as IR.
  void fromProgram(mlir::ModuleOp program, mlir::Attribute config,
                   int64_t chunk);
  /// Sets the target, and whether each op becomes plain loops. `fromProgram`
  /// must be called first.
  void setTarget(Device device, const CpuTarget &cpu, bool plain);
  /// Sets the ledger: what happened to each key of the config.
  void setLedger(llvm::ArrayRef<LedgerRow> rows);
  /// Sets the costs of each kernel, and the sizes of entries over paged caches.
  void fromFuse(mlir::ModuleOp module);
  void fromTile(mlir::ModuleOp module);
  /// Appends `suffix` to the symbols of the CPU's entries.
  void renameEntries(llvm::StringRef suffix);
  /// Adds the same program's code for another CPU, after the code of this one.
  void addCpu(const Manifest &other);
  /// Adds the part for NVIDIA GPUs, with or without a part for the CPU.
  void addCuda(const CudaImage &image);
  /// Adds the memory of taps after the caches, and the description of this
  /// memory.
  void addTaps(llvm::ArrayRef<mlir::Attribute> caches,
               mlir::DictionaryAttr taps);
  /// Sets a command-line flag that changed the compilation.
  template <typename T> void setFlag(llvm::StringRef name, const T &value) {
    root.set("flags", root.fieldsOf("flags").set(name, value));
  }

  /// The manifest of an artifact: JSON, keys sorted. An error if a text of the
  /// program is not UTF-8.
  llvm::Expected<std::string> text() const;

  mlir::DictionaryAttr object() const { return root.object(); }
  /// A field, or null if it is not of this type.
  template <typename T> T get(llvm::StringRef name) const {
    return root.getAs<T>(name);
  }
  /// The description of the model: sizes, types.
  mlir::DictionaryAttr model() const {
    return get<mlir::DictionaryAttr>("model");
  }
  /// The command-line flags that changed the compilation.
  mlir::DictionaryAttr flags() const {
    return get<mlir::DictionaryAttr>("flags");
  }
  /// The ledger that `setLedger` set.
  std::vector<LedgerRow> ledger() const;

  /// Sets the part of `fromProgram` that can also be read at fuse: symbols, and
  /// the caches that `function` takes.
  void describeInterface(mlir::ModuleOp program, mlir::func::FuncOp function);

private:
  void describeSymbols(mlir::ModuleOp program);
  void describeEmbedding(mlir::func::FuncOp forward);
  void describeCaches(mlir::func::FuncOp forward);
  void describeBatch(mlir::func::FuncOp batch);
  /// The description of the code for the compilation's own CPU.
  Fields ownCpu() const;

  Fields root;
};

} // namespace cria
