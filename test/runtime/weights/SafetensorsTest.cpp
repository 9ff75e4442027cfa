#include "runtime/weights/Safetensors.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <tuple>

using namespace cria;
using namespace cria::test;

namespace {

class SafetensorsTest : public testing::Test {
protected:
  /// What opening a file of these bytes says.
  Status open(const std::string &bytes) {
    return openSafetensors(folder.write("x.safetensors", bytes)).status();
  }
  /// The same for a header of one or more members.
  Status openHeader(const std::string &members, size_t dataBytes) {
    return open(safetensorsOf("{" + members + "}", std::string(dataBytes, 0)));
  }

  TemporaryFolder folder;
};

std::string entry(const std::string &name, const std::string &type,
                  const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string lengthOf(uint64_t length) {
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length));
}

} // namespace

TEST_F(SafetensorsTest, ReadsTensorsInTheOrderOfTheirOffsets) {
  std::string bytes = safetensorsOf(fakeTensors(), 5);
  auto file = openSafetensors(folder.write("x.safetensors", bytes));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 3u);
  EXPECT_EQ(file->tensors[0].name, "embed.weight");
  EXPECT_EQ(file->tensors[0].type, DType::F32);
  EXPECT_EQ(file->tensors[0].shape, (Shape{5, 2}));
  EXPECT_EQ(file->tensors[2].end, bytes.size());
  EXPECT_EQ(bytes.substr(file->tensors[0].begin, 40), fakeTensors()[0].bytes);
}

TEST_F(SafetensorsTest, AcceptsScalarsAndEmptyTensors) {
  EXPECT_TRUE(openHeader(entry("scalar", "F32", "[]", "[0,4]") + "," +
                             entry("empty", "F32", "[0,7]", "[4,4]") + "," +
                             entry("void", "I64", "[0]", "[0,0]"),
                         4)
                  .ok());
  EXPECT_TRUE(openHeader("", 0).ok());
}

TEST_F(SafetensorsTest, NamesAGitLfsPointer) {
  EXPECT_THAT(open("version https://git-lfs.github.com/spec/v1\n"),
              fails(CRIA_INVALID_ARGUMENT, "is a Git LFS pointer"));
}

TEST_F(SafetensorsTest, RejectsImpossibleHeaderLengths) {
  EXPECT_THAT(open("1234567"), fails(CRIA_INVALID_ARGUMENT, "has 7 bytes"));
  EXPECT_THAT(open(""), fails(CRIA_INVALID_ARGUMENT, "has 0 bytes"));
  EXPECT_THAT(open(lengthOf(0) + "{}"),
              fails(CRIA_INVALID_ARGUMENT, "header length is 0"));
  EXPECT_THAT(open(lengthOf(100'000'001) + "{}"),
              fails(CRIA_INVALID_ARGUMENT, "header length is 100000001"));
  EXPECT_THAT(open(lengthOf(UINT64_MAX) + "{}"),
              fails(CRIA_INVALID_ARGUMENT, "18446744073709551615"));
  EXPECT_THAT(
      open(lengthOf(3) + "{}"),
      fails(CRIA_DATA_LOSS, "expected a header of 3 bytes, file has 2"));
}

TEST_F(SafetensorsTest, RejectsTruncationAtEveryByte) {
  std::string whole = safetensorsOf(fakeTensors(), 3);
  for (size_t size = 0; size < whole.size(); ++size) {
    Status status = open(whole.substr(0, size));
    ASSERT_FALSE(status.ok()) << size;
    ASSERT_TRUE(status.code() == CRIA_DATA_LOSS ||
                (size < 8 && status.code() == CRIA_INVALID_ARGUMENT))
        << status.message();
  }
  EXPECT_THAT(
      open(whole.substr(0, whole.size() - 1)),
      fails(CRIA_DATA_LOSS, "expected 48 bytes of tensors, file has 47"));
  EXPECT_THAT(open(whole + "x"),
              fails(CRIA_INVALID_ARGUMENT,
                    "expected 48 bytes of tensors, file has 49"));
}

TEST_F(SafetensorsTest, RejectsHeadersThatAreNoPaddedObject) {
  EXPECT_THAT(open(safetensorsOf(" {}", "")),
              fails(CRIA_INVALID_ARGUMENT, "no JSON object"));
  EXPECT_THAT(open(safetensorsOf("{}\n", "")),
              fails(CRIA_INVALID_ARGUMENT, "followed by spaces alone"));
  EXPECT_THAT(open(safetensorsOf("   ", "")),
              fails(CRIA_INVALID_ARGUMENT, "no JSON object"));
  EXPECT_THAT(open(safetensorsOf("[]", "")),
              fails(CRIA_INVALID_ARGUMENT, "no JSON object"));
  EXPECT_THAT(open(safetensorsOf("{\"\xff\":1}", "")),
              fails(CRIA_INVALID_ARGUMENT, "at byte "));
  std::string twice = entry("a", "U8", "[1]", "[0,1]");
  EXPECT_THAT(openHeader(twice + "," + twice, 1),
              fails(CRIA_INVALID_ARGUMENT, "duplicate key 'a'"));
  for (const char *same : {R"("__metadata__":{"n":"","n":""})",
                           R"("a":{"dtype":"U8","dtype":"U8"})"})
    EXPECT_THAT(openHeader(same, 0),
                fails(CRIA_INVALID_ARGUMENT, "duplicate key"));
  std::string name(512, 'n');
  EXPECT_TRUE(openHeader(entry(name, "U8", "[1]", "[0,1]"), 1).ok());
  EXPECT_THAT(openHeader(entry(name + "n", "U8", "[1]", "[0,1]"), 1),
              fails(CRIA_INVALID_ARGUMENT, "name of a tensor has 513 bytes"));
  // A member that is not known is passed over, whatever it holds.
  EXPECT_TRUE(openHeader(R"("a":{"x":[{"dtype":[1]}],"dtype":"U8","shape":[1],)"
                         R"("data_offsets":[0,1],"dtypes":[2]})",
                         1)
                  .ok());
  EXPECT_THAT(openHeader(R"("a":{"dtype":"U8","shape":[[1]]})", 0),
              fails(CRIA_INVALID_ARGUMENT, "'a.shape[0]' is array"));
  EXPECT_THAT(openHeader(R"("a":[])", 0),
              fails(CRIA_INVALID_ARGUMENT, "'a' is array, expected an object"));
  EXPECT_THAT(openHeader("\"__metadata__\":{\"n\":1}", 0),
              fails(CRIA_INVALID_ARGUMENT, "'__metadata__.n' is 1"));
  EXPECT_THAT(openHeader("\"__metadata__\":[]", 0),
              fails(CRIA_INVALID_ARGUMENT, "'__metadata__' is array"));
}

// A header without escapes is read in place. With an escape, it is read as a
// document: both must accept the same.
TEST_F(SafetensorsTest, ReadsPlainHeadersLikeAllOthers) {
  std::string plain = entry("a", "F32", "[1, 2]", "[0,8]") + ", " +
                      entry("b", "U8", "[]", "[8,9]");
  auto read = [&](const std::string &members, const std::string &metadata) {
    std::string text = "{\"__metadata__\":{" + metadata + "}," + members + "}";
    return openSafetensors(
        folder.write("x.safetensors", safetensorsOf(text, std::string(9, 0))));
  };
  int accepted = 0;
  for (size_t i = 0; i < plain.size(); ++i)
    for (char c : std::string_view("{]\",:0.- b\x7f\xc3", 12)) {
      std::string members = plain;
      members[i] = c;
      auto one = read(members, "\"format\":\"pt\""),
           other = read(members, R"("format":"\u0070t")");
      ASSERT_EQ(one.ok(), other.ok()) << members;
      accepted += one.ok();
      for (size_t tensor = 0; one.ok() && tensor < 2; ++tensor) {
        const TensorEntry &a = one->tensors[tensor],
                          &b = other->tensors[tensor];
        EXPECT_EQ(std::tie(a.name, a.type, a.shape),
                  std::tie(b.name, b.type, b.shape));
      }
    }
  EXPECT_GT(accepted, 40); // other names, spaces
}

TEST_F(SafetensorsTest, RejectsOverlapsAndHolesNamingBothTensors) {
  EXPECT_THAT(openHeader(entry("a", "U8", "[4]", "[0,4]") + "," +
                             entry("b", "U8", "[4]", "[2,6]"),
                         6),
              fails(CRIA_INVALID_ARGUMENT, "tensor 'b' begins at 2, expected "
                                           "4, the end of 'a'"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[2]", "[0,2]") + "," +
                             entry("b", "U8", "[2]", "[3,5]"),
                         5),
              fails(CRIA_INVALID_ARGUMENT, "tensor 'b' begins at 3, expected "
                                           "2, the end of 'a'"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[2]", "[1,3]"), 3),
              fails(CRIA_INVALID_ARGUMENT, "the end of the header"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[4]", "[0,4]") + "," +
                             entry("z", "U8", "[0]", "[2,2]"),
                         4),
              fails(CRIA_INVALID_ARGUMENT, "'z' begins at 2"));
}

TEST_F(SafetensorsTest, RejectsOffsetsThatAreNone) {
  for (const char *offsets : {"[-1,3]", "[0,-4]", "[0.0,4]", "[0,1e2]",
                              "[0,18446744073709551615]", "[\"0\",4]"})
    EXPECT_THAT(openHeader(entry("a", "U8", "[4]", offsets), 4),
                fails(CRIA_INVALID_ARGUMENT, "'a.data_offsets["));
  EXPECT_THAT(openHeader(entry("a", "U8", "[4]", "[4,0]"), 4),
              fails(CRIA_INVALID_ARGUMENT, "end before they begin"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[4]", "[0,4,8]"), 8),
              fails(CRIA_INVALID_ARGUMENT, "has 3 elements"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[4]", "[4]"), 4),
              fails(CRIA_INVALID_ARGUMENT, "expected two offsets"));
  EXPECT_THAT(openHeader("\"a\":3", 0),
              fails(CRIA_INVALID_ARGUMENT, "'a' is 3, expected an object"));
}

TEST_F(SafetensorsTest, ChecksShapeTimesTypeAgainstBytes) {
  EXPECT_THAT(
      openHeader(entry("a", "F32", "[3]", "[0,8]"), 8),
      fails(CRIA_INVALID_ARGUMENT, "span 8 bytes, but [3] of F32 has 12"));
  EXPECT_THAT(
      openHeader(entry("a", "F32", "[4294967296,4294967296]", "[0,8]"), 8),
      fails(CRIA_INVALID_ARGUMENT, "which overflows"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1),
              fails(CRIA_INVALID_ARGUMENT, "9 elements, expected at most 8"));
  EXPECT_THAT(openHeader(entry("a", "Q4_0", "[1]", "[0,1]"), 1),
              fails(CRIA_UNIMPLEMENTED, "'Q4_0'"));
  EXPECT_THAT(openHeader(entry("a", "U8", "[-1]", "[0,1]"), 1),
              fails(CRIA_INVALID_ARGUMENT, "'a.shape[0]' is -1"));
}

TEST_F(SafetensorsTest, OpensRegularFilesOnlyAndNeverBlocks) {
  EXPECT_THAT(openSafetensors(folder.path()).status(),
              fails(CRIA_INVALID_ARGUMENT, "is a folder"));
  EXPECT_THAT(openSafetensors(folder.path("none")).status(),
              fails(CRIA_NOT_FOUND, "No such file or directory"));
  std::string fifo = folder.path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(openSafetensors(fifo).status(),
              fails(CRIA_INVALID_ARGUMENT, "is not a regular file"));
  EXPECT_THAT(openSafetensors("/dev/zero").status(),
              fails(CRIA_INVALID_ARGUMENT, "is not a regular file"));
}
