#include "tools/emulator/run/Cluster.h"

#include "tools/emulator/run/Block.h"

#include <algorithm>

namespace cria::emulator {
namespace {

/// Rounds of polling without progress before other clusters run.
constexpr int kPollRounds = 64;

} // namespace

Cluster::Cluster(Grid &grid, Dim index, uint64_t number, Blocks newBlocks)
    : grid(grid), blocks(std::move(newBlocks)), gathered(blocks.size()),
      known(blocks.size()) {
  const Dim &size = grid.launch.cluster;
  for (uint32_t rank = 0; rank < blocks.size(); ++rank) {
    Dim in = {rank % size.x, rank / size.x % size.y, rank / size.x / size.y};
    uint64_t seed = grid.launch.seed ^ ((number * size.total() + rank) << 20);
    blocks[rank]->start(grid, *this, index, in, rank, seed);
  }
}

Cluster::~Cluster() = default;

bool Cluster::anyLive() const {
  return std::any_of(blocks.begin(), blocks.end(),
                     [](auto &block) { return !block->hasEnded(); });
}

/// Makes copies when no thread of the cluster can go on.
bool Cluster::makeLoads() {
  bool any = false;
  for (auto &block : blocks)
    any |= block->mbarriers().makeLoads();
  return any;
}

Cluster::State Cluster::run() {
  for (int idle = 0; anyLive() && !grid.stopped();) {
    bool moved = false, polls = false;
    for (auto &block : blocks) {
      if (block->hasEnded() || grid.stopped())
        continue;
      Block::Round round = block->run();
      moved |= round.moved;
      polls |= round.polls;
    }
    if (grid.stopped())
      break;
    if (moved || makeLoads())
      idle = 0;
    else if (!polls)
      reportDeadlock();
    else if (++idle > kPollRounds)
      return State::Spinning;
  }
  return State::Ended;
}

void Cluster::reportDeadlock() {
  for (auto &block : blocks)
    if (!block->hasEnded())
      return block->reportDeadlock();
}

bool Cluster::sawNews() {
  bool any = false;
  for (auto &block : blocks)
    any |= block->sawNews();
  return any;
}

void Cluster::addCounts(LaunchCounts &to) {
  for (auto &block : blocks)
    block->addCounts(to);
}

Block *Cluster::ownerOf(uint64_t address) {
  for (auto &block : blocks)
    if (block->inShared(address))
      return block.get();
  return nullptr;
}

void Cluster::arrive(uint32_t rank, const Clock &clock) {
  gathered[rank].joinOwn(clock);
  for (uint32_t i = 0; i < clock.peers.size(); ++i)
    gathered[i].joinOwn(clock.peers[i]);
  ++arrived;
  tryBarrier();
}

/// Ends the barrier's phase if all threads have arrived, except ended ones.
void Cluster::tryBarrier() {
  if (!arrived)
    return;
  uint64_t live = 0;
  for (auto &block : blocks)
    live += block->liveThreads();
  if (arrived < live)
    return;
  arrived = 0;
  ++phases;
  uint64_t seen = 0;
  bool hasWaited = false;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    seen = std::max(seen, blocks[rank]->releaseToGrid(gathered[rank]));
    hasWaited |= gathered[rank].hasWaited;
  }
  for (uint32_t rank = 0; rank < size(); ++rank) {
    gathered[rank].seen = seen;
    gathered[rank].hasWaited = hasWaited;
    known[rank] = gathered[rank];
    known[rank].peers = gathered;
    known[rank].peers[rank] = Clock();
  }
  for (auto &block : blocks)
    block->wakeAll(Wait::Cluster);
}

void Cluster::endThread(bool hadArrived) {
  arrived -= hadArrived;
  tryBarrier();
}

//===----------------------------------------------------------------------===//
// Operations of a block's threads in their cluster
//===----------------------------------------------------------------------===//

void Block::clusterBarrier(Thread &thread, ClusterBarrierConfig config,
                           int line) {
  if (config.aligned) {
    thread.op = WarpOp::ClusterBarrier;
    thread.config = config.packed();
    thread.mask = ~0u;
    thread.matchLine = line;
    rendezvous(thread, line);
  }
  if (config.waits != thread.hasArrived)
    report(Finding::Misuse, thread, line,
           config.waits ? "barrier.cluster.wait without an arrival"
                        : "barrier.cluster.arrive by a thread that has yet to "
                          "wait for its last arrival");
  if (!config.waits) {
    thread.hasArrived = true;
    thread.clusterPhase = cluster->phase();
    Clock clock = releasedBy(thread);
    return cluster->arrive(rank, config.isRelaxed ? thread.sync->fence : clock);
  }
  if (thread.clusterPhase == cluster->phase())
    suspend(thread, Wait::Cluster, line);
  thread.hasArrived = false;
  acquire(thread, cluster->released(rank));
}

/// An address in another block's shared memory has that block's rank, from 1
/// on, above these bits.
static constexpr unsigned kRankShift = 24;
static_assert(kArena <= 1 << kRankShift);

uint64_t Block::addressOfPeer(Thread &thread, uint64_t address, uint32_t to,
                              int line) {
  if (to >= cluster->size())
    report(Finding::Misuse, thread, line,
           "block " + std::to_string(to) + " of a cluster of " +
               std::to_string(cluster->size()));
  uint64_t offset = address & ((1 << kRankShift) - 1);
  return to == rank ? offset : uint64_t(to + 1) << kRankShift | offset;
}

uint64_t Block::clusterAddress(Thread &thread, uint64_t address, int line) {
  uint64_t to = address >> kRankShift;
  if (to > cluster->size())
    report(Finding::OutOfBounds, thread, line,
           "out of bounds: an address beyond the shared memory of the cluster");
  uint64_t offset = address & ((1 << kRankShift) - 1);
  Block &block = to ? cluster->block(to - 1) : *this;
  return uint64_t(block.arena) + offset;
}

Block &Block::ownerOf(Thread &thread, uint64_t address, int line,
                      const char *what) {
  Block *owner = cluster->ownerOf(address);
  if (!owner)
    return *this; // this block, where the access is out of bounds
  if (owner->hasEnded())
    report(Finding::Race, thread, line,
           std::string("race: ") + what + ": " + blockName(owner->index) +
               " of the cluster has ended");
  return *owner;
}

uint64_t Block::inPeer(uint64_t address, uint32_t to) {
  return uint64_t(cluster->block(to).arena) + address % kArena;
}

} // namespace cria::emulator
