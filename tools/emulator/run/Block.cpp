// Starts a block, schedules its threads and ends them.
#include "tools/emulator/run/Block.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sys/mman.h>

namespace cria::emulator {
namespace {

/// Stack of a thread, without its local variables. Optimized code needs a few
/// KiB, but at optimization 0 each register of the largest kernels has a place
/// there: some 100 KiB. Pages that are not touched cost nothing.
constexpr size_t kStackBytes = 1 << 20;
/// More of it if functions may call themselves.
constexpr size_t kRecursionBytes = 1 << 20;
constexpr size_t kMaxPolled = 1 << 16; // addresses that are remembered

} // namespace

Block::Block() {
  // Shared memory and its keys, aligned.
  mapping = mmap(nullptr, 3 * kArena, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping != MAP_FAILED)
    arena = reinterpret_cast<char *>((uint64_t(mapping) + kArena - 1) &
                                     ~(kArena - 1));
  if (arena)
    shadow.attach(arena);
}

Block::~Block() {
  if (arena)
    munmap(mapping, 3 * kArena);
}

bool Block::inShared(uint64_t address) const {
  return address - uint64_t(arena) < kArena;
}

Space Block::spaceOf(uint64_t address) const {
  uint64_t parameters = uint64_t(launch().parameters.data());
  if (address - parameters < launch().parameters.size())
    return Space::Param;
  return stacks.contains(address) ? Space::Local : Space::Other;
}

void Block::start(Grid &newGrid, Cluster &newCluster, Dim at, Dim in,
                  uint32_t newRank, uint64_t seed) {
  grid = &newGrid;
  cluster = &newCluster;
  rank = newRank;
  const Dim &size = newGrid.launch.cluster;
  index = {at.x * size.x + in.x, at.y * size.y + in.y, at.z * size.z + in.z};
  number = index.x + uint64_t(grid->launch.grid.x) *
                         (index.y + uint64_t(grid->launch.grid.y) * index.z);
  if (shapedFor != grid->id)
    shapeThreads();
  shapedFor = grid->id;
  randomNumbers = Random(seed);
  const Launch &launch = grid->launch;
  sharedEnd = kSharedBase + launch.staticShared + launch.dynamicShared;
  std::memset(arena + kSharedBase, 0xFF, sharedEnd - kSharedBase);
  std::memset(arena + kSharedBase, 0, launch.reservedShared);
  if (launch.checks.accesses())
    shadow.reset(sharedEnd - kSharedBase, launch.reservedShared);
  for (Range &range : recent)
    range = Range();
  for (Barrier &barrier : barriers)
    barrier = Barrier();
  earlyRead.reset();
  arrivals.clear();
  endClock = Clock();
  released.clear();
  synchronizes = hasBarrierFence = barrierDeviceWide = false;
  anyWaited = allowsNext = false;
  barrierFence = Clock();
  mbarrierObjects.reset();
  for (Warpgroup &group : warpgroups)
    group.reset();
  startThreads(at, in);
  startCounter();
  if (launch.blocks)
    startFibers();
}

/// Sets the state that is the same for all blocks of a launch.
void Block::shapeThreads() {
  const Launch &launch = grid->launch;
  const Dim &size = launch.block;
  uint32_t count = uint32_t(size.total());
  threads.resize(count);
  warps = std::vector<Warp>((count + 31) / 32);
  warpgroups.resize((warps.size() + 3) / 4);
  segments.resize(warps.size());
  bool coarse = grid->races && grid->races->wholeBlocks();
  for (uint32_t i = 0; i < count; ++i) {
    Thread &thread = threads[i];
    const uint32_t tid[3] = {i % size.x, i / size.x % size.y,
                             i / size.x / size.y};
    std::copy_n(tid, 3, thread.tid);
    std::copy_n(&size.x, 3, thread.ntid);
    std::copy_n(&launch.grid.x, 3, thread.nctaid);
    std::copy_n(&launch.cluster.x, 3, thread.clusterSize);
    const uint32_t clusters[3] = {launch.grid.x / launch.cluster.x,
                                  launch.grid.y / launch.cluster.y,
                                  launch.grid.z / launch.cluster.z};
    std::copy_n(clusters, 3, thread.clusterCount);
    thread.clusterBlocks = uint32_t(launch.cluster.total());
    thread.index = i;
    thread.lane = i % 32;
    thread.warpIndex = i / 32;
    thread.warpCount = uint32_t(warps.size());
    thread.dynamicShared = launch.dynamicShared;
    thread.shared = arena;
    thread.ranges = recent;
    thread.gridWorkspace =
        launch.cooperative ? launch.memory->gridWorkspace() : 0;
    std::fill_n(thread.sharedKeys, kKeyWords, keyOfThread(i) | kKeyWritten);
    thread.segment = &segments[coarse ? 0 : i / 32];
    thread.manyReaders = grid->races ? grid->races->manyReaders() : 0;
    thread.block = this;
    thread.warp = &warps[i / 32];
  }
  for (uint32_t i = 0; i < warps.size(); ++i) {
    uint32_t lanes = std::min(32u, count - i * 32);
    warps[i].lanes = &threads[i * 32];
    warps[i].full = lanes == 32 ? ~0u : (1u << lanes) - 1;
  }
  syncs.resize(count);
  warpOrder.resize(warps.size());
  std::iota(warpOrder.begin(), warpOrder.end(), 0u);
}

void Block::startThreads(Dim at, Dim in) {
  live = uint32_t(threads.size());
  reversed = grid->launch.seed && (randomNumbers.next() & 1);
  for (Thread &thread : threads) {
    std::copy_n(&index.x, 3, thread.ctaid);
    std::copy_n(&at.x, 3, thread.clusterId);
    std::copy_n(&in.x, 3, thread.inCluster);
    thread.clusterRank = rank;
    thread.hasArrived = false;
    thread.wait = Wait::None;
    thread.line = 0;
    thread.acquired = shadow.now();
    thread.seen = 0;
    thread.sync = nullptr;
    thread.open.clear();
    thread.groups.clear();
    thread.openStores.clear();
    thread.storeGroups.clear();
    thread.mbarrier = 0;
  }
  for (Warp &warp : warps) {
    warp.ready = warp.full;
    warp.waiting = warp.exited = warp.sharing = warp.waited = 0;
    warp.syncs.meetAll();
  }
  std::fill(segments.begin(), segments.end(), kNoSegment);
  openSegments.assign(warps.size(), {kNoSegment, 0});
  polled.clear();
  hasNews = false;
}

bool Block::reserveStacks(size_t count) {
  const Launch &launch = grid->launch;
  size_t deep = launch.recurses ? kRecursionBytes : 0;
  size_t bytes = kStackBytes + launch.localBytes + deep;
  if (!stacks.reserve(count, bytes)) {
    grid->stop({Finding::Misuse,
                launch.name + ": no memory for the stacks of threads", ""});
    return false;
  }
  for (size_t i = 0; i < threads.size(); ++i)
    threads[i].stackLimit = stacks.top(count == 1 ? 0 : i) - deep;
  return true;
}

void Block::startFibers() {
  if (!reserveStacks(threads.size()))
    return;
  for (size_t i = 0; i < threads.size(); ++i)
    threads[i].stackPointer = newFiber(stacks.top(i), threadEntry, &threads[i]);
}

void Block::threadEntry(void *argument) {
  auto &thread = *static_cast<Thread *>(argument);
  const Launch &launch = thread.block->launch();
  launch.code(&thread, launch.parameters.data());
  thread.block->exitThread(thread);
}

void Block::aloneEntry(void *argument) {
  auto &block = *static_cast<Block *>(argument);
  const Launch &launch = block.launch();
  size_t count = block.threads.size();
  for (size_t i = 0; i < count; ++i) {
    block.current = &block.threads[block.reversed ? count - 1 - i : i];
    launch.code(block.current, launch.parameters.data());
    block.checkCopies(*block.current);
  }
  block.live = 0;
  emulatorSwitch(&block.current->stackPointer, block.schedulerStack);
}

void Block::runAlone() {
  if (!reserveStacks(1))
    return;
  emulatorSwitch(&schedulerStack, newFiber(stacks.top(0), aloneEntry, this));
}

Block::Round Block::run() {
  uint64_t before = progress;
  bool ran = true, polled = false;
  if (grid->launch.blocks) {
    wakeActiveMasks();
    ran = runWarps();
    if (grid->stopped())
      return {};
    polled = wakePollers();
  } else {
    runAlone();
  }
  if (!live && earlyRead && !grid->stopped())
    grid->stop(findingOf(*earlyRead));
  return {progress != before || (ran && !polled), polled};
}

/// Runs each warp that can run, until it is stuck.
bool Block::runWarps() {
  if (grid->launch.seed)
    for (size_t i = warpOrder.size(); i > 1; --i)
      std::swap(warpOrder[i - 1], warpOrder[randomNumbers.next() % i]);
  bool any = false;
  for (uint32_t i : warpOrder) {
    if (!warps[i].ready || grid->stopped())
      continue;
    any = true;
    current = nextLane(warps[i], reversed ? 0 : 31);
    emulatorSwitch(&schedulerStack, current->stackPointer);
  }
  return any;
}

/// The next lane that can run in the order of lanes, after lane `after`.
Thread *Block::nextLane(const Warp &warp, unsigned after) const {
  uint32_t ready = warp.ready;
  if (reversed) {
    uint32_t below = ready & ((1u << after) - 1);
    return &warp.lanes[31 - __builtin_clz(below ? below : ready)];
  }
  uint32_t above = ready & ~((2u << after) - 1);
  return &warp.lanes[__builtin_ctz(above ? above : ready)];
}

void Block::yield(Thread &thread) {
  if (!thread.warp->ready)
    return emulatorSwitch(&thread.stackPointer, schedulerStack);
  current = nextLane(*thread.warp, thread.lane);
  if (current != &thread)
    emulatorSwitch(&thread.stackPointer, current->stackPointer);
}

void Block::suspend(Thread &thread, Wait why, int line) {
  thread.wait = why;
  thread.line = line;
  thread.warp->ready &= ~(1u << thread.lane);
  yield(thread);
}

void Block::wake(Thread &thread) {
  thread.wait = Wait::None;
  thread.warp->ready |= 1u << thread.lane;
  ++progress;
}

void Block::poll(Thread &thread, uint64_t address, int line) {
  if (++polls % 64)
    return;
  // The access itself is checked after this.
  uint64_t granule = address & ~uint64_t(7);
  if (inShared(address) || launch().memory->find(granule, 1)) {
    uint64_t value = __atomic_load_n(reinterpret_cast<uint64_t *>(granule),
                                     __ATOMIC_RELAXED);
    if (polled.size() >= kMaxPolled)
      polled.clear();
    auto [seen, isNew] = polled.try_emplace(granule, value);
    hasNews |= isNew || seen->second != value;
    seen->second = value;
  }
  suspend(thread, Wait::Spin, line);
}

void Block::checkTime(Thread &thread, int line) {
  if (grid->stopped()) // another thread's report stays
    report(Finding::Deadlock, thread, line, "stopped");
  if (grid->seconds() > grid->launch.timeLimit)
    report(Finding::Deadlock, thread, line,
           "endless loop: the launch takes longer than " +
               std::to_string(int(grid->launch.timeLimit)) + " s");
}

bool Block::wakePollers() {
  bool any = false;
  for (Thread &thread : threads)
    if (thread.wait == Wait::Spin) {
      thread.wait = Wait::None;
      thread.warp->ready |= 1u << thread.lane;
      any = true;
    }
  return any;
}

/// activemask: lanes that wait at one activemask instruction, when no lane of
/// their warp runs, are one group.
void Block::wakeActiveMasks() {
  for (Warp &warp : warps) {
    if (warp.ready)
      continue;
    int line = -1;
    uint32_t group = 0;
    for (unsigned lane : Lanes(warp.full & ~warp.exited)) {
      const Thread &thread = warp.lanes[lane];
      if (thread.wait == Wait::ActiveMask &&
          (line < 0 || thread.line == line)) {
        line = thread.line;
        group |= 1u << lane;
      }
    }
    for (unsigned lane : Lanes(group)) {
      warp.lanes[lane].out = group;
      wake(warp.lanes[lane]);
    }
  }
}

void Block::waitForLaunches(Thread &thread) {
  if (!anyWaited)
    grid->noteWait(!allowsNext);
  anyWaited = true;
  noteWait(thread);
}

void Block::checkCopies(Thread &thread) {
  if (grid->launch.checks.sync && !thread.open.empty())
    report(Finding::Misuse, thread, thread.open.front().line,
           "thread ends with a cp.async that belongs to no group");
  endStoresOfThread(*this, thread);
}

void Block::endThread(Thread &thread) {
  Warp &warp = *thread.warp;
  thread.wait = Wait::Exited;
  warp.exited |= 1u << thread.lane;
  warp.ready &= ~(1u << thread.lane);
  --live;
  ++progress;
  checkCopies(thread);
  if (thread.sync)
    endClock.joinPeers(thread.sync->own);
  tryAllOperations(warp);
  for (uint32_t id = 0; id < 16; ++id)
    if (barriers[id].arrived)
      tryBarrier(id);
  if (!live)
    checkEnd(thread);
  cluster->endThread(thread.hasArrived &&
                     thread.clusterPhase == cluster->phase());
}

void Block::exitThread(Thread &thread) {
  endThread(thread);
  yield(thread);
  __builtin_trap(); // no thread switches to a thread that has ended
}

void Block::startCounter() {
  const CountPlan *plan = grid->launch.countPlan;
  if (!plan)
    return counter.reset();
  if (!counter)
    counter = std::make_unique<BlockCounter>();
  counter->start(*plan, uint32_t(threads.size()));
  for (Thread &thread : threads)
    thread.executed = counter->countersOf(thread.index);
}

void Block::addCounts(LaunchCounts &to) {
  if (counter)
    counter->finish(to);
}

void Block::countBulk(uint64_t bytes, bool isMulticast) {
  if (counter)
    (isMulticast ? counter->multicastBytes : counter->bulkBytes) += bytes;
}

/// Counts an access; a generic address belongs to global, shared or local
/// memory.
void Block::countRequest(Thread &thread, uint32_t site, uint64_t address,
                         uint32_t bytes) {
  Requests &requests = counter->requests;
  if (requests.siteAt(site).isGeneric && bytes)
    site += inShared(address) ? 1 : stacks.contains(address) ? 2 : 0;
  requests.add(thread.index, site, address, bytes);
}

} // namespace cria::emulator
