/// A launch of a kernel and what became of it.
#pragma once

#include "tools/emulator/run/Counts.h"
#include "tools/emulator/run/DeviceMemory.h"

#include <functional>
#include <optional>
#include <vector>

namespace cria::emulator {

struct Thread;

/// Which checks are made.
struct Checks {
  bool memory = true; ///< bounds, use after free, alignment
  bool init = true;   ///< reads of shared memory that nobody wrote
  bool race = true;   ///< races in shared memory
  bool global = true; ///< races in global memory
  bool sync = true;   ///< divergent barriers and warp operations

  /// Whether accesses must be looked at one by one.
  bool accesses() const { return memory || init || race || global; }
};

/// Three sizes or indices.
struct Dim {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t total() const { return uint64_t(x) * y * z; }
};

/// What is wrong with a kernel.
struct Finding {
  enum Kind {
    OutOfBounds,
    UseAfterFree,
    Misaligned,
    Uninitialized,
    Race,
    DivergentBarrier,
    DivergentWarp,
    Deadlock,
    Misuse, ///< an instruction's operands make no sense
    Trap,
    Assertion
  };

  Kind kind;
  /// One line: kernel, PTX line, source line, what, block and thread.
  std::string headline;
  std::string details; ///< further lines, each indented
};

/// A kernel to be run and how.
struct Launch {
  void (*code)(Thread *thread, const char *parameters) = nullptr;
  bool blocks = false; ///< threads of the kernel wait for each other
  std::string name;
  std::function<std::string(int)> sourceOf; ///< ` (file:line)` of a PTX line
  Dim grid, block;
  uint32_t staticShared = 0, dynamicShared = 0;
  uint64_t localBytes = 0;
  std::vector<char> parameters;
  const CountPlan *countPlan = nullptr; ///< null: nothing is counted
  const DeviceMemory *memory = nullptr;
  Checks checks;
  uint64_t seed = 0; ///< 0: blocks, warps and lanes in order, copies late
  bool cooperative = false; ///< all blocks run at once
  unsigned workers = 1;     ///< cores to use
  double timeLimit = 600;   ///< in seconds, for loops of checked kernels
};

struct LaunchResult {
  std::optional<Finding> finding; ///< the first; the launch stopped there
  LaunchCounts counts;            ///< where the launch has a plan for them
};

/// Runs the launch to its end or to the first finding.
LaunchResult runLaunch(const Launch &launch);

} // namespace cria::emulator
