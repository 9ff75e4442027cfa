/// Weights of 4-bit integers in groups; see Packed.h.
#pragma once

#include "runtime/weights/packed/Packed.h"

namespace cria {

/// The weight X.weight of `shape` whose elements are in X.qweight, where X is
/// `module`; null if there is none, or if it is wrong, as `problem` then says.
[[gnu::cold]] std::shared_ptr<PackedWeight>
findInt4(const Checkpoint &checkpoint, const std::string &module,
         const Shape &shape, std::string &problem);

} // namespace cria
