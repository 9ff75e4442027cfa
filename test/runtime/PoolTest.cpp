#include "runtime/cpu/Pool.h"

#include "runtime/cpu/Cores.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

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
