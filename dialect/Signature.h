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

/// The indices of the arguments of `@prefill` or `@batch` with the numbers of
/// pages and, if the program has states, of states. They exist if caches are
/// paged.
inline constexpr unsigned kPagesArgument = 3, kStatesArgument = 4;

/// The type of such an argument; null if the function does not have it.
inline mlir::RankedTensorType numbersType(mlir::FunctionType type,
                                          unsigned argument) {
  return argument < type.getNumInputs() - cacheTypes(type).size()
             ? llvm::dyn_cast<mlir::RankedTensorType>(type.getInput(argument))
             : mlir::RankedTensorType();
}

/// The index of the argument of a function with the number of tokens of another
/// text, or of tokens that attention sees `ahead`, if the function has it. The
/// argument follows `first` and the numbers of pages and states.
inline unsigned sourceArgument(mlir::FunctionType type) {
  unsigned argument = kPagesArgument;
  while (numbersType(type, argument))
    ++argument;
  return argument;
}

/// Whether a cache is a state, which has no positions: (layers, rows, numbers),
/// or the states of many texts, (states, layers, rows, numbers).
inline bool isState(mlir::RankedTensorType cache) {
  return cache.getRank() == 3 ||
         (cache.getRank() == 4 && cache.isDynamicDim(0));
}

/// Whether a cache is what many texts share: (pages, layers, heads, page, size)
/// instead of (layers, heads, positions, size), or the states of many texts.
inline bool isPaged(mlir::RankedTensorType cache) {
  return cache.getRank() == 5 || (isState(cache) && cache.getRank() == 4);
}

/// The type of the cache of one text, or, if the cache is paged, of one page or
/// state.
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
