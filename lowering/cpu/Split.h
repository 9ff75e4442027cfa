/// Splits a program into parts that threads compile in parallel.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace cria {

/// Moves the functions of a module in the LLVM dialect to new modules: one for
/// each entry, and one for each kernel with its parallel loops. The parts
/// depend only on the module. See Split.cpp.
std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
splitByKernel(mlir::ModuleOp module);

} // namespace cria
