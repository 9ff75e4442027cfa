/// Finds the caches from which positions can be removed. This is possible if a
/// key depends on its position only through rope.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <vector>

namespace cria {

/// For each layer of a cache: the number, in the module, of the rope table that
/// rotated the layer's rows, or -1 for none.
using LayerRopes = std::vector<int64_t>;

/// The ropes of each cache of `function`, which is `@forward` or `@prefill`. If
/// there is a result, attention only depends on differences of positions. Rows
/// may then move by any distance, if rope rotates them by the same distance.
/// Nothing if this cannot be shown: if a rotated tensor is used elsewhere than
/// in a cache or as a query, if the queries of a layer are rotated with another
/// table than its keys, or if a layer has rows of two tables.
std::optional<std::vector<LayerRopes>> cacheRopes(mlir::func::FuncOp function);

} // namespace cria
