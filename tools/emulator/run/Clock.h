/// The order of accesses ("happened before"), by fences and strong accesses.
///
/// A release is a fence and then a strong write (an atomic, `.volatile`,
/// `.relaxed`, or `.release`, which includes its fence). An acquire is a strong
/// read of what a release wrote and then a fence. Barriers order too; they are
/// simpler and are counted by epochs (Shadow.h).
///
/// A clock says which accesses happened before. Each block counts epochs; a
/// barrier and a fence begin a new one. An access is known by its warp and the
/// epoch in which it was made. In its own block, a thread knows `acquired` from
/// barriers, and for each warp the last epoch that it `heard` of. About other
/// blocks, it knows only a number: releases draw tickets in the order in which
/// they happen, and the thread has `seen` the releases up to some ticket. So a
/// thread that acquired one release counts as having acquired everything that
/// happened before it. This may hide a race between three blocks; it never
/// reports a false one.
///
/// Where real CUDA code is laxer than PTX's memory model, so is this class: an
/// atomic acquires without a fence; a barrier and a strong access count as the
/// fence of an acquire; the fences of all threads before a barrier belong to
/// the thread that releases after it.
///
/// Hardware that reads and writes shared memory on its own counts as further
/// warps ("agents"): the matrix products of a warpgroup, and the bulk copies
/// that complete at an mbarrier. A thread learns of a product when it waits for
/// the product, and of a copy when it waits for the phase of the mbarrier.
///
/// Agents see what threads wrote only after a proxy fence. So a clock also says
/// which accesses of threads came before a proxy fence.
///
/// A thread of a cluster has a clock for each of the other blocks, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cria::emulator {

constexpr unsigned kMaxWarps = 32; // of a block
constexpr unsigned kMaxWarpgroups = kMaxWarps / 4;
/// The agents: warps, the products of warpgroups, and copies. The copies of
/// several mbarriers may share one agent.
/// @{
constexpr unsigned kProductAgents = kMaxWarps;
constexpr unsigned kCopyAgents = kProductAgents + kMaxWarpgroups;
constexpr unsigned kAgents = 64;
/// Threads of other blocks of the cluster. Their accesses are noted as long as
/// a copy is pending, and no thread hears of them.
constexpr unsigned kPeerAgent = kAgents - 1;
/// @}

struct Clock {
  uint32_t acquired = 0;        ///< accesses in earlier epochs happened before
  uint32_t heard[kAgents] = {}; ///< so did those of an agent up to this epoch
  uint64_t seen = 0;            ///< so did what was released up to this ticket
  bool hasWaited = false;       ///< for the launches before
  /// `acquired` and `heard` as they were at proxy fences.
  /// @{
  uint32_t proxyAcquired = 0;
  uint32_t proxyHeard[kMaxWarps] = {};
  /// @}
  /// What is known of the other blocks of the cluster, by rank; empty: nothing.
  std::vector<Clock> peers;

  void join(const Clock &other) {
    joinOwn(other);
    joinPeers(other);
  }
  /// Without `peers`.
  void joinOwn(const Clock &other) {
    acquired = std::max(acquired, other.acquired);
    for (unsigned i = 0; i < kAgents; ++i)
      heard[i] = std::max(heard[i], other.heard[i]);
    seen = std::max(seen, other.seen);
    hasWaited |= other.hasWaited;
    joinProxy(other);
  }
  void joinPeers(const Clock &other) {
    peers.resize(std::max(peers.size(), other.peers.size()));
    for (size_t i = 0; i < other.peers.size(); ++i)
      peers[i].join(other.peers[i]);
  }
  void joinProxy(const Clock &other) {
    proxyAcquired = std::max(proxyAcquired, other.proxyAcquired);
    for (unsigned i = 0; i < kMaxWarps; ++i)
      proxyHeard[i] = std::max(proxyHeard[i], other.proxyHeard[i]);
  }
  /// Whether there was a proxy fence. A clock has then heard of its own warp at
  /// least.
  bool hasProxy() const {
    return *std::max_element(proxyHeard, proxyHeard + kMaxWarps) != 0;
  }
  /// Whether it heard of any agent, or of another block.
  bool hasHeard() const {
    return !peers.empty() || *std::max_element(heard, heard + kAgents) != 0;
  }
  /// The last epoch that it heard of from any warp.
  uint32_t heardOfAny() const {
    return *std::max_element(heard, heard + kMaxWarps);
  }
  /// What it says about block `rank` only; it belongs to a thread of `own`.
  Clock about(uint32_t rank, uint32_t own) const {
    Clock clock;
    if (rank == own)
      clock = *this;
    else if (rank < peers.size())
      clock = peers[rank];
    clock.peers.clear();
    clock.seen = seen;
    clock.hasWaited = hasWaited;
    return clock;
  }
  /// The same clock, of a thread of `own`, for threads of the block `rank`.
  Clock seenFrom(uint32_t rank, uint32_t own) const {
    if (rank == own)
      return *this;
    Clock clock = about(rank, own);
    clock.peers = peers;
    clock.peers.resize(std::max<size_t>(peers.size(), std::max(rank, own) + 1));
    clock.peers[own] = about(own, own);
    clock.peers[rank] = Clock();
    return clock;
  }
  /// Whether it knows the accesses of `warp` in `epoch`.
  bool knows(unsigned warp, uint32_t epoch) const {
    return epoch < acquired || epoch <= heard[warp];
  }
};

/// A thread that uses fences or strong accesses.
struct ThreadSync {
  Clock own;   ///< without `acquired`, which the thread itself has
  Clock read;  ///< of strong reads that no fence followed yet
  Clock fence; ///< what the last fence made ready to be released
  bool hasRead = false, hasFence = false;
  bool unshared = true;        ///< it may know more than lanes of its warp
  bool deviceWide = false;     ///< the fence is for other blocks too
  uint64_t ticket = 0;         ///< of its last release
  uint32_t ticketEpoch = 0;    ///< when it drew it
  uint64_t address = 0;        ///< of the last strong read; 0: used up
  bool isShared = false;       ///< the address
  bool acquiresAtOnce = false; ///< no fence needs to follow
};

} // namespace cria::emulator
