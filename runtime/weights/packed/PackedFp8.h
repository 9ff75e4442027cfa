/// Weights of 8-bit floats with scales; see Packed.h.
#pragma once

#include "runtime/weights/packed/Packed.h"

namespace cria {

/// The weight `name`, a tensor of F8_E4M3 at `place`; null if it is wrong, as
/// `problem` then says.
[[gnu::cold]] std::shared_ptr<PackedWeight>
findFp8(const Checkpoint &checkpoint, const std::string &name,
        const Checkpoint::Place &place, std::string &problem);

} // namespace cria
