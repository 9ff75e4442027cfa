// Kernels for sm_90a agree with plain C++: a ring of tiles that the TMA fills,
// products of warpgroups, and results that the TMA copies.
#include "test/emulator/Device.h"
#include "test/emulator/HopperKernels.h"
#include "tools/emulator/run/TensorMap.h"

#include <cmath>

namespace cria::emulator {
namespace {

uint16_t bfloatOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float floatOf(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// Small integers, whose sums are exact.
std::vector<uint16_t> integers(size_t count, unsigned seed) {
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = bfloatOf(float(int((i + seed) * 2654435761u >> 16 & 7) - 3));
  return values;
}

/// A matrix in bf16 and the box that is copied at once, 128 bytes wide.
TensorMap mapOf(uint64_t address, uint64_t rows, uint64_t columns,
                uint32_t boxRows) {
  TensorMap map;
  map.rank = map.elementBytes = 2;
  map.swizzleBytes = 128;
  map.address = address;
  map.dims[0] = columns;
  map.dims[1] = rows;
  map.strides[0] = columns * 2;
  map.box[0] = 64;
  map.box[1] = boxRows;
  return map;
}

/// A product of odd sizes, and its result.
struct Gemm {
  GemmKernel kernel;
  uint32_t m = 150, n = 200, k = 328;
  uint64_t seed = 0;

  LaunchResult launch(const std::string &ptx) {
    TestDevice device(90);
    device.seed = seed;
    device.workers = 1; // the first finding is always the same
    device.options.optimization = 0;
    EXPECT_EQ(device.load(ptx), "");
    if (!device.program)
      return {};
    a = integers(size_t(m) * k, 1), b = integers(size_t(n) * k, 7);
    uint64_t result = device.allocate(size_t(m) * n * 2);
    LaunchResult done = device.launch(
        "gemm",
        {(n + kernel.columns - 1) / kernel.columns,
         (m + GemmKernel::kRows - 1) / GemmKernel::kRows},
        {GemmKernel::kThreads}, kernel.sharedBytes(),
        mapOf(device.upload(a), m, k, GemmKernel::kRows),
        mapOf(device.upload(b), n, k, kernel.columns), mapOf(result, m, n, 64),
        (k + GemmKernel::kDepth - 1) / GemmKernel::kDepth);
    c = device.download<uint16_t>(result, size_t(m) * n);
    return done;
  }

  /// The first wrong element, or "".
  std::string firstWrong() const {
    for (size_t row = 0; row < m; ++row)
      for (size_t column = 0; column < n; ++column) {
        float sum = 0;
        for (size_t i = 0; i < k; ++i)
          sum += floatOf(a[row * k + i]) * floatOf(b[column * k + i]);
        if (c[row * n + column] != bfloatOf(sum))
          return "c(" + std::to_string(row) + ", " + std::to_string(column) +
                 ") is " + std::to_string(floatOf(c[row * n + column])) +
                 ", expected " + std::to_string(sum);
      }
    return "";
  }

  std::vector<uint16_t> a, b, c;
};

class Hopper : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Hopper, testing::Values(0, 1, 2, 3));

void expectRight(Gemm gemm) {
  LaunchResult done = gemm.launch(gemm.kernel.ptx());
  if (done.finding)
    ADD_FAILURE() << done.finding->headline << "\n" << done.finding->details;
  else
    EXPECT_EQ(gemm.firstWrong(), "");
}

TEST_P(Hopper, MultipliesThroughARing) {
  Gemm gemm;
  gemm.seed = GetParam();
  expectRight(gemm);
}

TEST_P(Hopper, MultipliesWideTiles) {
  Gemm gemm;
  gemm.seed = GetParam();
  gemm.kernel = {256, 2};
  gemm.m = 40, gemm.n = 264, gemm.k = 136;
  expectRight(gemm);
}

} // namespace
} // namespace cria::emulator
