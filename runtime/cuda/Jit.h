/// Loading code into a context. The driver compiles PTX. If the driver has a
/// linker (cuLinkCreate and related functions), the linker returns the machine
/// code, which is kept on disk. Otherwise only the driver's own cache keeps it.
#pragma once

#include "runtime/cuda/Context.h"

#include <string>
#include <string_view>
#include <vector>

namespace cria::cuda {

/// A module, and how it came to be: "from the cache", "compiled in 0.3 s".
struct Loaded {
  Module module;
  std::string how;
};

/// Loads `code`, NUL-terminated PTX or a cubin, into the current context.
/// `name` stands for it in errors, which carry the log of the driver's
/// compiler. With `cache`, compiled PTX is looked up on disk and kept there;
/// a problem of the folder becomes a line of `warnings`.
Result<Loaded> loadModule(const std::shared_ptr<Context> &context,
                          std::string_view code, bool isPtx,
                          const std::string &name, bool cache,
                          std::vector<std::string> &warnings);

} // namespace cria::cuda
