/// Where the library says what it does while it works.
#pragma once

#include "runtime/cria.h"

#include <string>

namespace cria {

/// The caller's function for lines of text; without one, nothing is said.
/// Threads call it at once.
struct Log {
  void (*write)(void *data, int32_t level, const char *text) = nullptr;
  void *data = nullptr;

  void operator()(cria_log_level level, const std::string &text) const {
    if (write)
      write(data, level, text.c_str());
  }
};

} // namespace cria
