/// The places of a kernel's shared variables, and the functions that it calls.
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include <map>
#include <optional>
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
  bool recurses = false;    ///< a function may call itself
  /// The offset of shared memory for system software, if the kernel asks for it
  /// by %reserved_smem_offset.
  std::optional<uint64_t> reserved;
};

constexpr uint64_t kReservedShared = 320;    ///< bytes at Layout::reserved
constexpr uint64_t kReservedPerBlock = 1024; ///< bytes, as a device has them

/// The layout of `entry`. Variables get exactly their declared alignment;
/// dynamic shared memory begins after static shared memory.
Layout layoutOf(const PtxModule &module, const Function &entry);

/// The functions that the call may reach by an address. Empty for a direct
/// call.
std::vector<const Function *> calleesByAddress(const PtxModule &module,
                                               const Function &caller,
                                               const Instruction &call);

} // namespace cria::emulator
