/// Shows the progress of binding weights on a terminal.
#pragma once

#include "runtime/device/Backend.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace cria {

/// Shows the progress after the first second, in a line that is erased at the
/// end. Shows nothing if stderr is not a terminal.
inline Progress weightProgress() {
  if (!isatty(STDERR_FILENO))
    return {};
  using Clock = std::chrono::steady_clock;
  return [begin = Clock::now(), shown = false](uint64_t done,
                                               uint64_t total) mutable {
    shown |= Clock::now() - begin > std::chrono::seconds(1);
    if (shown)
      fprintf(stderr, "\rweights %llu%%%s",
              static_cast<unsigned long long>(done * 100 / total),
              done == total ? "\r\033[K" : "");
  };
}

} // namespace cria
