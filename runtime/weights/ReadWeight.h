/// The elements of a bound weight, from the files of its checkpoint.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/Binding.h"
#include "runtime/weights/Checkpoint.h"

#include <cstddef>
#include <cstdint>

namespace cria {

/// Writes elements [begin, end) of `source`, counted from the weight's first
/// element, converted to the weight's type, and adds adapters. `begin` is a
/// multiple of mostBlockElements. Any number of threads may read at once.
///
/// Files are read, not mapped: a page fault for every 4 KiB that is used once
/// costs more, and a file that shrinks meanwhile is an error, not a signal.
Status readWeight(const Checkpoint &checkpoint, const Binding::Source &source,
                  std::byte *to, uint64_t begin, uint64_t end);

} // namespace cria
