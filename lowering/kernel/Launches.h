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

/// On a kernel: the numbers of the parameters that are weights, RoPE tables or
/// the step's state in all its launches. No launch of a step writes to their
/// memory. On a copy: no launch of its step writes the memory that it reads.
inline constexpr const char *kGivenAttribute = "cria.given";

/// On a gpu.module, at llvm: the plan of the entries, in the form of
/// docs/artifact.md.
inline constexpr const char *kPlanAttribute = "cria.plan";

inline bool isGiven(mlir::Operation *kernel, int32_t parameter) {
  auto given = kernel->getAttrOfType<mlir::DenseI32ArrayAttr>(kGivenAttribute);
  return given && llvm::is_contained(given.asArrayRef(), parameter);
}

} // namespace cria::simt
