/// The functions of the runtime that translated code calls.
#pragma once

#include <vector>

namespace cria::emulator {

struct RuntimeEntry {
  const char *name;
  void *address;
};

/// All of them by name, with the functions of libm that LLVM may call.
std::vector<RuntimeEntry> runtimeEntries();

} // namespace cria::emulator
