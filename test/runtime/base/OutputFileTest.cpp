#include "runtime/base/files/OutputFile.h"

#include "runtime/base/files/File.h"
#include "test/runtime/Fixtures.h"
#include "tools/Ids.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdarg>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;
using testing::IsEmpty;

static size_t filesIn(const TemporaryFolder &folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

static bool hasUnnamedFiles = true;

/// open(2) in the whole program, but for file systems without unnamed files.
extern "C" int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t); // whatever it is, where there is none
  va_end(rest);
  if ((flags & O_TMPFILE) == O_TMPFILE && !hasUnnamedFiles) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

namespace {

/// On a file system that has unnamed files (O_TMPFILE), and on one that has
/// not.
class OutputFileTest : public testing::TestWithParam<bool> {
protected:
  OutputFileTest() { hasUnnamedFiles = GetParam(); }
  ~OutputFileTest() override { hasUnnamedFiles = true; }
};

} // namespace

INSTANTIATE_TEST_SUITE_P(, OutputFileTest, testing::Bool());

/// Writes `text` as the file `name`.
static Status write(const std::string &name, const std::string &text) {
  OutputFile file(name);
  file.write(text.data(), text.size());
  file.commit();
  return statusOf(file);
}

static mode_t modeOf(const std::string &path) {
  struct stat info = {};
  stat(path.c_str(), &info);
  return info.st_mode & 07777;
}

TEST_P(OutputFileTest, IsThereWholeOrNotAtAll) {
  TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  {
    OutputFile file(path);
    EXPECT_TRUE(file.write("new", 3));
    EXPECT_EQ(filesIn(folder), GetParam() ? 1u : 2u);
    EXPECT_EQ(*readFile(path, 10), "old");
  } // not committed
  EXPECT_EQ(*readFile(path, 10), "old");
  EXPECT_EQ(filesIn(folder), 1u);
  EXPECT_TRUE(write(path, "new").ok());
  EXPECT_EQ(*readFile(path, 10), "new");
  EXPECT_TRUE(write(folder.path("other"), "first").ok());
  EXPECT_EQ(*readFile(folder.path("other"), 10), "first");
  EXPECT_EQ(filesIn(folder), 2u);
}

// A file that came into being meanwhile is replaced as well.
TEST_P(OutputFileTest, TheLastOfTwoWins) {
  TemporaryFolder folder;
  OutputFile one(folder.path("out")), two(folder.path("out"));
  EXPECT_NE(one.temporary(), two.temporary());
  EXPECT_TRUE(one.write("one", 3) && two.write("two", 3));
  EXPECT_TRUE(one.commit() && two.commit());
  EXPECT_EQ(*readFile(folder.path("out"), 10), "two");
  EXPECT_EQ(filesIn(folder), 1u);
}

TEST_P(OutputFileTest, NewFilesHaveTheModeThatTheUserAsksFor) {
  TemporaryFolder folder;
  for (mode_t mask : {022, 077, 0}) {
    mode_t before = umask(mask);
    std::string path = folder.path(std::to_string(mask));
    EXPECT_TRUE(write(path, "x").ok());
    umask(before);
    EXPECT_EQ(modeOf(path), 0666u & ~mask);
  }
}

TEST_P(OutputFileTest, KeepsTheModeOfTheFileThatItReplaces) {
  TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  for (mode_t mode : {0600, 0755, 0666}) {
    chmod(path.c_str(), mode);
    EXPECT_TRUE(write(path, "new").ok());
    EXPECT_EQ(modeOf(path), mode);
  }
}

TEST_P(OutputFileTest, FollowsSymbolicLinks) {
  namespace fs = std::filesystem;
  TemporaryFolder folder;
  fs::create_directory(folder.path("there"));
  fs::create_symlink("two", folder.path("one"));
  fs::create_symlink(folder.path("there/file"), folder.path("two"));
  for (const char *text : {"new", "newer"}) { // of no file, then of an old one
    EXPECT_TRUE(write(folder.path("one"), text).ok());
    EXPECT_TRUE(fs::is_symlink(folder.path("one")));
    EXPECT_TRUE(fs::is_symlink(folder.path("two")));
    EXPECT_EQ(*readFile(folder.path("there/file"), 10), text);
  }
  EXPECT_EQ(filesIn(folder), 3u);
  fs::create_symlink("loop", folder.path("loop"));
  EXPECT_THAT(write(folder.path("loop"), "x"),
              fails(CRIA_INVALID_ARGUMENT, "loop: cannot open: Too many"));
}

// The program's own name leads nowhere, whatever has it.
TEST_P(OutputFileTest, ReplacesWhatHasANameThatTheProgramMade) {
  TemporaryFolder folder;
  std::string path = folder.path("cache"),
              precious = folder.write("precious", "text");
  auto replaces = [&] {
    OutputFile file(path, OutputFile::Named::ByProgram);
    EXPECT_TRUE(file.write("new", 3) && file.commit());
    struct stat info;
    ASSERT_EQ(lstat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode, S_IFREG | 0644u);
    EXPECT_EQ(*readFile(path, 9), "new");
  };
  mode_t before = umask(0);
  replaces();
  chmod(path.c_str(), 0466);
  replaces();
  std::filesystem::remove(path);
  std::filesystem::create_symlink(precious, path);
  replaces();
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  replaces();
  umask(before);
  EXPECT_EQ(*readFile(precious, 9), "text");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  OutputFile file(path, OutputFile::Named::ByProgram);
  EXPECT_FALSE(file.commit());
  EXPECT_EQ(file.error().message(), path + ": cannot create: Is a directory");
}

TEST_P(OutputFileTest, WritesDevicesAndPipesAsTheyAre) {
  TemporaryFolder folder;
  EXPECT_TRUE(write("/dev/null", "x").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(write(pipe, "through").ok());
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 7);
  EXPECT_STREQ(text, "through");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

// Also where they are regular files, which the shell opened: "> file".
TEST_P(OutputFileTest, WritesOpenDescriptorsByName) {
  TemporaryFolder folder;
  std::string path = folder.write("out", "");
  int fd = open(path.c_str(), O_WRONLY);
  int before = dup(STDOUT_FILENO);
  for (std::string name :
       {"/dev/fd/" + std::to_string(fd), "/proc/self/fd/" + std::to_string(fd)})
    EXPECT_TRUE(write(name, "1").ok());
  fflush(stdout);
  dup2(fd, STDOUT_FILENO);
  bool wrote = write("-", "2").ok() && write("/dev/stdout", "3").ok();
  dup2(before, STDOUT_FILENO);
  close(before);
  close(fd);
  EXPECT_TRUE(wrote);
  EXPECT_EQ(*readFile(path, 10), "1123");
  EXPECT_THAT(write("/dev/fd/987", "x"),
              fails(CRIA_INVALID_ARGUMENT, "/dev/fd/987: cannot open: Bad"));
}

TEST_P(OutputFileTest, NamesTheFileThatItCannotWrite) {
  TemporaryFolder folder;
  std::string old = folder.write("old", "old");
  EXPECT_THAT(write("/no/such/folder/out", "x"),
              fails(CRIA_NOT_FOUND,
                    "/no/such/folder/out: cannot create: No such file"));
  EXPECT_THAT(write(folder.path(), "x"),
              fails(CRIA_INVALID_ARGUMENT, ": cannot write: Is a directory"));
  EXPECT_THAT(write(old + "/out", "x"),
              fails(CRIA_NOT_FOUND, "old/out: cannot open: Not a directory"));
  EXPECT_THAT(write("/dev/full", "x"),
              fails(CRIA_INVALID_ARGUMENT,
                    "/dev/full: cannot write: No space left on device"));
  rlimit before = {}, little = {};
  getrlimit(RLIMIT_FSIZE, &before);
  little = {2, before.rlim_max};
  auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &little);
  Status status = write(old, "much");
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(status, fails(CRIA_INVALID_ARGUMENT,
                            "old: cannot write: File too large"));
  EXPECT_EQ(*readFile(old, 10), "old");
  EXPECT_EQ(filesIn(folder), 1u);
}

// As another user, for root may do everything.
TEST_P(OutputFileTest, ReplacesNothingThatMayNotBeWritten) {
  TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  chmod(path.c_str(), 0444);
  chmod(folder.path().c_str(), 0777);
  pid_t child = fork();
  if (child == 0) {
    bool isOther = geteuid() != 0 || seteuid(65534) == 0;
    OutputFile file(path);
    _exit(isOther && file.error().code == EACCES && !file.commit() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*readFile(path, 10), "old");
  EXPECT_EQ(filesIn(folder), 1u);
}

TEST(Ids, ListsOfThem) {
  EXPECT_THAT(*parseIds("1,403, 407\n"), ElementsAre(1, 403, 407));
  EXPECT_THAT(*parseIds("1 403  , 407"), ElementsAre(1, 403, 407));
  EXPECT_THAT(*parseIds(" \n"), IsEmpty());
  EXPECT_EQ(joinIds({1, 403, 407}), "1,403,407");
  EXPECT_EQ(joinIds({}), "");
  for (const char *wrong : {",", "1,", "1,,2", "a", "1 ,", "-1", "-0", "+1",
                            "2147483648", "1.5", "0x1", "99999999999999999999"})
    EXPECT_EQ(parseIds(wrong).status().code(), CRIA_INVALID_ARGUMENT) << wrong;
  EXPECT_THAT(parseIds("1,x").status(),
              fails(CRIA_INVALID_ARGUMENT, "token id 'x' at byte 2"));
}
