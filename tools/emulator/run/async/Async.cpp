// Operations of a block on its mbarriers and warpgroups.
#include "tools/emulator/run/Block.h"

#include <algorithm>

namespace cria::emulator {

void Block::wakeWaiters(uint64_t mbarrier) {
  for (Thread &thread : threads)
    if (thread.wait == Wait::Mbarrier && thread.mbarrier == mbarrier)
      wake(thread);
}

bool Block::hasWaiters(uint64_t mbarrier) const {
  return std::any_of(threads.begin(), threads.end(), [&](const Thread &thread) {
    return thread.wait == Wait::Mbarrier && thread.mbarrier == mbarrier;
  });
}

void Block::wakeAll(Wait reason) {
  for (Thread &thread : threads)
    if (thread.wait == reason)
      wake(thread);
}

void Block::wakeWarpgroup(uint32_t index) {
  for (size_t i = index * 128; i < threads.size() && i < (index + 1) * 128; ++i)
    if (threads[i].wait == Wait::Warpgroup)
      wake(threads[i]);
}

void Block::checkWarpgroup(const Thread &thread, int line, const char *what) {
  if (threads.size() < (thread.warpIndex / 4 + 1) * 128)
    report(Finding::Misuse, thread, line,
           std::string(what) + " in a warpgroup of fewer than 128 threads");
  if (thread.warp->exited)
    report(Finding::DivergentWarp, thread, line,
           std::string(what) + " in a warp of which threads have ended");
}

uint64_t Block::registersWanted() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < warps.size(); ++i) {
    uint32_t each = warpgroups[i / 4].registersOf(i);
    if (!each)
      return 0;
    sum += each * 32;
  }
  return sum;
}

void Block::expectArrival(const Thread &thread, uint32_t epoch, int line) {
  uint32_t from = thread.clusterRank;
  auto found =
      std::find_if(arrivals.begin(), arrivals.end(), [&](const Arrival &other) {
        return other.rank == from && other.warp == thread.warpIndex;
      });
  if (found == arrivals.end())
    found = arrivals.insert(found, {from, thread.warpIndex, 0, 0});
  found->epoch = epoch;
  found->line = line;
}

/// Arrivals of other blocks must be ordered before the end of a thread.
void Block::checkArrivals(Thread &last) {
  for (const Arrival &arrival : arrivals)
    if (endClock.peers.size() <= arrival.rank ||
        !endClock.peers[arrival.rank].knows(arrival.warp, arrival.epoch))
      report(Finding::Race, last, arrival.line,
             "race: the block may end before another block of its cluster "
             "arrives at its mbarrier");
}

/// Checks for leftovers when all threads have ended.
void Block::checkEnd(Thread &last) {
  if (!grid->launch.checks.sync)
    return;
  checkArrivals(last);
  for (const Warp &warp : warps)
    warpgroups[warp.lanes->warpIndex / 4].checkEnd(*this, warp);
  if (const BulkLoad *load = mbarrierObjects.leftOver())
    report(Finding::Misuse, last, load->line,
           "block ends with a cp.async.bulk that nobody has waited for");
}

} // namespace cria::emulator
