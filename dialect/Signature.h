/// The types of a program's functions, `@forward` and those that are made of
/// it: see verifyProgram.
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

/// Whether `@forward` returns hidden states, between logits and caches. Then
/// the last number in front of the caches is the first token of which they are
/// wanted.
inline bool returnsHidden(mlir::FunctionType type) {
  return type.getNumResults() == cacheTypes(type).size() + 2;
}

/// The place of the argument that says of which token on hidden states are
/// wanted, where `returnsHidden`.
inline unsigned firstHiddenArgument(mlir::FunctionType type) {
  return type.getNumInputs() - cacheTypes(type).size() - 1;
}

/// The type without hidden states and that argument: of what is made of
/// `@forward` and does not return them.
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
