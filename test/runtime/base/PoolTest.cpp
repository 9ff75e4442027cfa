#include "runtime/base/threads/Pool.h"

#include "runtime/base/threads/Cores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace cria;

/// Adds one to each element of the vector at `context` in [begin, end).
static void countVisits(void *context, int64_t begin, int64_t end) {
  auto &visits = *static_cast<std::vector<int> *>(context);
  for (int64_t i = begin; i < end; ++i)
    ++visits[static_cast<size_t>(i)];
}

TEST(Pool, VisitsEveryIterationOnce) {
  for (int threads : {1, 2, 3, 7}) {
    Pool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 5, 64, 1000}) {
      std::vector<int> visits(static_cast<size_t>(count));
      for (int repeat = 0; repeat < 50; ++repeat)
        pool.host()->parallel_for(pool.host(), countVisits, &visits, count);
      EXPECT_EQ(std::count(visits.begin(), visits.end(), 50), count);
    }
  }
}

namespace {

/// Threads of a caller, three, which leave out some indexes.
struct Lent {
  int64_t left = 0;
  std::atomic<int> calls{0};

  Threads threads() {
    Threads made(3);
    made.data = this;
    made.run = [](void *data, cria_task task, void *context, int64_t count) {
      auto *lent = static_cast<Lent *>(data);
      ++lent->calls;
      std::atomic<int64_t> next{lent->left};
      auto work = [&] {
        for (int64_t i; (i = next++) < count;)
          task(context, i);
      };
      std::thread others[] = {std::thread(work), std::thread(work)};
      work();
      for (std::thread &other : others)
        other.join();
    };
    return made;
  }
};

} // namespace

TEST(Pool, RunsOnTheCallersThreads) {
  Lent lent;
  Pool pool(lent.threads());
  EXPECT_EQ(pool.threads(), 3);
  for (int64_t count : {0, 1, 2, 5, 64, 1000}) {
    std::vector<int> visits(static_cast<size_t>(count));
    pool.host()->parallel_for(pool.host(), countVisits, &visits, count);
    EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), count);
  }
  EXPECT_EQ(lent.calls, 4);
  EXPECT_TRUE(pool.complete().ok());
}

TEST(Pool, NoticesWhatTheCallersThreadsLeaveOut) {
  Lent lent;
  Pool pool(lent.threads());
  std::vector<int> visits(100);
  lent.left = 2;
  pool.run(countVisits, &visits, 100);
  lent.left = 0;
  pool.run(countVisits, &visits, 100);
  EXPECT_EQ(pool.complete().code(), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(pool.complete().message(),
            "parallel_for ran 10 of 12 tasks, expected each once before it "
            "returns");
}

TEST(Pool, TellsWhichKernelBegins) {
  Pool pool(2);
  std::vector<int64_t> kernels;
  pool.host()->enter(pool.host(), 1);
  pool.onKernel([&](int64_t kernel) { kernels.push_back(kernel); });
  pool.host()->enter(pool.host(), 2);
  pool.host()->enter(pool.host(), 3);
  pool.onKernel({});
  pool.host()->enter(pool.host(), 4);
  EXPECT_EQ(kernels, (std::vector<int64_t>{2, 3}));
}

TEST(Pool, WakesAfterEveryoneSlept) {
  Pool pool(3);
  std::vector<int> visits(30);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run(countVisits, &visits, 30);
  }
  EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), 600);
}

// A few long ranges a thread, not many short ones.
TEST(Pool, CutsTheIterationsIntoFewRanges) {
  Pool pool(4);
  std::vector<int64_t> ends(1000, 0); // by the begin of a range
  pool.run(
      [](void *context, int64_t begin, int64_t end) {
        auto &all = *static_cast<std::vector<int64_t> *>(context);
        all[static_cast<size_t>(begin)] = end;
      },
      &ends, 1000);
  int ranges = 0;
  for (int64_t at = 0; at < 1000; at = ends[static_cast<size_t>(at)]) {
    ASSERT_GE(ends[static_cast<size_t>(at)], at + 40);
    ++ranges;
  }
  EXPECT_LE(ranges, 4 * pool.threads());
}

TEST(Pool, RunsInTheCallerWithOneThread) {
  Pool pool(1);
  std::thread::id runner;
  pool.run(
      [](void *context, int64_t, int64_t) {
        *static_cast<std::thread::id *>(context) = std::this_thread::get_id();
      },
      &runner, 8);
  EXPECT_EQ(runner, std::this_thread::get_id());
}

// More threads than cores, all of them spinning: a loop must not take the
// tens of milliseconds that spinning against the scheduler would cost.
TEST(Pool, DoesNotCollapseWhenCoresAreBusy) {
  Pool pool(4 * coreCount());
  std::vector<int> visits(1000);
  auto begin = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < 200; ++repeat)
    pool.run(countVisits, &visits, 1000);
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 4.0);
}

static std::thread::id signalled;

// A signal to the process waits for a thread of the application. Faults do not
// wait: where one is blocked, the system kills the process.
TEST(Pool, LeavesSignalsToTheApplication) {
  Pool pool(4);
  sigset_t some, before, pending;
  sigemptyset(&some);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1})
    sigaddset(&some, signal);
  pthread_sigmask(SIG_BLOCK, &some, &before);
  EXPECT_FALSE(sigismember(&before, SIGINT)) << "the caller's mask has changed";
  struct sigaction action = {}, old[3];
  action.sa_handler = [](int) { signalled = std::this_thread::get_id(); };
  int number = 0;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    sigaction(signal, &action, &old[number++]);
    signalled = std::thread::id();
    kill(getpid(), signal);
    std::vector<int> visits(1000);
    pool.run(countVisits, &visits, 1000); // workers awake, and asleep
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    sigpending(&pending);
    EXPECT_TRUE(sigismember(&pending, signal)) << "a worker took it";
    EXPECT_EQ(signalled, std::thread::id());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(signalled, std::this_thread::get_id());
  number = 0;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1})
    sigaction(signal, &old[number++], nullptr);
}

TEST(Pool, DoesNotBlockFaults) {
  Pool pool(4);
  std::atomic<int> blocked{0};
  pool.run(
      [](void *context, int64_t, int64_t) {
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
        for (int fault : {SIGBUS, SIGFPE, SIGILL, SIGSEGV})
          *static_cast<std::atomic<int> *>(context) +=
              sigismember(&mask, fault);
      },
      &blocked, 1000);
  EXPECT_EQ(blocked, 0);
}
