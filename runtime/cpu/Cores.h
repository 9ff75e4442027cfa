/// The cores this process may use.
#pragma once

#include "runtime/Status.h"

#include <cstdint>
#include <functional>

namespace cria {

/// How many cores this process may run on, or fewer where a quota of its
/// control groups gives it less time than they have; at least 1.
int coreCount();

/// Runs `body` over [0, count) in one contiguous range a core and returns when
/// all are done. For work at bind, where starting threads costs nothing;
/// sessions have a Pool. `body` must not throw.
void onAllCores(int64_t count,
                const std::function<void(int64_t begin, int64_t end)> &body);

/// The same for a body that may fail: an error of one of the ranges.
Status
tryOnAllCores(int64_t count,
              const std::function<Status(int64_t begin, int64_t end)> &body);

} // namespace cria
