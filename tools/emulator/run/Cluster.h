/// Blocks of a cluster, on one core. They run by turns, access each other's
/// shared memory, and end before the next cluster begins on the core. A block
/// of a launch without clusters is a cluster of its own.
///
/// A thread knows what happened in the other blocks as it does in its own: by a
/// clock for each block (Clock.h). It learns by barriers of the cluster and by
/// arrivals at mbarriers of other blocks.
#pragma once

#include "tools/emulator/run/Clock.h"
#include "tools/emulator/run/Launch.h"

#include <memory>
#include <vector>

namespace cria::emulator {

class Block;
class Grid;

class Cluster {
public:
  enum class State {
    Ended,
    Spinning ///< its threads poll memory that others must write
  };
  using Blocks = std::vector<std::unique_ptr<Block>>;

  /// Becomes the cluster at `index` of a grid of clusters; it is the
  /// `number`-th to begin.
  Cluster(Grid &grid, Dim index, uint64_t number, Blocks blocks);
  ~Cluster();

  State run();
  /// Stops the launch with the state of every warp.
  void reportDeadlock();
  /// Whether a polled value has changed since the last call.
  bool sawNews();
  void addCounts(LaunchCounts &to);
  Blocks takeBlocks() { return std::move(blocks); }

  size_t size() const { return blocks.size(); }
  Block &block(size_t rank) { return *blocks[rank]; }
  /// The block whose shared memory contains a host address; null: none.
  Block *ownerOf(uint64_t address);

  /// The barrier of all threads.
  /// @{
  /// A thread of the block `rank` that knows `clock` arrives.
  void arrive(uint32_t rank, const Clock &clock);
  uint64_t phase() const { return phases; }
  /// What the threads that passed the barrier know, for block `rank`.
  const Clock &released(uint32_t rank) const { return known[rank]; }
  /// A thread has ended; it may have arrived.
  void endThread(bool hadArrived);
  /// @}

private:
  bool anyLive() const;
  bool makeLoads();
  void tryBarrier();

  Grid &grid;
  Blocks blocks;               ///< by rank
  uint64_t arrived = 0;        ///< of threads that have not ended
  uint64_t phases = 0;         ///< that have ended
  std::vector<Clock> gathered; ///< of those that arrived, by rank
  std::vector<Clock> known;    ///< by threads that the last phase let pass
};

} // namespace cria::emulator
