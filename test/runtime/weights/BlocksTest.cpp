/// Compared with the gguf package of llama.cpp: data/make_block_goldens.py says
/// how the goldens were made.
#include "runtime/weights/Blocks.h"

#include "runtime/base/Json.h"
#include "runtime/weights/Floats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace cria;
using testing::AllOf;
using testing::Each;
using testing::Eq;
using testing::Ge;
using testing::Le;

using Bytes = std::vector<std::byte>;

static Bytes bytesOfHex(const std::string &digits) {
  Bytes bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(
        static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

static DType typeNamed(const std::string &name) {
  for (DType type :
       {DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,
        DType::Q2_K, DType::Q3_K, DType::Q4_K, DType::Q5_K, DType::Q6_K,
        DType::IQ4_NL, DType::IQ4_XS, DType::MXFP4})
    if (name == dtypeName(type))
      return type;
  ADD_FAILURE() << name;
  return DType::F32;
}

static JsonDocument goldens() {
  auto read =
      readJson(CRIA_SOURCE_FOLDER "/test/runtime/data/block_goldens.json");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? std::move(*read) : JsonDocument();
}

/// `count` elements of `from` as another type.
static Bytes converted(const Bytes &from, DType fromType, DType type) {
  uint64_t count = elementsOf(fromType, from.size());
  Bytes to(bytesOf(type, count));
  convertElements(from.data(), fromType, to.data(), type, count);
  return to;
}

static Bytes bytesOfFloats(const std::vector<float> &values) {
  auto *begin = reinterpret_cast<const std::byte *>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(float));
}

static std::vector<float> floatsOf(const Bytes &bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The elements of blocks that `convertElements` wrote.
static std::vector<float> elementsOf(const Bytes &blocks, DType type) {
  if (type != DType::FP8)
    return floatsOf(converted(blocks, type, DType::F32));
  std::vector<float> values;
  for (size_t at = 0; at < blocks.size(); at += 34) {
    uint16_t scale;
    std::memcpy(&scale, &blocks[at], sizeof(scale));
    for (size_t i = at + 2; i < at + 34; ++i)
      values.push_back(widenF16(scale) / 256 *
                       widenF8(static_cast<uint8_t>(blocks[i])));
  }
  return values;
}

TEST(Blocks, QuantizesAsGgmlDoes) {
  int cases = 0;
  JsonDocument document = goldens();
  for (const nlohmann::json &golden : document.root()) {
    Bytes from = bytesOfHex(golden["from"]);
    if (from.empty())
      continue;
    ++cases;
    EXPECT_EQ(converted(from, DType::F32, typeNamed(golden["type"])),
              bytesOfHex(golden["blocks"]))
        << golden["type"] << ": " << golden["case"];
  }
  EXPECT_EQ(cases, 32);
}

TEST(Blocks, DequantizesAsGgmlDoes) {
  JsonDocument document = goldens();
  for (const nlohmann::json &golden : document.root())
    EXPECT_EQ(converted(bytesOfHex(golden["blocks"]), typeNamed(golden["type"]),
                        DType::F32),
              bytesOfHex(golden["elements"]))
        << golden["type"] << ": " << golden["case"];
}

// 288 elements: one stretch of 256, and one that is shorter.
TEST(Blocks, ConvertsThroughF32) {
  std::vector<float> values;
  for (int i = 0; i < 288; ++i)
    values.push_back(std::sin(static_cast<float>(i)));
  Bytes single = bytesOfFloats(values);
  Bytes narrow = converted(single, DType::F32, DType::BF16);
  Bytes wide = converted(narrow, DType::BF16, DType::F32);
  Bytes eight = converted(wide, DType::F32, DType::Q8_0);
  EXPECT_EQ(converted(narrow, DType::BF16, DType::Q8_0), eight);
  Bytes back = converted(eight, DType::Q8_0, DType::F32);
  EXPECT_EQ(converted(eight, DType::Q8_0, DType::Q4_0),
            converted(back, DType::F32, DType::Q4_0));
  EXPECT_EQ(converted(eight, DType::Q8_0, DType::F16),
            converted(back, DType::F32, DType::F16));
}

TEST(Blocks, KeepAnErrorOfHalfAStep) {
  std::vector<float> values;
  for (int i = 0; i < 4096; ++i)
    values.push_back(std::sin(static_cast<float>(i * i)));
  Bytes eight = converted(bytesOfFloats(values), DType::F32, DType::Q8_0);
  std::vector<float> back = floatsOf(converted(eight, DType::Q8_0, DType::F32));
  for (size_t i = 0; i < values.size(); ++i)
    back[i] -= values[i];
  // Of a scale of at most 1 / 127; and the scale's own rounding in f16.
  EXPECT_THAT(back, Each(AllOf(Ge(-0.0045f), Le(0.0045f))));
}

// All finite floats, in blocks with a scale of 1 each: 448 is in each.
TEST(Blocks, FloatsOfEightBitsStayAsTheyAre) {
  std::vector<float> values;
  Bytes expected;
  for (int i = 0; i < 256; ++i) {
    auto code = static_cast<uint8_t>(i % 32 == 0      ? 0x7e
                                     : i % 128 == 127 ? 0xfe
                                                      : i);
    if (i % 32 == 0) {
      expected.push_back(std::byte(0x00)); // 256 in f16
      expected.push_back(std::byte(0x5c));
    }
    expected.push_back(std::byte(code));
    values.push_back(widenF8(code));
  }
  Bytes single = bytesOfFloats(values);
  EXPECT_EQ(converted(single, DType::F32, DType::FP8), expected);
  EXPECT_EQ(elementsOf(expected, DType::FP8), values);
}

TEST(Blocks, NanStaysInItsBlock) {
  float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {std::nanf(""), infinity, -infinity})
    for (DType type : {DType::Q8_0, DType::Q4_0, DType::FP8}) {
      std::vector<float> values(96, 1.0f);
      values[40] = bad;
      std::vector<float> back =
          elementsOf(converted(bytesOfFloats(values), DType::F32, type), type);
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(std::isfinite(back[i]), i / 32 != 1)
            << dtypeName(type) << " " << i;
    }
}

// The reciprocal of such a scale is infinite.
TEST(Blocks, SubnormalNumbersBecomeZeros) {
  std::vector<float> values(32, -1e-40f);
  for (DType type : {DType::Q8_0, DType::Q4_0, DType::FP8})
    EXPECT_THAT(
        elementsOf(converted(bytesOfFloats(values), DType::F32, type), type),
        Each(Eq(0.0f)));
}

TEST(Blocks, RowsHoldWholeBlocks) {
  EXPECT_EQ(tensorBytes({2, 64}, DType::Q8_0), 136u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::Q4_0), 72u);
  EXPECT_EQ(tensorBytes({3, 512}, DType::Q4_K), 864u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::Q4_1), 80u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::Q5_0), 88u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::Q5_1), 96u);
  EXPECT_EQ(tensorBytes({3, 512}, DType::Q5_K), 1056u);
  EXPECT_EQ(tensorBytes({3, 512}, DType::Q6_K), 1260u);
  EXPECT_EQ(tensorBytes({3, 512}, DType::Q2_K), 504u);
  EXPECT_EQ(tensorBytes({3, 512}, DType::Q3_K), 660u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::IQ4_NL), 72u);
  EXPECT_EQ(tensorBytes({3, 512}, DType::IQ4_XS), 816u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::MXFP4), 68u);
  EXPECT_EQ(tensorBytes({2, 64}, DType::FP8), 136u);
  EXPECT_EQ(tensorBytes({2, 48}, DType::Q8_0), std::nullopt);
  EXPECT_EQ(tensorBytes({64, 2}, DType::Q8_0), std::nullopt);
  EXPECT_EQ(tensorBytes({2, 64}, DType::Q6_K), std::nullopt);
  EXPECT_EQ(tensorBytes({}, DType::Q8_0), std::nullopt);
}

TEST(Blocks, SizesThatOverflowAreNone) {
  uint64_t large = uint64_t(1) << 40;
  EXPECT_EQ(tensorBytes({large, large}, DType::Q8_0), std::nullopt);
  EXPECT_EQ(tensorBytes({large, large}, DType::F32), std::nullopt);
  EXPECT_EQ(tensorBytes({large / 64, large}, DType::F64), std::nullopt);
  EXPECT_EQ(packedBytes({large, large}, 4), std::nullopt);
  // 2^63 elements: more bits than 64 can count, fewer bytes.
  EXPECT_EQ(tensorBytes({uint64_t(1) << 31, uint64_t(1) << 32}, DType::F8_E4M3),
            uint64_t(1) << 63);
}

// To nearest even, from halfway between two and from either side of it.
TEST(Floats, NarrowsToF8) {
  for (int code = 0; code < 0x7e; ++code) {
    float low = widenF8(static_cast<uint8_t>(code)),
          high = widenF8(static_cast<uint8_t>(code + 1));
    float middle = (low + high) / 2;
    EXPECT_EQ(narrowToF8(low), code);
    EXPECT_EQ(narrowToF8(-low), code | 0x80);
    EXPECT_EQ(narrowToF8(middle), code + code % 2);
    EXPECT_EQ(narrowToF8(std::nextafter(middle, low)), code);
    EXPECT_EQ(narrowToF8(std::nextafter(middle, high)), code + 1);
  }
  EXPECT_EQ(narrowToF8(449), 0x7e);
  EXPECT_EQ(narrowToF8(-1e6f), 0xfe);
}

// OCP 8-bit Floating Point Specification, table 1.
TEST(Floats, WidensF8) {
  EXPECT_EQ(widenF8(0x00), 0.0f);
  EXPECT_EQ(widenF8(0x01), 0x1p-9f);
  EXPECT_EQ(widenF8(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(widenF8(0x08), 0x1p-6f);
  EXPECT_EQ(widenF8(0x38), 1.0f);
  EXPECT_EQ(widenF8(0x7e), 448.0f);
  EXPECT_EQ(widenF8(0xfe), -448.0f);
  EXPECT_TRUE(std::isnan(widenF8(0x7f)));
  EXPECT_TRUE(std::isnan(widenF8(0xff)));
}
