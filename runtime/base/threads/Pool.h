/// The threads that run the parallel loops of compiled code.
///
/// Each of n threads, the caller among them, takes one contiguous range of the
/// iterations: a thread that streams through one stretch of memory reads
/// fastest. A decode step has a hundred loops of some ten microseconds, so
/// entering one must cost well under a microsecond: workers wait for the next
/// loop by spinning. They spin for 100 microseconds, then sleep in the kernel
/// (futex), and so does the caller that waits for a worker.
///
/// If a core is busy with other work, its thread comes late. So a thread's
/// range is cut into a few pieces, still taken in order. Each piece is claimed
/// before it is run. A thread that is done takes pieces that others have not
/// begun.
///
/// Between many cores a cache line that all write costs most: some 30 ns for
/// each write, one after the other. So each thread has lines of its own, in
/// which it claims its pieces and counts those that it ran. Others read these
/// lines, and write one only where they take a piece of a late thread.
///
/// A pool may be made of threads that the caller lends. Then it has no workers,
/// and the caller's function runs the pieces.
///
/// If the caller may use cores of several NUMA nodes, each worker stays on one
/// of them (Nodes.h). The caller's threads go where the application lets them.
///
/// Workers block signals. Signals that are sent to the process go to a thread
/// of the application, which can handle them.
#pragma once

#include "runtime/Abi.h"
#include "runtime/Ranks.h"
#include "runtime/base/Status.h"
#include "runtime/base/threads/Threads.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace cria {

/// A pool of threads. One loop at a time; `run` is not reentrant.
class Pool {
public:
  /// A pool in which `threads` threads, the caller among them, share the work;
  /// fewer if the system gives fewer. With 1, loops run in the caller. The
  /// threads may be the caller's.
  explicit Pool(const Threads &threads);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  /// Runs `body` over [0, count), one range for each thread.
  void run(CriaParallelBody body, void *context, int64_t count);

  int threads() const { return static_cast<int>(pieces / piecesPerThread); }

  /// INVALID_ARGUMENT once the caller's threads left a piece out.
  Status complete() const;

  /// From now on calls `listener`, or nothing where it is empty, with the
  /// number of each kernel that compiled code is about to run, in the thread
  /// that runs the entry.
  void onKernel(std::function<void(int64_t)> listener) {
    this->listener = std::move(listener);
  }

  /// From now on `ranks` computes the sums over ranks that compiled code asks
  /// for; it must outlive the pool.
  void setRanks(const CriaRanks *shared) { ranks = shared; }

  /// The pool as compiled code sees it.
  const CriaHost *host() const { return &seam.host; }

private:
  /// Enough that a late thread costs little, few enough that ranges stay long.
  static constexpr int64_t piecesPerThread = 4;

  struct Seam {
    CriaHost host; // first: the callback finds the pool from its address
    Pool *pool;
  };

  /// What a thread shares with the others.
  struct Share {
    /// A loop, and how many of the thread's pieces are taken. If that is an
    /// earlier loop, none is.
    alignas(64) std::atomic<uint64_t> taken{0};
    /// A loop, and how many pieces the thread has run of it.
    alignas(64) std::atomic<uint64_t> ran{0};
  };

  void lend();
  void runRange(int64_t piece) const;
  void work(size_t thread);
  void runPieces(size_t thread, uint32_t loop);
  bool runPiece(size_t of, uint32_t loop);
  bool isDone(uint32_t loop) const;

  // Written by the caller before `epoch`; read by whoever claimed a piece, and
  // the loop does not end before that piece.
  CriaParallelBody body = nullptr;
  void *context = nullptr;
  int64_t count = 0;
  int64_t pieces = 1;
  std::atomic<bool> stopping{false};

  alignas(64) std::atomic<uint32_t> epoch{0};    // loops begun
  alignas(64) std::atomic<uint32_t> sleepers{0}; // workers asleep
  std::atomic<uint32_t> callerSleeps{0}; // 1 while it sleeps, or is about to
  std::unique_ptr<Share[]> shares;       // of each thread
  std::vector<std::thread> workers;
  Threads lent; // `run` is null if the workers are the pool's own
  std::atomic<int64_t> returned{0}; // pieces that the caller's threads ran
  int64_t missed = 0; // pieces of the first loop that the caller left out
  std::function<void(int64_t)> listener;
  const CriaRanks *ranks = nullptr;
  Seam seam;
};

} // namespace cria
