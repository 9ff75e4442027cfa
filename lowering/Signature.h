/// The functions of a program, `@forward` and, beside it, `@encode`: see
/// verifyProgram.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

namespace cria {

/// The types of the KV caches that a program's function takes: all inputs
/// behind the ids and the numbers that follow these, positions and pages among
/// them.
inline llvm::ArrayRef<mlir::Type> cacheTypes(mlir::FunctionType type) {
  return type.getInputs().drop_while([](mlir::Type input) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(input);
    return input.isIndex() || (tensor && tensor.getElementType().isInteger(32));
  });
}

/// Whether a cache is one of pages: (pages, layers, heads, page, size) in place
/// of (layers, heads, positions, size).
inline bool isPaged(mlir::RankedTensorType cache) {
  return cache.getRank() == 5;
}

/// The type of one text's cache; of a paged one, of a page.
inline mlir::RankedTensorType pageOf(mlir::RankedTensorType cache) {
  return isPaged(cache) ? cache.clone(cache.getShape().drop_front()) : cache;
}

} // namespace cria
