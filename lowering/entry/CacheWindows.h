/// Which caches of a program keep a window alone, as rings or in pages, and the
/// arguments that caches are updates of.
#pragma once

#include "dialect/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// The value that a kernel yields as this result; `value` itself if no kernel
/// makes it.
mlir::Value inKernel(mlir::Value value);

/// The function's argument that a cache is an update of, or null.
mlir::BlockArgument cacheArgument(mlir::Value cache);

/// The least places of a ring, for a window and calls of at most `tokens`
/// tokens: those that the call's tokens see or write, and some more, because
/// schedules read tiles of at most 64 keys, and the first of them begins before
/// the window.
inline int64_t leastPlaces(int64_t window, int64_t tokens) {
  return window - 1 + std::max<int64_t>(tokens, 64);
}

/// For each cache of the function that is a ring, or in window pages
/// (NumberArguments), the largest window of the attentions that read it; 0 of a
/// cache of all positions. Fails after an error if ops do not agree on what a
/// cache is.
mlir::FailureOr<llvm::SmallVector<int64_t>>
cacheWindows(mlir::func::FuncOp function);

/// Checks that rings have places for the windows of all tokens of a call, of at
/// most `chunk` tokens.
mlir::LogicalResult verifyRings(mlir::func::FuncOp function, int64_t chunk);

} // namespace cria
