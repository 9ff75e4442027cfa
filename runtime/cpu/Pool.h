/// The threads that run the parallel loops of compiled code.
///
/// Each of n threads, the caller among them, takes one contiguous range of the
/// iterations: a thread that streams through one stretch of memory reads
/// fastest. A decode step has a hundred loops of some ten microseconds, so
/// entering one must cost well under a microsecond: workers wait for the next
/// by spinning. They spin for 100 microseconds, then sleep in the kernel
/// (futex), and so does the caller that waits for a worker; where the cores are
/// busy with other work, whoever waits makes way.
#pragma once

#include "runtime/Abi.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace cria {

/// A pool of threads. One loop at a time; `run` is not reentrant.
class Pool {
public:
  /// A pool in which `threads` threads, the caller among them, share the work;
  /// fewer where the system gives fewer. With 1, loops run in the caller.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  /// Runs `body` over [0, count), one range a thread.
  void run(CriaParallelBody body, void *context, int64_t count);

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  /// The pool as compiled code sees it.
  const CriaHost *host() const { return &seam.host; }

private:
  struct Seam {
    CriaHost host; // first: the callback finds the pool from its address
    Pool *pool;
  };

  void work(int64_t index);
  void runShare(int64_t index) const;

  // Written by the caller before `epoch`, read by the workers after it.
  CriaParallelBody body = nullptr;
  void *context = nullptr;
  int64_t count = 0;
  int64_t shares = 1;
  bool stopping = false;

  alignas(64) std::atomic<uint32_t> epoch{0};      // loops begun
  alignas(64) std::atomic<uint32_t> unfinished{0}; // workers in this loop
  alignas(64) std::atomic<uint32_t> sleepers{0};   // workers asleep
  std::atomic<uint32_t> callerSleeps{0};
  std::vector<std::thread> workers;
  Seam seam;
};

} // namespace cria
