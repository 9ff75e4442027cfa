/// Which caches can lose positions from within: those of which the program
/// shows that nothing but rope ties a key to its position.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <vector>

namespace cria {

/// For each layer of a cache the number of the module's rope table that has
/// rotated its rows, or -1.
using LayerRopes = std::vector<int64_t>;

/// The same for each cache of `function`, `@forward` or `@prefill`. Attention
/// then depends on differences of positions alone, so rows may move by any
/// distance if rope turns them by as much. Nothing where the program does not
/// show that: where rope's result goes elsewhere than to a cache or a query,
/// where queries of a layer turn otherwise than its keys, or where a layer has
/// rows of two kinds.
std::optional<std::vector<LayerRopes>> cacheRopes(mlir::func::FuncOp function);

} // namespace cria
