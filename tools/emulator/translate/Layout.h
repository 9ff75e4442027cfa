/// The places of a kernel's shared variables, and the functions that it calls.
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include <map>
#include <variant>
#include <vector>

namespace cria::emulator {

/// The memory of one kernel besides its parameters.
struct Layout {
  std::vector<const Function *> functions; ///< the kernel and all it calls
  /// The offset of each shared variable of the functions, and of the module.
  std::map<const Variable *, uint64_t> shared;
  std::map<std::string, uint64_t> moduleShared;
  uint64_t sharedBytes = 0; ///< of static shared memory
  uint64_t localBytes = 0;  ///< of a thread
};

/// The layout of `entry`. Variables get exactly their declared alignment;
/// dynamic shared memory begins after static shared memory. An error if the
/// kernel may call itself.
std::variant<Layout, Error> layoutOf(const PtxModule &module,
                                     const Function &entry);

} // namespace cria::emulator
