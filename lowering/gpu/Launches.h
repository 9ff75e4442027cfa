/// How kernel functions of the linalg phase and their launches are connected.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria::simt {

/// The function that launches what a kernel function computes, `@k.launch` for
/// `@k`; null if no schedule has made one.
inline mlir::func::FuncOp launchesOf(mlir::SymbolTable &symbols,
                                     mlir::func::FuncOp kernel) {
  std::string name = (kernel.getName() + ".launch").str();
  return symbols.lookup<mlir::func::FuncOp>(name);
}

/// On an op of an entry: the name of the kernel function that it comes from.
inline constexpr const char *kKernelAttribute = "cria.kernel";

/// On a kernel: the numbers of the parameters that are weights or RoPE tables
/// in all its launches. No launch writes to their memory.
inline constexpr const char *kWeightsAttribute = "cria.weights";

inline bool isWeight(mlir::Operation *kernel, int32_t parameter) {
  auto weights =
      kernel->getAttrOfType<mlir::DenseI32ArrayAttr>(kWeightsAttribute);
  return weights && llvm::is_contained(weights.asArrayRef(), parameter);
}

} // namespace cria::simt
