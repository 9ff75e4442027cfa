/// The slots of symbols. Compiled code indexes the slot table; the manifest
/// tells the runtime how to fill the table.
#pragma once

#include "dialect/Dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace cria {

/// Weights and rope tables in module order, each with its first slot. If one
/// has no slot yet, all get new slots, in this order.
llvm::SmallVector<std::pair<mlir::Operation *, int64_t>>
assignSlots(mlir::ModuleOp module);

} // namespace cria
