/// The most that sizes of buffers and loops can be.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// Bounds sizes by constants, and numbers of tokens by the function's `chunk`.
class Bounds {
public:
  explicit Bounds(mlir::func::FuncOp function);
  /// Nothing where no bound can be told from the ops that make the size.
  std::optional<int64_t> most(mlir::Value size) const;

private:
  std::optional<int64_t> most(mlir::BlockArgument argument) const;
  std::optional<int64_t> most(mlir::AffineMap map,
                              mlir::ValueRange operands) const;

  int64_t chunk;
};

} // namespace cria
