// Barriers of a block: 16 of them, for all threads or for some.
#include "tools/emulator/run/Block.h"

#include <algorithm>

namespace cria::emulator {

uint32_t Block::barrier(Thread &thread, BarrierConfig config, uint32_t id,
                        uint32_t count, bool predicate, int line) {
  if (id > 15)
    report(Finding::Misuse, thread, line,
           "barrier " + std::to_string(id) + ", expected 0 to 15");
  if (count % 32)
    report(Finding::Misuse, thread, line,
           "barrier for " + std::to_string(count) +
               " threads, expected a multiple of 32");
  Barrier &barrier = barriers[id];
  barrier.needed = count;
  ++barrier.arrived;
  ++barrier.voters;
  barrier.votes += predicate;
  thread.barrier = id;
  thread.config = config.packed();
  thread.line = line;
  if (config.op == BarrierOp::Arrive) {
    tryBarrier(id);
    return 0;
  }
  thread.wait = Wait::Barrier;
  thread.warp->ready &= ~(1u << thread.lane);
  if (!tryBarrier(id))
    yield(thread);
  return uint32_t(thread.out);
}

/// Releases all threads if enough have arrived. If all threads are needed,
/// threads that have ended do not count.
bool Block::tryBarrier(uint32_t id) {
  const Barrier &barrier = barriers[id];
  uint64_t needed = barrier.needed ? barrier.needed : live;
  if (barrier.arrived < needed)
    return false;
  releaseBarrier(id);
  return true;
}

void Block::releaseBarrier(uint32_t id) {
  for (const Warp &warp : warps)
    if (launch().checks.sync)
      checkArrival(warp, id);
  if (earlyRead && earlyRead->thread->wait == Wait::Barrier &&
      earlyRead->thread->barrier == id)
    report(Finding::Uninitialized, *earlyRead->thread, earlyRead->line,
           earlyRead->what);
  if (counter)
    joinAtBarrier(id);
  auto leaves = [&](const Thread &thread) {
    return thread.wait == Wait::Barrier && thread.barrier == id;
  };
  bool waited =
      std::any_of(threads.begin(), threads.end(), [&](const Thread &thread) {
        return leaves(thread) && hasWaited(thread);
      });
  uint64_t seen = synchronizes ? passBarrier(id) : 0;
  uint32_t epoch = shadow.advance(), left = 0;
  for (Thread &thread : threads) {
    if (!leaves(thread))
      continue;
    ++left;
    if (waited)
      noteWait(thread);
    thread.out = barrierResult(thread, barriers[id]);
    thread.acquired = epoch;
    thread.seen = std::max(thread.seen, seen);
    *thread.segment = kNoSegment;
    wake(thread);
  }
  if (left == live)
    shadow.shareEpoch();
  barriers[id] = Barrier();
}

/// Warps whose lanes all wait here are in step.
void Block::joinAtBarrier(uint32_t id) {
  for (const Warp &warp : warps) {
    uint32_t waiting = 0;
    for (unsigned lane : Lanes(warp.full)) {
      const Thread &thread = warp.lanes[lane];
      bool waits = thread.wait == Wait::Barrier && thread.barrier == id;
      waiting |= uint32_t(waits) << lane;
    }
    if ((waiting | warp.exited) == warp.full)
      counter->requests.join(warp.lanes->warpIndex);
  }
}

uint32_t Block::barrierResult(const Thread &thread, const Barrier &barrier) {
  switch (BarrierConfig::unpacked(thread.config).op) {
  case BarrierOp::Count:
    return barrier.votes;
  case BarrierOp::And:
    return barrier.votes == barrier.voters;
  case BarrierOp::Or:
    return barrier.votes != 0;
  default:
    return 0;
  }
}

/// Checks that the lanes of a warp come to an aligned barrier together: all of
/// them, at one instruction.
void Block::checkArrival(const Warp &warp, uint32_t id) {
  const Thread *first = nullptr;
  uint32_t arrived = 0;
  for (unsigned lane : Lanes(warp.full)) {
    const Thread &thread = warp.lanes[lane];
    if (thread.wait != Wait::Barrier || thread.barrier != id)
      continue;
    arrived |= 1u << lane;
    bool aligned = BarrierConfig::unpacked(thread.config).aligned;
    if (first && aligned && thread.line != first->line)
      report(Finding::DivergentBarrier, thread, thread.line,
             "divergent barrier: lanes of one warp wait at different "
             "instructions",
             "  lane " + std::to_string(first->lane) + " waits at " +
                 placeOf(first->line) + "\n");
    if (!first && aligned)
      first = &thread;
  }
  if (!first || arrived == warp.full)
    return;
  bool ended = warp.exited & ~arrived;
  report(Finding::DivergentBarrier, *first, first->line,
         ended ? "divergent barrier: lanes of the warp have ended"
               : "divergent barrier: lanes of the warp did not arrive");
}

} // namespace cria::emulator
