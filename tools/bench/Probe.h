/// Tries a piece of code that may fault.
#pragma once

#include "runtime/Status.h"

#include <functional>

namespace cria::bench {

/// Calls `probe` in a child process. OK where it returns there within some
/// seconds; CRIA_UNAVAILABLE, naming the signal, where it faults (SIGILL,
/// SIGSEGV, ...) or hangs, which ends the child alone. The child has one thread
/// and a copy of this process's memory: the probe must take no lock.
Status tryInChild(const std::function<void()> &probe);

} // namespace cria::bench
