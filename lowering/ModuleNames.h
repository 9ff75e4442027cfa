/// What the results of kernels are called in the checkpoint: inputs and outputs
/// of its modules, as JSON objects
///
///   {"path": "model.layers.{}.mlp.up_proj", "side": "in", "first": 0, "step":
///   1}
///
/// In turn t of the loop over layers the number in the path is first + step *
/// t.
#pragma once

#include "lowering/artifact/Manifest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

#include <optional>

namespace cria {

class ModuleNames {
public:
  /// Of the weights of `manifest`, which outlives this.
  explicit ModuleNames(const Manifest &manifest);

  /// The modules whose weights a kernel reads; they have no side.
  llvm::json::Array modulesOf(mlir::func::CallOp call) const;
  /// The names of a result of a kernel that reads `modules`. What a loop
  /// carries on is the output of its layer.
  llvm::json::Array of(mlir::OpResult result,
                       const llvm::json::Array &modules) const;
  /// The name of what a kernel puts into a KV cache ("key", "value"), or of the
  /// queries that it makes beside: of the module that holds the last of its
  /// weights.
  static llvm::json::Array ofAttention(const llvm::json::Array &modules,
                                       llvm::StringRef side);

private:
  std::optional<llvm::json::Object> weightOf(mlir::Value value,
                                             llvm::StringRef side) const;
  void addInputs(mlir::Value value, llvm::json::Array &names,
                 bool firstTurn) const;

  llvm::StringMap<const llvm::json::Object *> weights; // by symbol
};

} // namespace cria
