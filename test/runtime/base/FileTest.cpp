#include "runtime/base/files/File.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

using namespace cria;
using namespace cria::test;

TEST(File, SaysWhatTheSystemSays) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path("loop"));
  EXPECT_THAT(File::open(folder.path("loop")).status(),
              fails(CRIA_INVALID_ARGUMENT, "levels of symbolic links"));
  EXPECT_THAT(File::open(folder.path("no")).status(),
              fails(CRIA_NOT_FOUND, "no: cannot open: No such file"));
  EXPECT_THAT(errnoStatus("x", "cannot open", EACCES),
              fails(CRIA_PERMISSION_DENIED, "x: cannot open: Permission"));
  EXPECT_THAT(File::open(folder.path()).status(),
              fails(CRIA_INVALID_ARGUMENT, "is a folder, expected a file"));
}

// Address 0 of a process is not mapped, which its file calls an I/O error.
TEST(File, ReportsErrorsOfTheDevice) {
  auto memory = File::open("/proc/self/mem");
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  char bytes[8];
  EXPECT_THAT(memory->read(0, bytes, sizeof(bytes)),
              fails(CRIA_DATA_LOSS, "/proc/self/mem: cannot read: Input/"));
}

TEST(File, SaysWhereAFileThatShrankEnds) {
  TemporaryFolder folder;
  auto file = File::open(folder.write("x", "0123456789"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(folder.path("x").c_str(), 4), 0);
  char bytes[10];
  EXPECT_THAT(file->read(0, bytes, sizeof(bytes)),
              fails(CRIA_DATA_LOSS, "x: ends at byte 4, expected 6 more"));
}
