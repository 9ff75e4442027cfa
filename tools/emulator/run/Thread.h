/// The state of a thread and of a warp of the emulated device.
#pragma once

#include "tools/emulator/run/Check.h"
#include "tools/emulator/run/Clock.h"
#include "tools/emulator/run/async/BulkCopy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cria::emulator {

class Block;
struct Warp;

/// Why a thread does not run.
enum class Wait : uint8_t {
  None,       ///< it runs
  Warp,       ///< for lanes of its warp
  Barrier,    ///< for threads of its block
  ActiveMask, ///< until no lane of its warp runs
  Spin,       ///< polls memory: lets others run first
  Mbarrier,   ///< for a phase of an mbarrier
  Warpgroup,  ///< for other warps of its warpgroup
  Cluster,    ///< for threads of its cluster
  Exited
};

/// Instructions that lanes of a warp execute together.
enum class WarpOp : uint8_t {
  Sync,
  Shuffle,
  Vote,
  Match,
  Reduce,
  LoadMatrix,
  StoreMatrix,
  Mma,
  MoveFragment,
  Product,
  CommitProducts,
  WaitProducts,
  FenceProducts,
  SetRegisters,
  ClusterBarrier
};

/// One copy of cp.async: `valid` bytes from `source`, zeros up to `bytes`.
struct AsyncCopy {
  uint64_t target, source;
  uint32_t bytes, valid;
  int line;
  bool done; ///< its bytes have been copied already
};

/// A thread. Translated code reads the members before `block` by their offset.
struct Thread {
  uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
  uint32_t lane, warpIndex, warpCount, dynamicShared;
  uint32_t clusterId[3], clusterCount[3]; ///< of the grid's clusters
  uint32_t inCluster[3], clusterSize[3];  ///< of its cluster's blocks
  uint32_t clusterRank, clusterBlocks;
  char *shared;           ///< host address of shared address 0
  uint32_t *executed;     ///< counters of segments, if they are counted
  const Range *ranges;    ///< kRanges of them
  uint64_t gridWorkspace; ///< 0: the launch is not cooperative
  alignas(16) uint32_t sharedKeys[kKeyWords]; ///< of words it wrote
  /// The segment of its warp's accesses to global memory, shifted; or
  /// kNoSegment. All lanes have the same.
  uint32_t *segment;
  uint32_t manyReaders;   ///< the segment of words that several blocks read
  const char *stackLimit; ///< a recursion must not reach addresses below

  Block *block;
  Warp *warp;
  void *stackPointer; ///< of its fiber, while the thread does not run
  uint32_t index;     ///< in its block
  Wait wait;
  int line; ///< of the PTX instruction it waits at

  /// What it passes to a collective instruction and gets back.
  /// @{
  WarpOp op;
  uint32_t config; ///< the instruction's modifiers
  uint32_t mask;
  int matchLine; ///< all lanes must be at this line; 0: at any
  uint64_t in[3];
  uint64_t out;
  const uint32_t *inWords;
  uint32_t *outWords;
  const uint32_t *places; ///< of accumulators in outWords
  uint32_t barrier;
  /// @}

  uint32_t acquired; ///< accesses of other warps before this epoch are ordered
                     ///< before its own
  uint64_t seen;     ///< releases of other blocks up to this ticket, too
  ThreadSync *sync;  ///< null before its first fence or strong access
  std::vector<AsyncCopy> open;                ///< not yet committed
  std::vector<std::vector<AsyncCopy>> groups; ///< committed, oldest first
  std::vector<BulkStore> openStores;
  std::vector<std::vector<BulkStore>> storeGroups;
  uint64_t mbarrier = 0; ///< that it waits for; 0: none
  /// At the cluster's barrier: whether it has arrived and must still wait, and
  /// in which phase.
  /// @{
  bool hasArrived = false;
  uint64_t clusterPhase = 0;
  /// @}
};

/// The bar.warp.sync of a warp, numbered in the order in which they happen.
/// Most have all lanes; the lanes of a tile may also meet alone.
class WarpSyncs {
public:
  void meetAll() { everyone = ++count; }
  void meet(uint32_t lanes);
  /// The last one in which `lane` took part.
  uint32_t last(unsigned lane) const {
    return known ? std::max(everyone, (*known)[lane][lane]) : everyone;
  }
  /// Whether `lane` has met `other`, or a lane that had met it, after the last
  /// one of `other` was `since`.
  bool hasMet(unsigned lane, unsigned other, uint32_t since) const {
    return everyone > since || (known && (*known)[lane][other] > since);
  }

private:
  using Numbers = std::array<uint32_t, 32>;
  uint32_t count = 0, everyone = 0;
  /// What each lane knows: the last one in which each other lane took part.
  /// Null before lanes meet alone.
  std::unique_ptr<std::array<Numbers, 32>> known;
};

/// 32 lanes; bit masks have one bit for each lane.
struct Warp {
  Thread *lanes = nullptr;
  uint32_t full = 0; ///< the lanes that exist
  uint32_t ready = 0, waiting = 0, exited = 0;
  WarpSyncs syncs;
  uint32_t sharing = 0; ///< lanes whose clocks are the same unless `unshared`
  uint32_t waited = 0;  ///< lanes that have passed griddepcontrol.wait, or know
                        ///< of a thread that has
};

/// Whether launches before have ended that the thread's launch may overlap.
inline bool hasWaited(const Thread &thread) {
  return thread.warp->waited >> thread.lane & 1;
}
inline void noteWait(Thread &thread) {
  thread.warp->waited |= 1u << thread.lane;
}

/// The lanes of a mask, lowest first.
class Lanes {
public:
  explicit Lanes(uint32_t mask) : mask(mask) {}
  Lanes begin() const { return *this; }
  Lanes end() const { return Lanes(0); }
  bool operator!=(const Lanes &other) const { return mask != other.mask; }
  Lanes &operator++() {
    mask &= mask - 1;
    return *this;
  }
  unsigned operator*() const { return unsigned(__builtin_ctz(mask)); }

private:
  uint32_t mask;
};

} // namespace cria::emulator
