/// A launch of a kernel and its result.
#pragma once

#include "tools/emulator/run/Counts.h"
#include "tools/emulator/run/DeviceMemory.h"
#include "tools/emulator/run/Texture.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cria::emulator {

struct Thread;

/// The checks that are made.
struct Checks {
  bool memory = true; ///< bounds, use after free, alignment
  bool init = true;   ///< reads of shared memory that nobody wrote
  bool race = true;   ///< races in shared memory
  bool global = true; ///< races in global memory
  bool sync = true;   ///< divergent barriers and warp operations

  /// Whether accesses must be checked one by one.
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

/// The segments of a launch (GlobalRaces.h): [low, high).
struct SegmentRange {
  uint32_t low = 0, high = 0;

  bool has(uint32_t number) const { return low <= number && number < high; }
};

/// The segments of several launches.
using SegmentRanges = std::vector<SegmentRange>;

/// What the next launch of a stream must know of this launch. With programmatic
/// dependent launch, the next launch may begin before this one ends. The
/// accesses of this launch are then ordered before those of the next launch
/// only after the next launch's griddepcontrol.wait.
struct LaunchTrace {
  SegmentRange own;
  /// The earlier launches that may still run before griddepcontrol.wait, and
  /// those of them that may still run after it.
  SegmentRanges beforeWait, afterWait;
  /// Whether the launch waited for earlier launches before it ended, and before
  /// it let the next launch begin. For both, one block that waits is enough.
  bool hasWaited = true, waitedFirst = true;
};

/// A kernel to be run, and how.
struct Launch {
  void (*code)(Thread *thread, const char *parameters) = nullptr;
  bool blocks = false; ///< threads of the kernel wait for each other
  std::string name;
  std::function<std::string(int)> sourceOf; ///< ` (file:line)` of a PTX line
  Dim grid, block, cluster;                 ///< cluster: in blocks
  uint32_t staticShared = 0, dynamicShared = 0;
  uint32_t reservedShared = 0; ///< static bytes that begin as zeros
  uint64_t localBytes = 0;
  bool recurses = false; ///< functions may call themselves
  std::vector<char> parameters;
  const CountPlan *countPlan = nullptr; ///< null: nothing is counted
  const DeviceMemory *memory = nullptr;
  const Textures *textures = nullptr; ///< null: there are none
  Checks checks;
  uint64_t seed = 0; ///< 0: blocks, warps and lanes in order, copies late
  bool cooperative = false; ///< all blocks run at once
  /// It may have begun before earlier launches of its stream ended.
  bool overlaps = false;
  SegmentRanges beforeWait, afterWait; ///< as in LaunchTrace
  unsigned workers = 1;                ///< cores to use
  double timeLimit = 600; ///< in seconds, for loops of checked kernels
};

struct LaunchResult {
  std::optional<Finding> finding; ///< the first; the launch stopped there
  LaunchCounts counts;            ///< if the launch has a plan for them
  LaunchTrace trace;
  std::string printed; ///< by printf, block after block
};

/// Lets `launch` begin before the launch of `previous` has ended.
void overlap(Launch &launch, const LaunchTrace &previous);

/// Runs the launch to its end or to the first finding.
LaunchResult runLaunch(const Launch &launch);

} // namespace cria::emulator
