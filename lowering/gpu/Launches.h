/// What ties the kernel functions of the linalg phase to their launches.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria::simt {

/// The function that launches what a kernel function computes, `@k.launch` of
/// `@k`: null where no schedule has made one.
inline mlir::func::FuncOp launchesOf(mlir::SymbolTable &symbols,
                                     mlir::func::FuncOp kernel) {
  std::string name = (kernel.getName() + ".launch").str();
  return symbols.lookup<mlir::func::FuncOp>(name);
}

/// On an op of an entry: the name of the kernel function that it was in.
inline constexpr const char *kKernelAttribute = "cria.kernel";

/// On a kernel: the numbers of its parameters that are weights or tables of
/// rope in all launches of it. No launch writes to their memory.
inline constexpr const char *kWeightsAttribute = "cria.weights";

inline bool isWeight(mlir::Operation *kernel, int32_t parameter) {
  auto weights =
      kernel->getAttrOfType<mlir::DenseI32ArrayAttr>(kWeightsAttribute);
  return weights && llvm::is_contained(weights.asArrayRef(), parameter);
}

} // namespace cria::simt
