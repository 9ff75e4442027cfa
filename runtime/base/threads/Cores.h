/// The cores this process may use.
#pragma once

#include "runtime/base/FunctionRef.h"
#include "runtime/base/Status.h"

#include <cstdint>

namespace cria {

/// The number of cores that this process may run on, or fewer if a quota of its
/// control groups gives it less time; at least 1.
int coreCount();

/// Runs `body` over [0, count), one contiguous range for each core, and returns
/// when all are done. For work while weights are bound, where starting threads
/// costs little; sessions have a Pool. `body` must not throw.
void onAllCores(int64_t count,
                FunctionRef<void(int64_t begin, int64_t end)> body);

/// The same for a body that may fail. Returns an error of one of the ranges.
Status tryOnAllCores(int64_t count,
                     FunctionRef<Status(int64_t begin, int64_t end)> body);

} // namespace cria
