/// A program in parts that threads compile side by side.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace cria {

/// Moves the functions of a module in the LLVM dialect to modules of their own:
/// each entry, and each kernel with its parallel loops. The parts depend on
/// the module alone. See Split.cpp.
std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
splitByKernel(mlir::ModuleOp module);

} // namespace cria
