/// The counts of a kernel's run, for models of its cost.
///
/// Instructions are counted by segments. A segment is a run of instructions
/// without a label or a branch between them: a thread that begins it executes
/// all of it. Each thread has a counter for each segment, and translated code
/// adds one to it. The instructions of a segment by class are known when a
/// kernel is translated. A class has two counts: the sum over all threads, and
/// the sum over all warps, where each segment counts as often as the lane that
/// executed it most often.
///
/// Accesses to memory are counted one by one (Requests.h).
#pragma once

#include "tools/emulator/run/Requests.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cria::emulator {

/// What is counted; each value includes the previous ones.
enum class Counting { Nothing, Instructions, Requests };

/// A class of instructions.
struct InstructionClass {
  std::string name;
  uint64_t operations = 0; ///< of a warp's matrix product
};

/// What translated code counts in a kernel.
struct CountPlan {
  struct Segment {
    std::map<uint32_t, uint32_t> classes; ///< instructions by number of class
  };

  /// The number of the class called `name`.
  uint32_t classOf(const std::string &name, uint64_t operations);

  std::vector<InstructionClass> classes;
  std::vector<Segment> segments;
  std::vector<RequestSite> sites;
};

/// What blocks of a launch have executed.
struct LaunchCounts {
  std::vector<uint64_t> threadInstructions, warpInstructions; ///< by class
  std::vector<RequestCounts> sites; ///< by number in the plan
  uint64_t longestBlock = 0; ///< instructions of warps, of the block with most
  uint64_t bulkBytes = 0;    ///< of global memory, read and written by bulk
                             ///< copies
  uint64_t multicastBytes = 0; ///< that blocks received besides, from one read
                               ///< of a multicast

  void add(const LaunchCounts &other);
  uint64_t instructions() const; ///< of threads
  /// The instructions of the class called `name`.
  /// @{
  uint64_t ofThreads(const CountPlan &plan, const std::string &name) const;
  uint64_t ofWarps(const CountPlan &plan, const std::string &name) const;
  /// @}
  RequestCounts ofKind(const CountPlan &plan, RequestKind kind) const;
};

/// Counts what one block executes.
class BlockCounter {
public:
  /// Begins a block.
  void start(const CountPlan &plan, uint32_t threads);
  /// The counters of a thread, one for each segment.
  uint32_t *countersOf(uint32_t thread) {
    return executed.data() + size_t(thread) * plan->segments.size();
  }
  /// Ends the block and adds its counts.
  void finish(LaunchCounts &to);

  Requests requests;
  uint64_t bulkBytes = 0; ///< that bulk copies read and wrote
  uint64_t multicastBytes = 0;

private:
  void addSegments(LaunchCounts &to) const;

  const CountPlan *plan = nullptr;
  uint32_t threads = 0;
  std::vector<uint32_t> executed; ///< by thread and segment
};

} // namespace cria::emulator
