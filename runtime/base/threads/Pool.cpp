#include "runtime/base/threads/Pool.h"

#include "runtime/base/threads/Nodes.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cria {

static void pauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
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

/// Spins until `done()`, at most 100 microseconds. Returns the last `done()`.
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

namespace {

/// While it lives, this thread and the threads that it starts receive no signal
/// that is sent to the process. Faults of a thread's own code are not blocked:
/// FileGuard handles SIGBUS in the thread where it happens.
class SignalBlock {
public:
  SignalBlock() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  SignalBlock(const SignalBlock &) = delete;
  SignalBlock &operator=(const SignalBlock &) = delete;

private:
  sigset_t before;
};

} // namespace

Pool::Pool(const Threads &threads) : lent(threads) {
  seam.host.parallel_for = [](const CriaHost *host, CriaParallelBody body,
                              void *context, int64_t count) {
    reinterpret_cast<const Seam *>(host)->pool->run(body, context, count);
  };
  seam.host.enter = [](const CriaHost *host, int64_t kernel) {
    if (auto &listener = reinterpret_cast<const Seam *>(host)->pool->listener)
      listener(kernel);
  };
  // There is only one type. The artifact is for as many ranks as the model has.
  seam.host.all_reduce = [](const CriaHost *host, void *values, int64_t count,
                            int32_t) {
    if (const CriaRanks *ranks =
            reinterpret_cast<const Seam *>(host)->pool->ranks)
      ranks->sum(ranks->data, static_cast<float *>(values), count);
  };
  seam.pool = this;
  int count = std::max(threads.count, 1);
  pieces = count * piecesPerThread;
  if (lent.run)
    return;
  shares = std::make_unique<Share[]>(static_cast<size_t>(count));
  workers.reserve(static_cast<size_t>(count - 1));
  SignalBlock block; // workers inherit it: signals are for the application's
                     // threads
  try {
    std::vector<cpu_set_t> nodes = ownNodes();
    for (size_t i = 1, all = static_cast<size_t>(count); i < all; ++i) {
      workers.emplace_back([this, i] { work(i); });
      if (nodes.size() > 1)
        pthread_setaffinity_np(workers.back().native_handle(),
                               sizeof(cpu_set_t),
                               &nodes[i * nodes.size() / all]);
    }
  } catch (const std::exception &) {
    // No more threads, or no memory for them: the ones that started share the
    // work.
  }
  pieces = static_cast<int64_t>(workers.size() + 1) * piecesPerThread;
}

Pool::~Pool() {
  stopping = true;
  epoch.fetch_add(1);
  futexWake(epoch, INT32_MAX);
  for (std::thread &worker : workers)
    worker.join();
}

/// Runs the iterations of a piece.
void Pool::runRange(int64_t piece) const {
  // count * piece cannot overflow: there are few pieces and count elements
  // exist in memory.
  int64_t begin = count * piece / pieces;
  int64_t end = count * (piece + 1) / pieces;
  if (begin < end)
    body(context, begin, end);
}

/// Runs all pieces on the caller's threads and counts them.
void Pool::lend() {
  returned.store(0);
  lent.run(
      lent.data,
      [](void *self, int64_t piece) {
        auto *pool = static_cast<Pool *>(self);
        pool->runRange(piece);
        pool->returned.fetch_add(1);
      },
      this, pieces);
  if (missed == 0)
    missed = pieces - returned.load();
}

Status Pool::complete() const {
  if (missed == 0)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {"parallel_for ran ", pieces - missed, " of ", pieces,
                 " tasks, expected each once before it returns"});
}

/// A thread's word when none of its pieces is taken, or run. Words of later
/// loops are larger, modulo 2^64.
static uint64_t wordOf(uint32_t loop) {
  return static_cast<uint64_t>(loop) << 32;
}

/// Runs the next piece of thread `of`. Returns false if all are taken.
bool Pool::runPiece(size_t of, uint32_t loop) {
  std::atomic<uint64_t> &word = shares[of].taken;
  uint64_t seen = word.load();
  int64_t taken;
  do {
    taken = std::max(static_cast<int64_t>(seen - wordOf(loop)), int64_t(0));
    if (taken >= piecesPerThread)
      return false;
  } while (!word.compare_exchange_weak(
      seen, wordOf(loop) + static_cast<uint64_t>(taken) + 1));
  runRange(static_cast<int64_t>(of) * piecesPerThread + taken);
  return true;
}

/// Whether all pieces of the loop have run.
bool Pool::isDone(uint32_t loop) const {
  auto left = static_cast<uint64_t>(pieces);
  for (size_t i = 0; i <= workers.size(); ++i)
    if (uint64_t ran = shares[i].ran.load() - wordOf(loop); ran <= left)
      left -= ran;
  return left == 0;
}

/// Runs the thread's own pieces, then those that are left of other threads.
void Pool::runPieces(size_t thread, uint32_t loop) {
  uint64_t ran = wordOf(loop);
  for (size_t i = 0, count = workers.size() + 1; i < count; ++i) {
    uint64_t before = ran;
    while (runPiece((thread + i) % count, loop))
      ++ran;
    if (ran == before)
      continue;
    shares[thread].ran.store(ran); // sequentially consistent, as is
                                   // `callerSleeps`: either the caller sees
                                   // that all have run, or we see it asleep
    if (callerSleeps.load() != 0 && isDone(loop)) {
      callerSleeps.store(0);
      futexWake(callerSleeps, 1);
    }
  }
}

void Pool::run(CriaParallelBody loop, void *loopContext, int64_t iterations) {
  if (pieces == piecesPerThread || iterations <= 1) {
    if (iterations > 0)
      loop(loopContext, 0, iterations);
    return;
  }
  body = loop;
  context = loopContext;
  count = iterations;
  if (lent.run)
    return lend();
  uint32_t next = epoch.load(std::memory_order_relaxed) + 1;
  epoch.store(next); // sequentially consistent, as is `sleepers`: either the
                     // worker sees the new epoch or we see it asleep
  if (sleepers.load() != 0)
    futexWake(epoch, INT32_MAX);
  runPieces(0, next);
  if (spinUntil([&] { return isDone(next); }))
    return;
  for (;;) {
    callerSleeps.store(1);
    if (isDone(next))
      break;
    futexWait(callerSleeps, 1);
  }
  callerSleeps.store(0);
}

void Pool::work(size_t thread) {
  for (uint32_t seen = 0;;) {
    auto begun = [&] { return epoch.load(std::memory_order_acquire) != seen; };
    if (!spinUntil(begun)) {
      sleepers.fetch_add(1);
      while (epoch.load() == seen)
        futexWait(epoch, seen);
      sleepers.fetch_sub(1);
    }
    seen = epoch.load(); // before `stopping`, or the last epoch could be missed
    if (stopping)
      return;
    runPieces(thread, seen);
  }
}

} // namespace cria
