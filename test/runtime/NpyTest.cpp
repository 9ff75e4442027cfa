#include "tools/run/Npy.h"

#include "runtime/base/files/File.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A file of `version` with `header` as it is, and `data` after it.
std::string npyOf(const std::string &header, const std::string &data,
                  char version = 1) {
  std::string file = std::string("\x93NUMPY", 6) + version + '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + (version > 1 ? std::string(2, '\0') : "") + header + data;
}

std::string headerOf(const std::string &type, const std::string &shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape +
         ", }";
}

class NpyTest : public testing::Test {
protected:
  Result<NpyMatrix> read(const std::string &bytes, uint64_t most = 100) {
    return readNpyMatrix(folder.write("x.npy", bytes), most);
  }
  Status refused(const std::string &header, const std::string &data = "") {
    return read(npyOf(header, data)).status();
  }

  TemporaryFolder folder;
  std::string six = bytesOf<float>({1, 2, 3, 4, 5, 6});
};

} // namespace

// Magic, version 1.0, header length, a Python dict, padded to 64 bytes.
TEST_F(NpyTest, WritesHeaders) {
  std::string header = npyHeader({3, 512});
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<uint8_t>(header[8]) + (header[9] << 8),
            static_cast<int>(header.size()) - 10);
  EXPECT_THAT(header, HasSubstr("'descr': '<f4', 'fortran_order': False, "
                                "'shape': (3, 512, )"));
  EXPECT_EQ(header.back(), '\n');
}

TEST_F(NpyTest, ReadsWhatItWrites) {
  auto matrix = read(npyHeader({2, 3}) + six);
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->rows, 2u);
  EXPECT_EQ(matrix->columns, 3u);
  EXPECT_THAT(matrix->values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(read(npyHeader({0, 3}))->values.empty());
}

TEST_F(NpyTest, ReadsEveryVersionAndWidth) {
  for (char version : {1, 2, 3})
    EXPECT_THAT(read(npyOf(headerOf("<f4", "(3, 2)"), six, version))->values,
                ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read(npyOf(headerOf("<f2", "(1, 2)"),
                         bytesOf<uint16_t>({0x3c00, 0xc000})))
                  ->values,
              ElementsAre(1, -2));
  EXPECT_THAT(read(npyOf(headerOf("<f8", "(1, 2)"), bytesOf<double>({0.1, -3})))
                  ->values,
              ElementsAre(0.1f, -3));
}

TEST_F(NpyTest, KeysComeInAnyOrderAndSpacing) {
  std::string header =
      "{ \"shape\":(2,3) ,'fortran_order':False,'descr' : '<f4'}  \n";
  EXPECT_TRUE(read(npyOf(header, six)).ok());
}

TEST_F(NpyTest, RefusesOtherArraysByName) {
  auto bad = [&](const std::string &header, const std::string &why) {
    EXPECT_THAT(refused(header, six), fails(CRIA_INVALID_ARGUMENT, why));
  };
  for (const char *type : {">f4", "<i4", "|O", "<V2", "<c8", "=f4", ""})
    bad(headerOf(type, "(2, 3)"), "'descr' is '" + std::string(type) + "'");
  bad("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
      "expected the type, a string, at byte 10");
  bad("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
      "'fortran_order' is 'True', expected False");
  bad(headerOf("<f4", "(6,)"), "'shape' has 1 dimensions");
  bad(headerOf("<f4", "()"), "'shape' has 0 dimensions");
  bad(headerOf("<f4", "(1, 2, 3)"), "more than two dimensions");
  bad(headerOf("<f4", "(-2, 3)"), "'shape' has '', expected a size");
  bad(headerOf("<f4", "(2L, 3)"), "'shape' has '2L', expected a size");
  bad(headerOf("<f4", "(9999999999999999999, 3)"), "expected a size");
}

TEST_F(NpyTest, RefusesHeadersThatAreNone) {
  for (const char *text :
       {"", "{", "{}", "{'descr'", "{'descr': '<f4'", "{'shape': (",
        "{'shape': (2, 3)}", "{'descr': '<f4', 'descr': '<f4'}", "{'other': 1}",
        "[]", "{'shape': (2 3)}", "{'descr: '<f4'}"})
    EXPECT_EQ(refused(text).code(), CRIA_INVALID_ARGUMENT) << text;
  EXPECT_THAT(refused(headerOf("<f4", "(2, 3)") + "x"),
              fails(CRIA_INVALID_ARGUMENT, "unexpected text at byte"));
  EXPECT_THAT(refused("{'descr': '<f4', 'shape': (2, 3)}"),
              fails(CRIA_INVALID_ARGUMENT, "'fortran_order' is missing"));
  EXPECT_THAT(read(npyOf("{}", "", 4)).status(),
              fails(CRIA_INVALID_ARGUMENT, "is of version 4.0"));
  EXPECT_THAT(refused(std::string(20000, ' ')),
              fails(CRIA_INVALID_ARGUMENT, "a header of 20000 bytes"));
}

TEST_F(NpyTest, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(refused(headerOf("<f4", "(2, 3)"), six + "x"),
              fails(CRIA_DATA_LOSS, "25 bytes of data, expected 24"));
  EXPECT_THAT(refused(headerOf("<f4", "(4294967296, 4294967296)")),
              fails(CRIA_OUT_OF_RANGE, "expected at most 100 numbers"));
  EXPECT_THAT(read(npyHeader({2, 3}) + six, 5).status(),
              fails(CRIA_OUT_OF_RANGE, "shape [2, 3], expected at most 5"));
}

TEST_F(NpyTest, FindsEveryTruncation) {
  std::string whole = npyHeader({2, 3}) + six;
  for (size_t size = 0; size < whole.size(); ++size) {
    Status status = read(whole.substr(0, size)).status();
    EXPECT_THAT(status.message(), HasSubstr("x.npy: ")) << size;
    EXPECT_NE(status.code(), CRIA_OK) << size;
  }
}

TEST_F(NpyTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(readNpyMatrix(folder.path("none"), 9).status(),
              fails(CRIA_NOT_FOUND, "none"));
  EXPECT_FALSE(readNpyMatrix(folder.path(), 9).ok());
}
