/// mbarrier objects of a block: barriers in shared memory that count arrivals
/// and bytes of asynchronous copies.
///
/// A phase ends when all arrivals have come and the expected bytes have been
/// copied. A thread that waits for the phase then knows what every arrived
/// thread knew, and sees the copies.
///
/// Bulk copies happen at the latest legal moment: when no thread of the block
/// can go on and a thread waits for the mbarrier at which they complete. With a
/// seed they may also happen when they are issued.
#pragma once

#include "tools/emulator/run/Clock.h"
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/run/async/BulkCopy.h"

#include <map>
#include <string>

namespace cria::emulator {

struct Mbarrier {
  /// The contents of shared memory at an mbarrier; no thread may change them.
  static constexpr uint64_t kMagic = 0x7265697272616263;
  static constexpr uint32_t kMostArrivals = (1 << 20) - 1;
  static constexpr int64_t kMostBytes = (1 << 20) - 1;

  uint32_t count = 0;          ///< arrivals that end a phase
  uint32_t pending = 0;        ///< arrivals that this phase still needs
  int64_t bytes = 0;           ///< and bytes; below 0: not yet expected
  uint64_t phase = 0;          ///< phases that have ended
  unsigned agent = 0;          ///< of copies that complete here
  uint32_t maker = 0;          ///< the thread that executed mbarrier.init
  int line = 0;                ///< of mbarrier.init
  bool isFenced = false;       ///< copies may use it
  bool isPolled = false;       ///< by a wait that gave up
  Clock gathered;              ///< of those that arrived in this phase
  Clock released;              ///< of threads that arrived in earlier phases
  std::vector<BulkLoad> loads; ///< that are pending
};

/// An instruction on an mbarrier.
struct MbarrierAccess {
  Thread &thread;
  uint64_t address; ///< of the host
  int line;
};

class Mbarriers {
public:
  explicit Mbarriers(Block &block) : block(block) {}
  void reset() {
    all.clear();
    agents = 0;
  }

  void init(const MbarrierAccess &access, uint32_t count);
  void invalidate(const MbarrierAccess &access);
  /// Returns the state: the phase that the arrivals belong to.
  uint64_t arrive(const MbarrierAccess &access, const MbarrierArrival &arrival);
  void expect(const MbarrierAccess &access, uint32_t bytes);
  void complete(const MbarrierAccess &access, uint32_t bytes);
  /// Whether the phase that `wait` names has ended. Blocks if it may.
  bool wait(const MbarrierAccess &access, const MbarrierWait &wait);
  /// fence.proxy.async, or fence.mbarrier_init, which is only for the thread's
  /// own mbarriers.
  void fence(const Thread &thread, bool ownAlone);

  /// Begins a copy that completes at the mbarrier.
  void load(const MbarrierAccess &access, BulkLoad load);
  /// Makes copies that a thread waits for. False: there are none.
  bool makeLoads();
  /// A copy that no thread has waited for; null if there is none.
  const BulkLoad *leftOver() const;
  /// The state of the mbarrier at `address`, in words.
  std::string describe(uint64_t address) const;

private:
  Mbarrier &find(const MbarrierAccess &access, const char *what);
  void tryEndPhase(uint64_t address, Mbarrier &barrier);
  void makeLoads(uint64_t address, Mbarrier &barrier);
  bool mayGiveUp(uint64_t address, const Mbarrier &barrier) const;
  void countBytes(Mbarrier &barrier, const MbarrierAccess &access,
                  int64_t bytes);

  Block &block;
  std::map<uint64_t, Mbarrier> all; ///< by address
  unsigned agents = 0; ///< that were given to mbarriers of this block
};

} // namespace cria::emulator
