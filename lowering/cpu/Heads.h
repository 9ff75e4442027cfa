/// Products of each head with a matrix of its own.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// Separates products of each head into products of matrices, one for each
/// head (Heads.cpp). Works on memrefs.
void separateHeads(mlir::func::FuncOp function);

} // namespace cria
