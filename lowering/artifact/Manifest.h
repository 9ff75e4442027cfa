/// The manifest: what the runtime must know of an artifact, as JSON.
#pragma once

#include "lowering/Pipeline.h"
#include "lowering/gpu/cuda/Image.h"
#include "lowering/import/Config.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace cria {

/// Collected while a program is lowered: `fromProgram` sees it in the llama
/// dialect, `fromTile` sees kernels and arenas.
class Manifest {
public:
  /// `config` is the config.json's text, empty for a program given as IR.
  void fromProgram(mlir::ModuleOp program, llvm::StringRef config,
                   const PipelineOptions &options);
  /// What became of the config's keys.
  void setLedger(llvm::ArrayRef<LedgerRow> rows);
  void fromTile(mlir::ModuleOp module);
  /// A part for NVIDIA GPUs, beside one for the CPU or alone.
  void addCuda(const CudaImage &image);
  /// Command-line flags that changed what was compiled.
  void setFlag(llvm::StringRef name, llvm::json::Value value);
  /// The JSON text, keys sorted.
  std::string text() const;

private:
  void describeSymbols(mlir::ModuleOp program);
  void describeEmbedding(mlir::func::FuncOp forward);
  void describeCaches(mlir::func::FuncOp forward);

  llvm::json::Object root, flags;
};

} // namespace cria
