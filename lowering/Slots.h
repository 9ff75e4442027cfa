/// Which pointer of the slot table a symbol owns: compiled code indexes the
/// table, the manifest tells the runtime how to fill it.
#pragma once

#include "dialect/Dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace cria {

/// Weights and rope tables in module order, each with its first slot. A weight
/// takes a slot a layer, a table two: cosines, sines.
inline llvm::SmallVector<std::pair<mlir::Operation *, int64_t>>
assignSlots(mlir::ModuleOp module) {
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> slots;
  int64_t next = 0;
  for (mlir::Operation &op : module.getOps()) {
    if (auto weight = llvm::dyn_cast<llama::WeightOp>(op)) {
      slots.push_back({&op, next});
      next += weight.getCount().value_or(1);
    } else if (llvm::isa<llama::RopeTableOp>(op)) {
      slots.push_back({&op, next});
      next += 2;
    }
  }
  return slots;
}

} // namespace cria
