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
