/// Unpacks code for GPUs by zstd's library, which is opened when it is first
/// needed: code for CPUs is not packed.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace cria {

/// The `size` bytes that `packed`, a frame of zstd (RFC 8878), stands for.
/// UNAVAILABLE without the library, INVALID_ARGUMENT for another frame or size.
Result<std::string> unpack(std::string_view packed, uint64_t size);

} // namespace cria
