/// Loading code into a context. PTX is compiled by the driver. Where the driver
/// has a linker (cuLinkCreate and its kin), it gives back the machine code,
/// which is kept on disk; where it has none, the driver's own cache is all
/// there is.
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
/// what is wrong with the folder becomes a line of `warnings`.
Result<Loaded> loadModule(const std::shared_ptr<Context> &context,
                          std::string_view code, bool isPtx,
                          const std::string &name, bool cache,
                          std::vector<std::string> &warnings);

} // namespace cria::cuda
