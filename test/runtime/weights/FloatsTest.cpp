#include "runtime/weights/Floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace cria;

static constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Floats, WidensEveryF16AndBackUnchanged) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float wide = widenF16(static_cast<uint16_t>(bits));
    if (!std::isnan(wide))
      ASSERT_EQ(narrowToF16(wide), bits);
    else
      ASSERT_TRUE(std::isnan(widenF16(narrowToF16(wide)))) << bits;
  }
  EXPECT_EQ(widenF16(0x3c00), 1.0f);
  EXPECT_EQ(widenF16(0x0001), 0x1p-24f);
  EXPECT_EQ(widenF16(0x7bff), 65504.0f);
  EXPECT_EQ(widenF16(0xfc00), -infinity);
}

TEST(Floats, NarrowsToTheNearestEven) {
  EXPECT_EQ(narrowToF16(65519.9f), 0x7bff);
  EXPECT_EQ(narrowToF16(65520.0f), 0x7c00);
  EXPECT_EQ(narrowToF16(0x1p-25f), 0x0000);        // tie to zero
  EXPECT_EQ(narrowToF16(0x1.8p-24f), 0x0002);      // tie to even
  EXPECT_EQ(narrowToF16(-(1 + 0x1p-11f)), 0xbc00); // tie down
  EXPECT_EQ(narrowToF16(1 + 0x1.8p-10f), 0x3c02);  // tie up
  EXPECT_EQ(narrowToBf16(1 + 0x1p-8f), 0x3f80);    // tie down
  EXPECT_EQ(narrowToBf16(1 + 0x1.8p-7f), 0x3f82);  // tie up
  EXPECT_EQ(narrowToBf16(-infinity), 0xff80);
  EXPECT_EQ(narrowToBf16(3.4e38f), 0x7f80);
  EXPECT_TRUE(std::isnan(widenBf16(narrowToBf16(std::nanf("")))));
}

// 1 + 2^-8 is a tie of bf16; a trace above it, lost in f32, decides.
TEST(Floats, RoundsDoublesOnce) {
  EXPECT_EQ(narrowToBf16(static_cast<float>(1 + 0x1p-8 + 0x1p-40)), 0x3f80);
  EXPECT_EQ(narrowToBf16(roundToOdd(1 + 0x1p-8 + 0x1p-40)), 0x3f81);
  EXPECT_EQ(narrowToBf16(roundToOdd(-(1 + 0x1p-8 + 0x1p-40))), 0xbf81);
  EXPECT_EQ(narrowToBf16(roundToOdd(1 + 0x1p-8 - 0x1p-40)), 0x3f80);
  EXPECT_EQ(narrowToBf16(roundToOdd(1e300)), 0x7f80);
  EXPECT_EQ(roundToOdd(0.5), 0.5f);
  EXPECT_TRUE(std::isnan(roundToOdd(std::nan(""))));
}

TEST(Floats, ConvertsUnalignedElements) {
  alignas(8) std::byte from[1 + 2 * 8];
  alignas(8) std::byte to[1 + 2 * 2];
  double values[] = {1 + 0x1p-8 + 0x1p-40, -2};
  std::memcpy(from + 1, values, sizeof(values));
  convertElements(from + 1, DType::F64, to + 1, DType::BF16, 2);
  uint16_t result[2];
  std::memcpy(result, to + 1, sizeof(result));
  EXPECT_EQ(result[0], 0x3f81);
  EXPECT_EQ(result[1], 0xc000);
}
