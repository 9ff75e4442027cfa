/// The types of a program's functions: `@forward`, and the functions that are
/// made from it. See verifyProgram.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

namespace cria {

/// The types of the KV caches and states that a program's function takes. They
/// are the last inputs. The inputs before them are the ids, index numbers,
/// positions and pages.
inline llvm::ArrayRef<mlir::Type> cacheTypes(mlir::FunctionType type) {
  return type.getInputs().drop_while([](mlir::Type input) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(input);
    return input.isIndex() || (tensor && tensor.getElementType().isInteger(32));
  });
}

/// The index of the argument of `@prefill` or `@batch` with the numbers of
/// pages, if caches are paged.
inline constexpr unsigned kPagesArgument = 3;

/// Whether a cache is paged: (pages, layers, heads, page, size) instead of
/// (layers, heads, positions, size).
inline bool isPaged(mlir::RankedTensorType cache) {
  return cache.getRank() == 5;
}

/// Whether a cache is a state, (layers, rows, numbers), which has no positions.
inline bool isState(mlir::RankedTensorType cache) {
  return cache.getRank() == 3;
}

/// The type of the cache of one text, or, if the cache is paged, of one page.
inline mlir::RankedTensorType pageOf(mlir::RankedTensorType cache) {
  return isPaged(cache) ? cache.clone(cache.getShape().drop_front()) : cache;
}

/// Whether `@forward` returns hidden states, between the logits and the caches.
/// If so, the last number before the caches is the first token whose hidden
/// states are returned.
inline bool returnsHidden(mlir::FunctionType type) {
  return type.getNumResults() == cacheTypes(type).size() + 2;
}

/// The index of the argument that names the first token whose hidden states are
/// returned. Requires `returnsHidden`.
inline unsigned firstHiddenArgument(mlir::FunctionType type) {
  return type.getNumInputs() - cacheTypes(type).size() - 1;
}

/// The type without hidden states and without their argument: the type of a
/// function that is made from `@forward` but returns no hidden states.
inline mlir::FunctionType withoutHidden(mlir::FunctionType type) {
  if (!returnsHidden(type))
    return type;
  llvm::SmallVector<mlir::Type> inputs(type.getInputs()),
      results(type.getResults());
  inputs.erase(inputs.begin() + firstHiddenArgument(type));
  results.erase(results.begin() + 1);
  return mlir::FunctionType::get(type.getContext(), inputs, results);
}

} // namespace cria
