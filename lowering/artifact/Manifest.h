/// The manifest: what the runtime must know of an artifact, as JSON.
#pragma once

#include "lowering/cpu/Target.h"
#include "lowering/entry/Phase.h"
#include "lowering/gpu/cuda/Image.h"
#include "lowering/import/Config.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace cria {

/// The manifest is collected while a program is lowered. `fromProgram` reads
/// the program in the llama dialect, `fromFuse` the costs of kernels,
/// `fromTile` kernels and arenas. Between the phases the manifest is a string,
/// the attribute `cria.manifest` of the module, so the text of --emit has all
/// that an artifact needs.
class Manifest {
public:
  static bool isIn(mlir::ModuleOp module);
  /// The manifest in a module. Fails, after an error at the module, if there is
  /// none that this compiler wrote.
  static mlir::FailureOr<Manifest> of(mlir::ModuleOp module);
  void store(mlir::ModuleOp module) const;

  /// Sets all that does not depend on the target, from a program that has
  /// slots. `config` is the config.json, or null for a program given as IR.
  void fromProgram(mlir::ModuleOp program, llvm::json::Value config,
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
  void addTaps(llvm::json::Array caches, llvm::json::Object taps);
  /// Sets a command-line flag that changed the compilation.
  void setFlag(llvm::StringRef name, llvm::json::Value value);
  /// The JSON text, keys sorted.
  std::string text() const;

  const llvm::json::Object &object() const { return root; }
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

  llvm::json::Object root;
};

} // namespace cria
