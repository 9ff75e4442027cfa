#include "runtime/cpu/Pool.h"

#include <chrono>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace cria {

static void pauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Sleeps while `word` is `value`.
static void futexWait(std::atomic<uint32_t> &word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE,
          value, nullptr, nullptr, 0);
}

static void futexWake(std::atomic<uint32_t> &word, int threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE,
          threads, nullptr, nullptr, 0);
}

/// Spins until `done()`, for 100 microseconds at most; returns whether it is.
template <typename Done> static bool spinUntil(Done done) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (done())
        return true;
      pauseBriefly();
    }
  } while (Clock::now() - begin < std::chrono::microseconds(100));
  return done();
}

Pool::Pool(int threads) {
  seam.host.parallel_for = [](const CriaHost *host, CriaParallelBody body,
                              void *context, int64_t count) {
    reinterpret_cast<const Seam *>(host)->pool->run(body, context, count);
  };
  seam.pool = this;
  workers.reserve(static_cast<size_t>(threads > 1 ? threads - 1 : 0));
  try {
    for (int i = 1; i < threads; ++i)
      workers.emplace_back([this, i] { work(i); });
  } catch (const std::system_error &) {
    // No more threads to be had: those that started share the work.
  }
  shares = static_cast<int64_t>(workers.size()) + 1;
}

Pool::~Pool() {
  stopping = true;
  epoch.fetch_add(1);
  futexWake(epoch, INT32_MAX);
  for (std::thread &worker : workers)
    worker.join();
}

void Pool::runShare(int64_t index) const {
  // count * index cannot overflow: there are few threads and count elements
  // exist in memory.
  int64_t begin = count * index / shares;
  int64_t end = count * (index + 1) / shares;
  if (begin < end)
    body(context, begin, end);
}

void Pool::run(CriaParallelBody loop, void *loopContext, int64_t iterations) {
  if (workers.empty() || iterations <= 1) {
    if (iterations > 0)
      loop(loopContext, 0, iterations);
    return;
  }
  body = loop;
  context = loopContext;
  count = iterations;
  unfinished.store(static_cast<uint32_t>(workers.size()));
  epoch.fetch_add(1); // sequentially consistent, as is `sleepers`: either the
                      // worker sees the new epoch or we see it asleep
  if (sleepers.load() != 0)
    futexWake(epoch, INT32_MAX);
  runShare(0);
  if (spinUntil(
          [&] { return unfinished.load(std::memory_order_acquire) == 0; }))
    return;
  callerSleeps.store(1);
  while (uint32_t left = unfinished.load())
    futexWait(unfinished, left);
  callerSleeps.store(0);
}

void Pool::work(int64_t index) {
  for (uint32_t seen = 0;; ++seen) {
    auto begun = [&] { return epoch.load(std::memory_order_acquire) != seen; };
    if (!spinUntil(begun)) {
      sleepers.fetch_add(1);
      while (epoch.load() == seen)
        futexWait(epoch, seen);
      sleepers.fetch_sub(1);
    }
    if (stopping)
      return;
    runShare(index);
    if (unfinished.fetch_sub(1) == 1 && callerSleeps.load() != 0)
      futexWake(unfinished, 1);
  }
}

} // namespace cria
