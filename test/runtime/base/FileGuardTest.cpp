#include "runtime/base/files/FileGuard.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace cria;
using namespace cria::test;

namespace {

/// A mapped file of one page that was cut to nothing, so that an access to it
/// is SIGBUS.
class CutFile {
public:
  CutFile() {
    std::string path = folder.write("file", std::string(bytes(), 'x'));
    data = static_cast<char *>(mmap(nullptr, bytes(), PROT_READ, MAP_SHARED,
                                    open(path.c_str(), O_RDONLY), 0));
    EXPECT_EQ(truncate(path.c_str(), 0), 0);
  }
  ~CutFile() { munmap(data, bytes()); }
  static size_t bytes() { return static_cast<size_t>(getpagesize()); }
  char read() const { return *static_cast<const volatile char *>(data); }

  char *data;

private:
  TemporaryFolder folder;
};

// Each death test starts the program anew: nobody has installed the handler.
class FileGuardTest : public testing::Test {
protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using FileGuardDeathTest = FileGuardTest;

/// Ends this process with 40 + what the guard does wrong.
void checkGuard() {
  CutFile file;
  FileGuard guard(file.data, CutFile::bytes(), "a file");
  if (!guard.status().ok())
    _exit(41);
  if (file.read() != 0)
    _exit(42);
  if (guard.status().code() != CRIA_DATA_LOSS)
    _exit(43);
}

} // namespace

TEST_F(FileGuardTest, GivesZerosForAFileThatWasCut) {
  CutFile file;
  FileGuard guard(file.data, CutFile::bytes(), "a file");
  EXPECT_TRUE(guard.status().ok());
  EXPECT_EQ(file.read(), 0);
  EXPECT_THAT(guard.status(), fails(CRIA_DATA_LOSS, "a file: was cut"));
}

TEST_F(FileGuardDeathTest, LeavesOtherAddressesToTheHandlerBefore) {
  auto earlier = [] {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t *info, void *) {
      _exit(info->si_addr ? 7 : 8);
    };
    sigaction(SIGBUS, &action, nullptr);
    checkGuard();
    CutFile().read();
  };
  EXPECT_EXIT(earlier(), testing::ExitedWithCode(7), "");
  auto plain = [] {
    signal(SIGBUS, [](int) { _exit(9); });
    checkGuard();
    raise(SIGBUS);
  };
  EXPECT_EXIT(plain(), testing::ExitedWithCode(9), "");
}

TEST_F(FileGuardDeathTest, ChangesNothingWithoutAHandlerBefore) {
  auto access = [] {
    signal(SIGBUS, SIG_DFL);
    checkGuard();
    CutFile().read();
    _exit(0);
  };
  EXPECT_EXIT(access(), testing::KilledBySignal(SIGBUS), "");
  auto sent = [] {
    signal(SIGBUS, SIG_DFL);
    checkGuard();
    kill(getpid(), SIGBUS);
    _exit(0);
  };
  EXPECT_EXIT(sent(), testing::KilledBySignal(SIGBUS), "");
  // An ignored one neither ends the process nor the guard.
  auto ignored = [] {
    signal(SIGBUS, SIG_IGN);
    checkGuard();
    kill(getpid(), SIGBUS);
    checkGuard();
    _exit(0);
  };
  EXPECT_EXIT(ignored(), testing::ExitedWithCode(0), "");
}
