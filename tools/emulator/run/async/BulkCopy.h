/// cp.async.bulk and cp.async.bulk.tensor: copies of rows between global memory
/// and shared memory, by the async proxy.
#pragma once

#include "tools/emulator/run/async/TensorMap.h"

#include <cstdint>
#include <vector>

namespace cria::emulator {

class Block;
struct Thread;

/// A box of a tensor that fits in shared memory. Contiguous bytes are a box of
/// one row.
struct BulkBox {
  TensorMap map;
  int32_t coordinates[5] = {};
  bool isTensor = false;

  uint32_t bytes() const { return uint32_t(map.boxBytes()); }
};

/// A copy from global to shared memory, at a host address. A multicast is one
/// copy for each block that receives it.
struct BulkLoad {
  BulkBox box;
  uint64_t target = 0;
  int line = 0;
  Thread *issuer = nullptr;
  bool isMulticast = false; ///< another block's load counts as the read
};

/// Shared to global memory. Its group ends in two steps: shared memory has been
/// read, and global memory is written.
struct BulkStore {
  BulkBox box;
  uint64_t source = 0;
  int line = 0;
  std::vector<char> seen; ///< shared memory when the copy was issued
  std::vector<char> read; ///< empty: not yet
};

/// Checks a copy that `thread` issues: alignment, bounds and races of what it
/// reads, and of what it writes in `block`.
void checkSource(Thread &thread, const BulkLoad &load);
void checkTarget(Block &block, Thread &thread, const BulkLoad &load);
/// Makes the copy.
void makeLoad(Block &block, const BulkLoad &load, unsigned agent);

/// Begins a copy, which belongs to the thread's open group.
void issueStore(Block &block, Thread &thread, BulkStore store);
/// Ends the open group.
void commitStores(Thread &thread);
/// Ends the copies of all of a thread's groups except the last `left`: they
/// have read, or (`writes`) also written.
void endStores(Block &block, Thread &thread, uint32_t left, bool writes);
/// The thread ends: its copies must have read.
void endStoresOfThread(Block &block, Thread &thread);

} // namespace cria::emulator
