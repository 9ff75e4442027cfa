/// Names for the results of kernels: inputs and outputs of the checkpoint's
/// modules, as objects of the manifest
///
///   {path = "model.layers.{}.mlp.up_proj", side = "in", first = 0, step = 1}
///
/// In iteration t of the loop over layers the number in the path is first +
/// step * t.
#pragma once

#include "lowering/artifact/Manifest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace cria {

class ModuleNames {
public:
  using Names = llvm::SmallVector<mlir::DictionaryAttr>;

  /// Names results after the weights of `manifest`.
  explicit ModuleNames(const Manifest &manifest);

  /// The modules whose weights a kernel reads; they have no side.
  Names modulesOf(mlir::func::CallOp call) const;
  /// The names of a result of a kernel that reads `modules`. A value that the
  /// loop carries is the output of its layer.
  Names of(mlir::OpResult result,
           llvm::ArrayRef<mlir::DictionaryAttr> modules) const;
  /// The name of the rows that a kernel appends to a KV cache ("key", "value"),
  /// or of the queries that it makes with them: the name of the module that has
  /// the kernel's last weight.
  static Names ofAttention(llvm::ArrayRef<mlir::DictionaryAttr> modules,
                           llvm::StringRef side);

private:
  std::optional<Fields> weightOf(mlir::Value value, llvm::StringRef side) const;
  void addInputs(mlir::Value value, Names &names, bool firstTurn) const;

  llvm::StringMap<mlir::DictionaryAttr> weights; // by symbol
};

} // namespace cria
