/// Which pointer of the slot table a symbol owns: compiled code indexes the
/// table, the manifest tells the runtime how to fill it.
#pragma once

#include "dialect/Dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace cria {

/// Weights and rope tables in module order, each with its first slot. Where one
/// has none yet, all get theirs, in this order.
llvm::SmallVector<std::pair<mlir::Operation *, int64_t>>
assignSlots(mlir::ModuleOp module);

} // namespace cria
