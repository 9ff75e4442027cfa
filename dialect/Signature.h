/// The types of a program's functions: `@forward`, and the functions that are
/// made from it. See verifyProgram.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeRange.h"

#include <optional>

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

/// Whether a cache is a state, which has no positions: (layers, rows, numbers),
/// or the states of many texts, (states, layers, rows, numbers).
inline bool isState(mlir::RankedTensorType cache) {
  return cache.getRank() == 3 ||
         (cache.getRank() == 4 && cache.isDynamicDim(0));
}

/// The index of the first argument of `@prefill` or `@batch` with numbers of
/// pages and states, if caches are paged.
inline constexpr unsigned kPagesArgument = 3;

/// The arguments with numbers: of pages; of pages of the caches that keep a
/// window alone, if there are such caches; and of states, if the program has
/// states.
struct NumberArguments {
  std::optional<unsigned> pages, windowPages, states;
  /// The index after them. A number of tokens of another text, or of tokens
  /// that attention sees `ahead`, is there if the function has it.
  unsigned end = kPagesArgument;
};

inline NumberArguments numberArguments(mlir::FunctionType type) {
  llvm::ArrayRef<mlir::Type> caches = cacheTypes(type);
  bool hasStates = llvm::any_of(caches, [](mlir::Type cache) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(cache);
    return tensor && isState(tensor);
  });
  unsigned tensors = kPagesArgument,
           numbers = type.getNumInputs() - caches.size();
  while (tensors < numbers &&
         llvm::isa<mlir::RankedTensorType>(type.getInput(tensors)))
    ++tensors;
  NumberArguments found;
  if (found.end < tensors)
    found.pages = found.end++;
  if (found.end + hasStates < tensors)
    found.windowPages = found.end++;
  if (found.end < tensors)
    found.states = found.end++;
  return found;
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

/// The positions of a page of caches.
inline constexpr int64_t kPage = 16;

/// The pages of `page` positions that a text takes whose next call has `tokens`
/// tokens, in caches that keep a window: wherever a page begins, the pages of
/// `window - 1 + tokens` positions.
inline int64_t windowPages(int64_t window, int64_t tokens, int64_t page) {
  return (window + tokens - 3 + page) / page + 1;
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
