/// Tries a piece of code that may fault.
#pragma once

#include "runtime/base/Status.h"

#include <functional>

namespace cria::bench {

/// Calls `probe` in a child process. OK if it returns there within some
/// seconds. CRIA_UNAVAILABLE, naming the signal, if it faults (SIGILL, SIGSEGV,
/// ...) or hangs; then only the child ends. The child has one thread and a copy
/// of this process's memory: the probe must take no lock.
Status tryInChild(const std::function<void()> &probe);

} // namespace cria::bench
