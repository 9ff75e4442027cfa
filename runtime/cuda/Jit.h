/// Loading code into a context. The driver compiles PTX, and keeps the machine
/// code in a cache of its own on disk.
#pragma once

#include "runtime/cuda/Context.h"

#include <string>
#include <vector>

namespace cria::cuda {

struct Loaded {
  Module module;
  double seconds;  // to load it, with the time to compile it
  std::string log; // of the driver's compiler, its lines
};

/// Loads `code`, PTX or a cubin, into the current context. `name` stands for it
/// in errors, which carry the log of the driver's compiler.
Result<Loaded> loadModule(const std::shared_ptr<Context> &context,
                          const std::string &code, const std::string &name);

/// What a compiler's log says of code that is slower than it was written to be,
/// the messages C7500 to C7599 of ptxas: each once, with how often it is there.
std::vector<std::string> slowdownsOf(const std::string &log);

} // namespace cria::cuda
