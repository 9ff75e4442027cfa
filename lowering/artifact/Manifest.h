/// The manifest: what the runtime must know of an artifact, as JSON.
#pragma once

#include "lowering/Pipeline.h"
#include "lowering/gpu/cuda/Image.h"
#include "lowering/import/Config.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace cria {

/// Collected while a program is lowered: `fromProgram` sees it in the llama
/// dialect, `fromFuse` sees what kernels cost, `fromTile` sees kernels and
/// arenas. In between it is a string, the attribute `cria.manifest` of the
/// module: what --emit prints has all that an artifact needs.
class Manifest {
public:
  static bool isIn(mlir::ModuleOp module);
  /// The one in a module; fails after an error at the module where there is
  /// none that this compiler has written.
  static mlir::FailureOr<Manifest> of(mlir::ModuleOp module);
  void store(mlir::ModuleOp module) const;

  /// All that does not depend on the target, of a program that has slots.
  /// `config` is the config.json, null for a program given as IR.
  void fromProgram(mlir::ModuleOp program, llvm::json::Value config,
                   int64_t chunk);
  /// What runs the code; `fromProgram` comes before.
  void setTarget(const PipelineOptions &options);
  /// What became of the config's keys.
  void setLedger(llvm::ArrayRef<LedgerRow> rows);
  /// What each kernel costs, and of entries over paged caches their sizes.
  void fromFuse(mlir::ModuleOp module);
  void fromTile(mlir::ModuleOp module);
  /// Appends `suffix` to the symbols of the CPU's entries.
  void renameEntries(llvm::StringRef suffix);
  /// The same program's code for another CPU, behind that of this one.
  void addCpu(const Manifest &other);
  /// A part for NVIDIA GPUs, beside one for the CPU or alone.
  void addCuda(const CudaImage &image);
  /// The memory of taps, behind the caches, and what lies where in it.
  void addTaps(llvm::json::Array caches, llvm::json::Object taps);
  /// Command-line flags that changed what was compiled.
  void setFlag(llvm::StringRef name, llvm::json::Value value);
  /// The JSON text, keys sorted.
  std::string text() const;

  const llvm::json::Object &object() const { return root; }
  /// As `setLedger` has it.
  std::vector<LedgerRow> ledger() const;

  /// The part of `fromProgram` that a program has at fuse, too: its symbols
  /// and the caches that a function of it takes.
  void describeInterface(mlir::ModuleOp program, mlir::func::FuncOp function);

private:
  void describeSymbols(mlir::ModuleOp program);
  void describeEmbedding(mlir::func::FuncOp forward);
  void describeCaches(mlir::func::FuncOp forward);
  void describeBatch(mlir::func::FuncOp batch);

  llvm::json::Object root;
};

} // namespace cria
