/// Whose threads compute on the CPU.
#pragma once

#include "runtime/cria.h"

namespace cria {

/// The threads of a session on the CPU.
struct Threads {
  Threads(int count = 0) : count(count) {}

  int count; // 0: one for each core
  /// The caller's threads, in place of the session's own; null for none.
  cria_parallel_for run = nullptr;
  void *data = nullptr;
};

} // namespace cria
