/// Where the library says what it does while it works.
#pragma once

#include "runtime/cria.h"

#include <string>

namespace cria {

/// The caller's function for lines of text; null for no output. Several threads
/// may call it at once.
struct Log {
  void (*write)(void *data, int32_t level, const char *text) = nullptr;
  void *data = nullptr;

  void operator()(cria_log_level level, const std::string &text) const {
    if (write)
      write(data, level, text.c_str());
  }
};

} // namespace cria
