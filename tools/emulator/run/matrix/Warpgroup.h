/// Asynchronous matrix products of warpgroups: wgmma.
///
/// A product begins when the four warps of a warpgroup have issued it. It reads
/// shared memory and writes its accumulators at the latest legal moment, when a
/// warp waits for its group; with a seed it may do so when it begins. Meanwhile
/// the accumulator registers hold NaN, and their sums are in memory of the
/// thread's function.
///
/// The product's reads of shared memory are noted twice, when it begins and
/// when it ends, so that a write in between is a race with one of them.
#pragma once

#include "tools/emulator/run/Collective.h"
#include "tools/emulator/run/Thread.h"

#include <deque>

namespace cria::emulator {

class Block;

/// One wgmma.mma_async.
struct Product {
  ProductConfig config;
  uint64_t a = 0, b = 0; ///< descriptors
  bool addsToD = false;  ///< scale-d
  int line = 0;
  uint32_t wordsOfA[128][4] = {}; ///< if A is in registers, by thread
  uint32_t *sums[128] = {};       ///< of each thread, indexed by `places`
  const uint32_t *places = nullptr;
};

class Warpgroup {
public:
  /// The instructions, for all lanes of `warp`.
  /// @{
  void issue(Block &block, Warp &warp, int line);
  void commit(Warp &warp);
  /// Sets each lane's `out` to the number of products that must have ended.
  void beginWait(Warp &warp);
  void setRegisters(Block &block, Warp &warp, int line);
  /// @}
  /// The number, from 1, of the product that the thread's warp issues next.
  uint32_t serialOf(const Thread &thread) const {
    return uint32_t(issued[thread.warpIndex % 4]) + 1;
  }
  /// Waits until the first `count` products have ended.
  void wait(Block &block, Thread &thread, uint64_t count, int line);
  /// Checks a warp of a block whose threads have all ended.
  void checkEnd(Block &block, const Warp &warp) const;
  /// The registers that setmaxnreg gave a thread of each warp; 0: none did.
  uint32_t registersOf(uint32_t warpIndex) const {
    return registers[warpIndex % 4];
  }
  void reset() { *this = Warpgroup(); }

private:
  uint64_t begun() const;
  void check(Block &block, const Product &product, Thread &thread, int line);
  void begin(Block &block, const Product &product, uint64_t number, Warp &last);
  void end(Block &block, Thread &thread, uint64_t count);

  std::deque<Product> products; ///< that have not ended
  uint64_t issued[4] = {};      ///< by warp
  uint64_t waited[4] = {};
  std::deque<uint64_t> groups[4]; ///< products up to the end of each
  uint64_t ended = 0;
  std::vector<uint32_t> epochs; ///< in which each product ended
  uint32_t registers[4] = {};
  std::vector<int> changes[4]; ///< PTX lines of setmaxnreg, by warp
};

} // namespace cria::emulator
