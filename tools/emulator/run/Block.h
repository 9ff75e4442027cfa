/// One block on one core: its threads as fibers, and their common state.
///
/// A thread runs until it waits for others. Threads that wait at the same
/// collective instruction of a warp meet ("rendezvous"): the last one to arrive
/// executes it for all. A thread that must wait switches directly to the next
/// lane of its warp that can run. Only if no lane of the warp can run does the
/// block's scheduler choose another warp. If no thread of the cluster can run,
/// the cluster is deadlocked.
///
/// A kernel in which no thread waits runs all threads on one fiber, one by one.
#pragma once

#include "tools/emulator/run/Check.h"
#include "tools/emulator/run/Cluster.h"
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/run/Fiber.h"
#include "tools/emulator/run/Grid.h"
#include "tools/emulator/run/Shadow.h"
#include "tools/emulator/run/async/Mbarrier.h"
#include "tools/emulator/run/matrix/Warpgroup.h"

#include <unordered_map>
#include <utility>

namespace cria::emulator {

class Block {
public:
  /// The result of letting each thread run that can.
  struct Round {
    bool moved; ///< some thread got on
    bool polls; ///< some thread polls memory that others must write
  };

  Block();
  ~Block();
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  /// Becomes block `rank` of a cluster, at `in` in the cluster, which is at
  /// `at` in a grid. The state of the previous block is gone.
  void start(Grid &grid, Cluster &cluster, Dim at, Dim in, uint32_t rank,
             uint64_t seed);
  Round run();
  bool hasEnded() const { return !live; }
  uint32_t liveThreads() const { return live; }
  /// Stops the launch with the state of every warp.
  void reportDeadlock();
  /// Adds the counts of the block, which has ended.
  void addCounts(LaunchCounts &to);

  /// For the instructions, called on a thread's fiber.
  /// @{
  const Launch &launch() const { return grid->launch; }
  /// Stops the launch; does not return.
  [[noreturn]] void report(Finding::Kind kind, const Thread &thread, int line,
                           const std::string &what,
                           const std::string &details = "");
  /// Lets others run until `thread` is woken.
  void suspend(Thread &thread, Wait why, int line);
  void wake(Thread &thread);
  void endThread(Thread &thread);
  /// Ends `thread` from inside a device function; does not return.
  [[noreturn]] void exitThread(Thread &thread);
  /// A thread that polls `address` lets others run from time to time.
  void poll(Thread &thread, uint64_t address, int line);
  /// Whether a polled value has changed since the last call.
  bool sawNews() { return std::exchange(hasNews, false); }

  /// Stops a thread that loops when the launch stops or takes too long.
  void checkTime(Thread &thread, int line);

  /// Waits until the lanes of `thread.mask` come to the same operation, which
  /// is described in `thread`.
  void rendezvous(Thread &thread, int line);
  uint32_t barrier(Thread &thread, BarrierConfig config, uint32_t id,
                   uint32_t count, bool predicate, int line);
  /// barrier.cluster.
  void clusterBarrier(Thread &thread, ClusterBarrierConfig config, int line);
  /// The host address of an address in the cluster's shared memory: one of the
  /// thread's own block, or one that `addressOfPeer` has made.
  uint64_t clusterAddress(Thread &thread, uint64_t address, int line);
  /// mapa: the address in block `rank` of what lies at `address` in each block.
  uint64_t addressOfPeer(Thread &thread, uint64_t address, uint32_t rank,
                         int line);
  /// The block whose mbarrier or box is at a host address: this block, or one
  /// that has not ended.
  Block &ownerOf(Thread &thread, uint64_t address, int line, const char *what);
  /// The address in block `rank` of what lies at a host address of any block.
  uint64_t inPeer(uint64_t address, uint32_t rank);

  /// Checks an access to memory before it is made. `stored` are the bytes of a
  /// store, null if not known.
  void check(Thread &thread, uint64_t address, uint32_t packedFlags, int line,
             const char *stored);
  /// The same for shared memory: `access` without its offset, and alignment.
  void checkShared(Thread &thread, uint64_t address, uint32_t align,
                   Shadow::Access access, const char *what);
  /// The same for global memory.
  void checkGlobal(Thread &thread, uint64_t address, uint32_t bytes,
                   uint32_t align, int line, const char *what,
                   bool isWrite = false);
  /// A fence; for all blocks if `deviceWide`.
  void fence(Thread &thread, bool deviceWide);
  /// griddepcontrol: earlier launches have ended, or the next one may begin.
  void waitForLaunches(Thread &thread);
  void allowNextLaunch() { allowsNext = true; }
  /// A proxy fence.
  void fenceProxy(Thread &thread);
  /// What a thread releases: all that it knows. Begins a new epoch.
  Clock releasedBy(Thread &thread);
  /// The same for other blocks of the cluster; includes global memory.
  Clock releasedToCluster(Thread &thread);
  /// A release of `clock`, which this block's threads have, to all blocks.
  /// Returns its ticket.
  uint64_t releaseToGrid(const Clock &clock);
  /// A thread of another block arrives at an mbarrier of this block. This block
  /// must not end before the arrival.
  void expectArrival(const Thread &thread, uint32_t epoch, int line);
  void acquire(Thread &thread, const Clock &clock);
  /// A clock of this block's threads, for threads of another block.
  Clock seenFrom(const Block &other, const Clock &clock) const {
    return clock.seenFrom(other.rank, rank);
  }
  /// The thread learns of an agent's accesses up to `epoch`.
  void acquireAgent(Thread &thread, unsigned agent, uint32_t epoch);
  /// Begins a new epoch; returns the one that has ended.
  uint32_t newEpoch() { return shadow.advance() - 1; }

  Mbarriers &mbarriers() { return mbarrierObjects; }
  Warpgroup &warpgroupOf(const Thread &thread) {
    return warpgroups[thread.warpIndex / 4];
  }
  /// Checks the address of a tensor map.
  void checkTensorMap(Thread &thread, uint64_t address, int line);
  /// Reports a warpgroup in which warps or lanes are missing.
  void checkWarpgroup(const Thread &thread, int line, const char *what);
  /// Wakes threads that wait for a phase of the mbarrier.
  void wakeWaiters(uint64_t mbarrier);
  bool hasWaiters(uint64_t mbarrier) const;
  void wakeWarpgroup(uint32_t index);
  void wakeAll(Wait reason);
  bool inShared(uint64_t address) const;
  /// Whether an address is in local memory or in the kernel's parameters.
  Space spaceOf(uint64_t address) const;
  /// Registers of all threads after setmaxnreg; 0: some have not executed it.
  uint64_t registersWanted() const;
  /// `PTX line 5 (file.cu:7)`, and an offset in shared memory.
  std::string placeOf(int line) const;
  std::string offsetOf(uint64_t address) const;

  Random &random() { return randomNumbers; }
  /// Counts bytes of global memory that a bulk copy reads or writes, or that
  /// the multicast of another block has read.
  void countBulk(uint64_t bytes, bool isMulticast = false);
  /// Whether the thread may read memory; reports it if it may not and memory
  /// is checked.
  bool mayRead(Thread &thread, uint64_t address, uint32_t bytes, int line,
               const char *what);
  /// Keeps what a thread prints.
  void print(const std::string &text) { grid->print(number, text); }
  /// The text at `address` up to its zero byte. Reports memory that the thread
  /// must not read.
  std::string textAt(Thread &thread, uint64_t address, int line,
                     const char *what);
  /// free of the device.
  void freeOnHeap(Thread &thread, uint64_t address, int line);
  /// Counts an access to memory.
  void countRequest(Thread &thread, uint32_t site, uint64_t address,
                    uint32_t bytes);
  /// @}

private:
  struct Barrier {
    uint32_t arrived = 0, needed = 0; ///< needed 0: all threads
    uint32_t votes = 0;               ///< predicates that were true
    uint32_t voters = 0;
  };
  /// A read of shared memory that no thread had written. The block goes on, to
  /// see whether another thread writes the memory without a barrier in between.
  struct EarlyRead {
    Thread *thread;
    int line;
    std::string what;
  };
  /// An arrival of another block's thread.
  struct Arrival {
    uint32_t rank, warp, epoch;
    int line;
  };

  void shapeThreads();
  void startThreads(Dim cluster, Dim inCluster);
  bool reserveStacks(size_t count);
  void startFibers();
  void startCounter();
  bool runWarps();
  void checkArrivals(Thread &last);
  bool wakePollers();
  void wakeActiveMasks();
  void runAlone();
  void yield(Thread &thread);
  Thread *nextLane(const Warp &warp, unsigned after) const;
  static void threadEntry(void *argument);
  static void aloneEntry(void *argument);

  bool tryRendezvous(Warp &warp, const Thread &like, int line);
  void execute(Warp &warp, uint32_t lanes, int line);
  void tryAllOperations(Warp &warp);
  bool tryBarrier(uint32_t id);
  void releaseBarrier(uint32_t id);
  void checkArrival(const Warp &warp, uint32_t id);
  static uint32_t barrierResult(const Thread &thread, const Barrier &barrier);

  void checkBounds(Thread &thread, uint64_t address, uint32_t bytes, int line,
                   const std::string &what);
  void checkRaces(Thread &thread, const GlobalRaces::Access &access);
  [[noreturn]] void reportRace(Thread &thread,
                               const GlobalRaces::Access &access,
                               const GlobalRace &race);
  void checkOverlap(Thread &thread, const GlobalRaces::Access &access);
  /// Earlier launches whose accesses are not ordered before those of the
  /// thread.
  const SegmentRanges &openLaunches(const Thread &thread) const {
    return hasWaited(thread) ? launch().afterWait : launch().beforeWait;
  }
  void foundInShared(Thread &thread, int line, const ShadowFinding &found);
  Finding findingOf(const EarlyRead &read) const;
  std::string headline(const std::string &what, const Thread *thread,
                       int line) const;

  ThreadSync &syncOf(Thread &thread);
  void synchronize(Thread &thread, uint64_t address, const AccessFlags &flags,
                   bool isShared);
  void lookUp(Thread &thread, bool acquires);
  void learn(Thread &thread, const Clock &clock);
  void release(Thread &thread, uint64_t address, bool isShared, bool inBlock);
  void shareClocks(Warp &warp, uint32_t lanes);
  uint64_t passBarrier(uint32_t id);
  static std::string blockName(const Dim &at);
  std::string where(const Thread *thread) const;
  std::string states() const;
  std::string polledHostMemory() const;

  void checkCopies(Thread &thread);
  void checkEnd(Thread &last);
  void joinAtBarrier(uint32_t id);

  Grid *grid = nullptr;
  Cluster *cluster = nullptr;
  uint32_t rank = 0;      ///< in the cluster
  uint64_t shapedFor = 0; ///< id of the grid that the threads are made for
  Dim index;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint32_t> warpOrder;
  Barrier barriers[16];
  Stacks stacks;
  Shadow shadow;
  Mbarriers mbarrierObjects{*this};
  std::vector<Warpgroup> warpgroups;
  void *mapping = nullptr; ///< mapping that holds the arena
  char *arena = nullptr;   ///< of shared memory
  uint32_t sharedEnd = 0;  ///< first shared address after the block's memory
  Range recent[kRanges];   ///< recently used allocations, by line
  std::optional<EarlyRead> earlyRead;
  std::vector<std::unique_ptr<ThreadSync>> syncs; ///< by thread
  bool synchronizes = false;                      ///< a thread has a ThreadSync
  std::unordered_map<uint64_t, Clock> released; ///< by address in shared memory
  std::vector<Arrival> arrivals;                ///< of other blocks' threads
  Clock endClock;                               ///< of threads that have ended
  Clock barrierFence;                           ///< of fences before barriers
  bool hasBarrierFence = false, barrierDeviceWide = false;
  std::vector<uint32_t> segments; ///< of the warps; see Thread
  /// The same while earlier launches are open, and their epochs. Translated
  /// code then finds no segment, so that each access calls the runtime.
  std::vector<std::pair<uint32_t, uint32_t>> openSegments;
  bool anyWaited = false;  ///< a thread has passed griddepcontrol.wait
  bool allowsNext = false; ///< a thread let the next launch begin
  uint64_t number = 0;     ///< in the grid
  void *schedulerStack = nullptr;
  Thread *current = nullptr;
  uint32_t live = 0;     ///< threads that have not ended
  uint64_t progress = 0; ///< threads woken and ended, operations done
  uint32_t polls = 0;
  std::unordered_map<uint64_t, uint64_t> polled; ///< values by address
  bool hasNews = false;
  bool reversed = false; ///< lanes run from the highest
  Random randomNumbers;
  std::unique_ptr<BlockCounter> counter; ///< null: nothing is counted
};

/// The operations of a warp, for the `lanes` that came to them.
/// @{
void shuffleLanes(Block &block, Warp &warp, uint32_t lanes, int line);
void voteLanes(Warp &warp, uint32_t lanes);
void matchLanes(Warp &warp, uint32_t lanes);
void reduceLanes(Warp &warp, uint32_t lanes);
void loadMatrices(Block &block, Warp &warp, int line);
void storeMatrices(Block &block, Warp &warp, int line);
void multiplyMatrices(Warp &warp);
void moveFragments(Block &block, Warp &warp, uint32_t lanes, int line);
/// @}

} // namespace cria::emulator
