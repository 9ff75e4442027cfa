#include "runtime/OutputFile.h"

#include "runtime/File.h"
#include "runtime/Ids.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;
using testing::IsEmpty;

static size_t filesIn(const TemporaryFolder &folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(OutputFile, IsThereWholeOrNotAtAll) {
  TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->write("new", 3).ok());
    EXPECT_EQ(*readFile(path, 10), "old");
  } // not committed
  EXPECT_EQ(*readFile(path, 10), "old");
  EXPECT_EQ(filesIn(folder), 1u);
  auto file = OutputFile::create(path);
  EXPECT_TRUE(file->write("new", 3).ok());
  EXPECT_TRUE(file->commit().ok());
  EXPECT_EQ(*readFile(path, 10), "new");
  EXPECT_EQ(filesIn(folder), 1u);
}

TEST(OutputFile, SaysWhereItCannotWrite) {
  EXPECT_THAT(OutputFile::create("/no/such/folder/out").status(),
              fails(CRIA_NOT_FOUND, "/no/such/folder/out: cannot create"));
}

// Magic, version 1.0, header length, a Python dict, padded to 64 bytes.
TEST(OutputFile, NpyHeader) {
  std::string header = npyHeader({3, 512});
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<uint8_t>(header[8]) + (header[9] << 8),
            static_cast<int>(header.size()) - 10);
  EXPECT_NE(header.find("'descr': '<f4', 'fortran_order': False, "
                        "'shape': (3, 512, )"),
            header.npos);
  EXPECT_EQ(header.back(), '\n');
}

TEST(Ids, ListsOfThem) {
  EXPECT_THAT(*parseIds("1,403, 407\n"), ElementsAre(1, 403, 407));
  EXPECT_THAT(*parseIds(" \n"), IsEmpty());
  EXPECT_EQ(joinIds({1, 403, 407}), "1,403,407");
  EXPECT_EQ(joinIds({}), "");
  for (const char *wrong : {",", "1,", "1,,2", "a", "1 2", "-1", "2147483648",
                            "1.5", "0x1", "99999999999999999999"})
    EXPECT_EQ(parseIds(wrong).status().code(), CRIA_INVALID_ARGUMENT) << wrong;
  EXPECT_THAT(parseIds("1,x").status(),
              fails(CRIA_INVALID_ARGUMENT, "token id 'x' at byte 2"));
}
