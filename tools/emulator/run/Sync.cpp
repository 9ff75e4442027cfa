// Fences, and accesses that other threads may make at the same time: what a
// thread learns from them. Clock.h has the rules.
#include "tools/emulator/run/Block.h"

#include <algorithm>

namespace cria::emulator {

ThreadSync &Block::syncOf(Thread &thread) {
  if (!thread.sync) {
    auto &sync = syncs[thread.index];
    if (sync)
      *sync = ThreadSync();
    else
      sync = std::make_unique<ThreadSync>();
    thread.sync = sync.get();
    synchronizes = true;
  }
  return *thread.sync;
}

void Block::learn(Thread &thread, const Clock &clock) {
  thread.acquired = std::max(thread.acquired, clock.acquired);
  thread.seen = std::max(thread.seen, clock.seen);
  if (clock.hasWaited)
    noteWait(thread);
  thread.sync->own.join(clock);
  thread.sync->unshared = true;
}

/// Looks up what was released at the address of the thread's last strong read,
/// which has happened by now. With `acquires`, all strong reads count as
/// acquired.
void Block::lookUp(Thread &thread, bool acquires) {
  ThreadSync &sync = *thread.sync;
  if (sync.address) {
    Clock found;
    auto here = released.find(sync.address);
    if (here != released.end())
      found = here->second;
    if (!sync.isShared && grid->races)
      found.seen = std::max(found.seen, grid->races->ticketAt(sync.address));
    sync.address = 0;
    if (acquires || sync.acquiresAtOnce) {
      learn(thread, found);
    } else {
      sync.read.join(found);
      sync.hasRead = true;
    }
  }
  if (acquires && sync.hasRead) {
    learn(thread, sync.read);
    sync.read = Clock();
    sync.hasRead = false;
  }
}

void Block::fence(Thread &thread, bool deviceWide) {
  if (!launch().checks.race && !launch().checks.global)
    return;
  ThreadSync &sync = syncOf(thread);
  lookUp(thread, true);
  Clock now = sync.own;
  now.acquired = thread.acquired;
  now.seen = thread.seen;
  now.hasWaited = hasWaited(thread);
  now.heard[thread.warpIndex] = shadow.now();
  sync.fence.join(now);
  sync.hasFence = sync.unshared = true;
  sync.deviceWide |= deviceWide;
  shadow.advance();
  *thread.segment = kNoSegment; // the next access begins a new segment
}

/// A strong write to `address` releases what earlier fences made ready.
void Block::release(Thread &thread, uint64_t address, bool isShared,
                    bool inBlock) {
  bool hasFence = thread.sync && thread.sync->hasFence;
  if (!hasFence && !hasBarrierFence)
    return;
  ThreadSync &sync = syncOf(thread);
  Clock clock = sync.fence;
  if (hasBarrierFence)
    clock.join(barrierFence);
  released[address].join(clock);
  bool deviceWide = (hasFence && sync.deviceWide) || barrierDeviceWide;
  if (isShared || inBlock || !deviceWide || !grid->races)
    return;
  if (!sync.ticket || sync.ticketEpoch != shadow.now())
    sync.ticket = grid->races->draw(number, clock);
  sync.ticketEpoch = shadow.now();
  grid->races->release(address, sync.ticket);
}

void Block::synchronize(Thread &thread, uint64_t address,
                        const AccessFlags &flags, bool isShared) {
  if (!launch().checks.race && !launch().checks.global)
    return;
  // Polling without a change acquires nothing.
  if (thread.sync)
    lookUp(thread, flags.isAtomic || address != thread.sync->address);
  if (flags.releases)
    fence(thread, !flags.inBlock);
  if (flags.isStore)
    release(thread, address, isShared, flags.inBlock);
  if (flags.isStore && !flags.isAtomic)
    return;
  ThreadSync &sync = syncOf(thread);
  sync.address = address;
  sync.isShared = isShared;
  sync.acquiresAtOnce = flags.isAtomic || flags.acquires;
}

/// Lanes of a warp that execute an operation together share what each of them
/// knew.
void Block::shareClocks(Warp &warp, uint32_t lanes) {
  uint32_t acquired = 0;
  uint64_t seen = 0;
  bool unshared = lanes & ~warp.sharing;
  for (unsigned lane : Lanes(lanes)) {
    Thread &thread = warp.lanes[lane];
    if (thread.sync) {
      lookUp(thread, true);
      unshared |= std::exchange(thread.sync->unshared, false);
    }
    acquired = std::max(acquired, thread.acquired);
    seen = std::max(seen, thread.seen);
  }
  for (unsigned lane : Lanes(lanes)) {
    warp.lanes[lane].acquired = acquired;
    warp.lanes[lane].seen = seen;
  }
  if (!unshared)
    return;
  warp.sharing = lanes;
  Clock all, fences;
  bool anyFence = false, deviceWide = false;
  for (unsigned lane : Lanes(lanes)) {
    Thread &thread = warp.lanes[lane];
    if (!thread.sync)
      continue;
    all.join(thread.sync->own);
    if (thread.sync->hasFence) {
      anyFence = true;
      deviceWide |= thread.sync->deviceWide;
      fences.join(thread.sync->fence);
    }
  }
  bool heard = all.hasHeard();
  for (unsigned lane : Lanes(lanes)) {
    Thread &thread = warp.lanes[lane];
    if (heard || anyFence)
      syncOf(thread);
    if (anyFence) {
      thread.sync->fence.join(fences);
      thread.sync->hasFence = true;
      thread.sync->deviceWide |= deviceWide;
    }
    if (thread.sync)
      thread.sync->own.join(all);
  }
}

Clock Block::releasedBy(Thread &thread) {
  ThreadSync &sync = syncOf(thread);
  lookUp(thread, true);
  Clock now = sync.own;
  now.acquired = thread.acquired;
  now.seen = thread.seen;
  now.hasWaited = hasWaited(thread);
  now.heard[thread.warpIndex] = newEpoch();
  *thread.segment = kNoSegment;
  return now;
}

Clock Block::releasedToCluster(Thread &thread) {
  Clock now = releasedBy(thread);
  now.seen = releaseToGrid(now.about(rank, rank));
  return now;
}

uint64_t Block::releaseToGrid(const Clock &clock) {
  return grid->races ? grid->races->draw(number, clock) : clock.seen;
}

void Block::acquire(Thread &thread, const Clock &clock) {
  syncOf(thread);
  learn(thread, clock);
  *thread.segment = kNoSegment;
}

void Block::acquireAgent(Thread &thread, unsigned agent, uint32_t epoch) {
  uint32_t &heard = syncOf(thread).own.heard[agent];
  heard = std::max(heard, epoch);
  thread.sync->unshared = true;
}

void Block::fenceProxy(Thread &thread) {
  ThreadSync &sync = syncOf(thread);
  lookUp(thread, true);
  Clock &own = sync.own;
  own.proxyAcquired = thread.acquired;
  for (unsigned i = 0; i < kMaxWarps; ++i)
    own.proxyHeard[i] = std::max(own.proxyHeard[i], own.heard[i]);
  own.proxyHeard[thread.warpIndex] = newEpoch();
  sync.unshared = true;
}

/// Threads that leave a barrier together share what each of them knew. Returns
/// the releases of other blocks that they have seen.
uint64_t Block::passBarrier(uint32_t id) {
  uint64_t seen = 0;
  Clock proxies; // and other blocks of the cluster
  for (Thread &thread : threads) {
    if (thread.wait != Wait::Barrier || thread.barrier != id)
      continue;
    if (thread.sync) {
      lookUp(thread, true);
      proxies.joinProxy(thread.sync->own);
      proxies.joinPeers(thread.sync->own);
      if (thread.sync->hasFence) {
        barrierFence.join(thread.sync->fence);
        hasBarrierFence = true;
        barrierDeviceWide |= thread.sync->deviceWide;
      }
    }
    seen = std::max(seen, thread.seen);
  }
  if (proxies.hasProxy() || !proxies.peers.empty())
    for (Thread &thread : threads)
      if (thread.wait == Wait::Barrier && thread.barrier == id) {
        syncOf(thread).own.joinProxy(proxies);
        thread.sync->own.joinPeers(proxies);
        thread.sync->unshared = true;
      }
  return seen;
}

} // namespace cria::emulator
