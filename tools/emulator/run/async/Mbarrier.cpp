#include "tools/emulator/run/async/Mbarrier.h"

#include "tools/emulator/run/Block.h"

#include <cstring>

namespace cria::emulator {

/// The mbarrier of an instruction. Its mbarrier.init must be ordered before the
/// instruction.
Mbarrier &Mbarriers::find(const MbarrierAccess &access, const char *what) {
  Shadow::Access note{0, 8, Shadow::Kind::Atomic, access.line, true};
  block.checkShared(access.thread, access.address, 8, note, what);
  auto found = all.find(access.address);
  if (found == all.end())
    block.report(Finding::Misuse, access.thread, access.line,
                 std::string(what) + ": there is no mbarrier at offset " +
                     block.offsetOf(access.address));
  uint64_t value;
  std::memcpy(&value, reinterpret_cast<void *>(access.address), 8);
  if (value != Mbarrier::kMagic)
    block.report(Finding::Misuse, access.thread, access.line,
                 std::string(what) + ": the mbarrier at offset " +
                     block.offsetOf(access.address) + " was overwritten");
  return found->second;
}

void Mbarriers::init(const MbarrierAccess &access, uint32_t count) {
  if (count < 1 || count > Mbarrier::kMostArrivals)
    block.report(Finding::Misuse, access.thread, access.line,
                 "mbarrier for " + std::to_string(count) +
                     " arrivals, expected 1 to " +
                     std::to_string(Mbarrier::kMostArrivals));
  block.checkShared(access.thread, access.address, 8,
                    {0, 8, Shadow::Kind::Write, access.line}, "mbarrier.init");
  auto [made, isNew] = all.try_emplace(access.address);
  if (!isNew)
    block.report(Finding::Misuse, access.thread, access.line,
                 "mbarrier.init of an mbarrier that is in use",
                 "  it was initialized at " + block.placeOf(made->second.line) +
                     "\n");
  Mbarrier &barrier = made->second;
  barrier.count = barrier.pending = count;
  barrier.agent = kCopyAgents + agents++ % (kPeerAgent - kCopyAgents);
  barrier.maker = access.thread.index;
  barrier.line = access.line;
  std::memcpy(reinterpret_cast<void *>(access.address), &Mbarrier::kMagic, 8);
}

void Mbarriers::invalidate(const MbarrierAccess &access) {
  Mbarrier &barrier = find(access, "mbarrier.inval");
  if (!barrier.loads.empty())
    block.report(Finding::Misuse, access.thread, access.line,
                 "mbarrier.inval while a copy is to complete there",
                 "  the copy is at " +
                     block.placeOf(barrier.loads.front().line) + "\n");
  std::memset(reinterpret_cast<void *>(access.address), 0xFF, 8);
  all.erase(access.address);
}

/// Ends the phase if nothing is missing, and wakes threads that wait for it.
void Mbarriers::tryEndPhase(uint64_t address, Mbarrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.released.join(barrier.gathered);
  barrier.gathered = Clock();
  block.wakeWaiters(address);
}

void Mbarriers::countBytes(Mbarrier &barrier, const MbarrierAccess &access,
                           int64_t bytes) {
  barrier.bytes += bytes;
  if (std::abs(barrier.bytes) > Mbarrier::kMostBytes)
    block.report(Finding::Misuse, access.thread, access.line,
                 "an mbarrier that waits for " + std::to_string(barrier.bytes) +
                     " bytes, expected at most " +
                     std::to_string(Mbarrier::kMostBytes));
}

uint64_t Mbarriers::arrive(const MbarrierAccess &access,
                           const MbarrierArrival &arrival) {
  Mbarrier &barrier = find(access, "mbarrier.arrive");
  countBytes(barrier, access, arrival.bytes);
  if (arrival.count < 1 || arrival.count > barrier.pending)
    block.report(Finding::Misuse, access.thread, access.line,
                 std::to_string(arrival.count) +
                     " arrivals at an mbarrier whose phase needs " +
                     std::to_string(barrier.pending) + " more",
                 describe(access.address));
  Block &from = *access.thread.block;
  bool isOwn = &from == &block;
  Clock clock = isOwn ? from.releasedBy(access.thread)
                      : from.releasedToCluster(access.thread);
  if (!arrival.isRelaxed)
    barrier.gathered.join(from.seenFrom(block, clock));
  if (!isOwn)
    block.expectArrival(access.thread, clock.heard[access.thread.warpIndex],
                        access.line);
  uint64_t state = barrier.phase;
  barrier.pending -= arrival.count;
  if (arrival.drops)
    barrier.count -= arrival.count;
  if (arrival.noComplete && !barrier.pending && !barrier.bytes)
    block.report(Finding::Misuse, access.thread, access.line,
                 "mbarrier.arrive.noComplete ends a phase");
  tryEndPhase(access.address, barrier);
  return state;
}

void Mbarriers::expect(const MbarrierAccess &access, uint32_t bytes) {
  Mbarrier &barrier = find(access, "mbarrier.expect_tx");
  countBytes(barrier, access, bytes);
  tryEndPhase(access.address, barrier);
}

void Mbarriers::complete(const MbarrierAccess &access, uint32_t bytes) {
  Mbarrier &barrier = find(access, "mbarrier.complete_tx");
  countBytes(barrier, access, -int64_t(bytes));
  tryEndPhase(access.address, barrier);
}

/// Whether a wait ends before the phase does. With a seed, all waits for some
/// phases give up, not those of some threads: a thread that waited for the
/// phase would tell the other lanes of its warp.
bool Mbarriers::mayGiveUp(uint64_t address, const Mbarrier &barrier) const {
  uint64_t seed = block.launch().seed;
  uint64_t place = address % kArena << 32;
  return seed && Random(seed ^ place ^ barrier.phase).next() & 1;
}

bool Mbarriers::wait(const MbarrierAccess &access, const MbarrierWait &wait) {
  const char *what = wait.mayBlock ? "mbarrier.try_wait" : "mbarrier.test_wait";
  Thread &thread = access.thread;
  Mbarrier *barrier = &find(access, what);
  if (!wait.isParity &&
      (wait.phase > barrier->phase || wait.phase + 1 < barrier->phase))
    block.report(Finding::Misuse, thread, access.line,
                 std::string(what) + " for a state of another phase",
                 describe(access.address));
  auto hasEnded = [&] {
    return wait.isParity ? (barrier->phase & 1) != (wait.phase & 1)
                         : wait.phase < barrier->phase;
  };
  if (!hasEnded()) {
    bool gaveUp = !wait.mayBlock || mayGiveUp(access.address, *barrier);
    thread.mbarrier = access.address;
    barrier->isPolled |= gaveUp;
    block.suspend(thread, gaveUp ? Wait::Spin : Wait::Mbarrier, access.line);
    thread.mbarrier = 0;
    if (gaveUp)
      return false;
    barrier = &find(access, what);
  }
  if (!wait.isRelaxed)
    block.acquire(thread, barrier->released);
  return true;
}

void Mbarriers::fence(const Thread &thread, bool ownAlone) {
  for (auto &[address, barrier] : all)
    barrier.isFenced |= !ownAlone || barrier.maker == thread.index;
}

void Mbarriers::load(const MbarrierAccess &access, BulkLoad load) {
  Mbarrier &barrier = find(access, "mbarrier of cp.async.bulk");
  if (block.launch().checks.race && !barrier.isFenced)
    block.report(Finding::Race, access.thread, access.line,
                 "race: missing fence.mbarrier_init or fence.proxy.async: the "
                 "async proxy uses an mbarrier",
                 "  it was initialized at " + block.placeOf(barrier.line) +
                     "\n");
  checkTarget(block, access.thread, load);
  barrier.loads.push_back(std::move(load));
  if (block.launch().seed && block.random().next() & 1)
    makeLoads(access.address, barrier);
}

void Mbarriers::makeLoads(uint64_t address, Mbarrier &barrier) {
  std::vector<BulkLoad> loads = std::exchange(barrier.loads, {});
  for (const BulkLoad &load : loads) {
    makeLoad(block, load, barrier.agent);
    barrier.bytes -= load.box.bytes();
  }
  barrier.gathered.heard[barrier.agent] = block.newEpoch();
  tryEndPhase(address, barrier);
}

bool Mbarriers::makeLoads() {
  bool any = false;
  for (auto &[address, barrier] : all) {
    bool isWanted = barrier.isPolled || block.hasWaiters(address);
    barrier.isPolled = false;
    if (!isWanted || barrier.loads.empty())
      continue;
    makeLoads(address, barrier);
    any = true;
  }
  return any;
}

const BulkLoad *Mbarriers::leftOver() const {
  for (auto &[address, barrier] : all)
    if (!barrier.loads.empty())
      return &barrier.loads.front();
  return nullptr;
}

std::string Mbarriers::describe(uint64_t address) const {
  auto found = all.find(address);
  if (found == all.end())
    return "";
  const Mbarrier &barrier = found->second;
  return "  the mbarrier at offset " + block.offsetOf(address) + " has ended " +
         std::to_string(barrier.phase) + " phases and waits for " +
         std::to_string(barrier.pending) + " of " +
         std::to_string(barrier.count) + " arrivals and " +
         std::to_string(barrier.bytes) + " bytes\n";
}

} // namespace cria::emulator
