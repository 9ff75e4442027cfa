#include "tools/bench/Probe.h"

#include "tools/bench/Units.h"

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace cria::bench {
namespace {

using testing::HasSubstr;

TEST(ProbeTest, PassesWhatReturns) {
  int calls = 0;
  Status status = tryInChild([&calls] { ++calls; });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(calls, 0) << "the probe ran in this process";
}

TEST(ProbeTest, NamesTheFaultAndSurvivesIt) {
  void *noAccess =
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(noAccess, MAP_FAILED);
  Status read = tryInChild([=] { *static_cast<volatile int *>(noAccess); });
  EXPECT_EQ(read.code(), CRIA_UNAVAILABLE);
  EXPECT_THAT(read.message(), HasSubstr("Segmentation fault"));
  munmap(noAccess, 4096);
#if defined(__x86_64__)
  Status illegal = tryInChild([] { __asm__ volatile("ud2"); });
  EXPECT_THAT(illegal.message(), HasSubstr("Illegal instruction"));
#endif
  for (int signal : {SIGBUS, SIGFPE, SIGABRT})
    EXPECT_THAT(tryInChild([signal] { raise(signal); }).message(),
                HasSubstr(strsignal(signal)));
  EXPECT_FALSE(tryInChild([] { _exit(0); }).ok());
}

TEST(ProbeTest, EndsAFaultDespiteHandlersAndMasks) {
  struct sigaction ignore = {}, before;
  ignore.sa_handler = [](int) {};
  sigaction(SIGSEGV, &ignore, &before);
  sigset_t all, mask;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &mask);
  EXPECT_FALSE(tryInChild([] { raise(SIGSEGV); }).ok());
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  sigaction(SIGSEGV, &before, nullptr);
}

TEST(ProbeTest, WorksWhereChildrenAreIgnored) {
  auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_TRUE(tryInChild([] {}).ok());
  EXPECT_FALSE(tryInChild([] { raise(SIGILL); }).ok());
  signal(SIGCHLD, before);
}

TEST(ProbeTest, WorksBesideOtherThreads) {
  std::atomic<bool> done{false};
  std::thread allocates([&] {
    while (!done)
      free(malloc(100'000));
  });
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(tryInChild([] {}).ok());
  done = true;
  allocates.join();
}

/// Every unit that this CPU is said to have runs on it, and counts operations.
TEST(ProbeTest, RunsTheUnitsOfThisCpu) {
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    for (const Unit &unit : unitsFor(type)) {
      Status status = tryInChild([&unit] {
        if (!(unit.run(100) > 0))
          raise(SIGABRT);
      });
      EXPECT_TRUE(status.ok()) << unit.name << ": " << status.message();
    }
}

} // namespace
} // namespace cria::bench
