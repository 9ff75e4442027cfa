// CUDA C++ kernels compiled by nvcc agree with plain C++: floating point,
// asynchronous copies and tensor cores.
#include "test/emulator/Device.h"
#include "test/emulator/Floats.h"
#include "test/emulator/Nvcc.h"

#include <cmath>

namespace cria::emulator {
namespace {

class NvccFloat : public testing::TestWithParam<uint64_t> {
protected:
  void SetUp() override { device.seed = GetParam(); }
  TestDevice device;
};

INSTANTIATE_TEST_SUITE_P(Seeds, NvccFloat, testing::Values(0, 1, 2));

float value(size_t i) { return float(i * 2654435761u % 2003) / 1001.5f - 1; }

std::vector<uint16_t> bfloats(size_t count, size_t from) {
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = toBFloat(value(i + from));
  return values;
}

TEST_P(NvccFloat, TakesTheSoftmax) {
  LOAD_CUDA(device, "softmax");
  size_t rows = 8, columns = 100;
  std::vector<float> in(rows * columns);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = 8 * value(i);
  auto x = device.upload(in), y = device.allocate(in.size() * 4);
  device.run("softmax", {2}, {32, 4}, 0, x, y, int(columns));
  auto out = device.download<float>(y, in.size());
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (size_t c = 0; c < columns; ++c)
      sum += std::exp(double(in[r * columns + c]));
    for (size_t c = 0; c < columns; ++c)
      ASSERT_NEAR(out[r * columns + c],
                  std::exp(double(in[r * columns + c])) / sum, 1e-6);
  }
}

TEST_P(NvccFloat, NormalizesInBFloat) {
  LOAD_CUDA(device, "rmsnorm");
  size_t rows = 3, n = 1024;
  auto x = bfloats(rows * n, 0), w = bfloats(n, 77);
  auto px = device.upload(x), pw = device.upload(w),
       py = device.allocate(rows * n * 2);
  device.run("rmsnorm", {unsigned(rows)}, {unsigned(n / 8)}, 0, px, pw, py,
             int(n), 1e-5f);
  auto out = device.download<uint16_t>(py, rows * n);
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i)
      sum += std::pow(double(fromBFloat(x[r * n + i])), 2);
    double scale = 1 / std::sqrt(sum / double(n) + 1e-5);
    for (size_t i = 0; i < n; ++i) {
      double expected = fromBFloat(x[r * n + i]) * scale * fromBFloat(w[i]);
      ASSERT_NEAR(fromBFloat(out[r * n + i]), expected,
                  std::abs(expected) / 128 + 1e-30);
    }
  }
}

TEST_P(NvccFloat, MultipliesByAVector) {
  LOAD_CUDA(device, "gemv");
  size_t rows = 24, columns = 512;
  auto w = bfloats(rows * columns, 0), x = bfloats(columns, 999);
  auto pw = device.upload(w), px = device.upload(x),
       py = device.allocate(rows * 2);
  device.run("gemv", {6}, {128}, 0, pw, px, py, int(columns));
  auto out = device.download<uint16_t>(py, rows);
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (size_t c = 0; c < columns; ++c)
      sum += double(fromBFloat(w[r * columns + c])) * fromBFloat(x[c]);
    EXPECT_NEAR(fromBFloat(out[r]), sum, std::abs(sum) / 128 + 1e-4);
  }
}

TEST_P(NvccFloat, CopiesWhileItAdds) {
  LOAD_CUDA(device, "async_copy");
  size_t rows = 40;
  std::vector<float> in(rows * 128);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = float(i % 1013);
  auto x = device.upload(in), y = device.allocate(128 * 4);
  device.run("sumColumns", {1}, {128}, 0, x, y, int(rows));
  auto out = device.download<float>(y, 128);
  for (size_t c = 0; c < 128; ++c) {
    float sum = 0;
    for (size_t r = 0; r < rows; ++r)
      sum += in[r * 128 + c];
    EXPECT_EQ(out[c], sum);
  }
}

TEST_P(NvccFloat, MultipliesMatricesOnTensorCores) {
  LOAD_CUDA(device, "matmul");
  size_t m = 128, n = 64, k = 96;
  auto a = bfloats(m * k, 0), b = bfloats(n * k, 4242);
  auto pa = device.upload(a), pb = device.upload(b),
       pc = device.allocate(m * n * 4);
  device.run("matmul", {unsigned(n / 64), unsigned(m / 64)}, {128}, 0, pa, pb,
             pc, int(n), int(k));
  auto out = device.download<float>(pc, m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l)
        sum += double(fromBFloat(a[i * k + l])) * fromBFloat(b[j * k + l]);
      ASSERT_NEAR(out[i * n + j], sum, 1e-4);
    }
}

TEST_P(NvccFloat, ComputesInHalves) {
  LOAD_CUDA(device, "halves");
  std::vector<float> in(64);
  for (size_t i = 0; i < 64; ++i)
    in[i] = 3 * value(i * 7);
  auto x = device.upload(in), y = device.allocate(32 * 8 * 4);
  device.run("halves", {1}, {32}, 0, x, y);
  auto out = device.download<float>(y, 32 * 8);
  for (size_t t = 0; t < 32; ++t) {
    float a = in[2 * t], b = in[2 * t + 1], *mine = &out[t * 8];
    float ha = roundToHalf(a), hb = roundToHalf(b);
    float ba = roundToBFloat(a), bb = roundToBFloat(b);
    EXPECT_EQ(mine[0], roundToHalf(std::fma(double(ha), hb, double(ha))));
    EXPECT_EQ(mine[1], roundToHalf(hb + 2.0f));
    EXPECT_EQ(mine[2], std::max(ha, hb));
    EXPECT_EQ(mine[3], roundToBFloat(float(double(ba) * bb + ba)));
    EXPECT_LE(std::abs(mine[4]), std::abs(a));
    EXPECT_NEAR(mine[4], a, std::abs(a) / 1024);
    EXPECT_LE(std::abs(mine[5]), std::abs(b));
    EXPECT_NEAR(mine[5], b, std::abs(b) / 128);
    EXPECT_EQ(mine[6], std::nearbyint(ha));
    EXPECT_EQ(mine[7], roundToHalf(float(int(a * 100))));
  }
}

/// The mathematics of CUDA's headers and libraries, once: it does not depend on
/// the order of threads.
class NvccMath : public testing::Test {
protected:
  TestDevice device;
};

TEST_F(NvccMath, HalvesOfTheHeader) {
  LOAD_CUDA(device, "half_math");
  std::vector<float> in(64);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = roundToHalf(float(i + 1) / 16);
  auto x = device.upload(in), y = device.allocate(64 * 10 * 4);
  device.run("halfMath", {1}, {64}, 0, x, y);
  auto out = device.download<float>(y, 64 * 10);
  for (size_t t = 0; t < 64; ++t) {
    double v = in[t];
    const double expected[] = {
        std::exp(v),   std::exp2(v), std::pow(10, v), std::log(v), std::log2(v),
        std::log10(v), std::sqrt(v), 1 / v,           std::sin(v), std::cos(v)};
    for (size_t k = 0; k < 10; ++k)
      ASSERT_NEAR(out[t * 10 + k], roundToHalf(expected[k]),
                  std::abs(expected[k]) / 1024 + 1e-3)
          << "function " << k << " of " << v;
  }
}

TEST_F(NvccMath, RoundsHalvesInEveryMode) {
  LOAD_CUDA(device, "half_math");
  std::vector<float> in(256);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = std::ldexp(value(i * 7919), int(i % 40) - 24);
  auto x = device.upload(in), y = device.allocate(256 * 8 * 2);
  device.run("roundings", {1}, {256}, 0, x, y);
  auto out = device.download<uint16_t>(y, 256 * 8);
  for (size_t t = 0; t < 256; ++t) {
    float v = in[t];
    auto half = [](long double exact, const char *mode) {
      return float(roundTo(exact, mode, 10, -14, 65504));
    };
    auto whole = static_cast<long long>(v * 1000);
    const float expected[] = {half(v, "rn"),
                              half(v, "rz"),
                              half(v, "rm"),
                              half(v, "rp"),
                              half(double(v) * 1.0000001, "rn"),
                              half(whole, "rm"),
                              half(whole, "rp"),
                              half(unsigned(std::abs(v) * 1000), "rz")};
    for (size_t k = 0; k < 8; ++k)
      ASSERT_EQ(fromHalf(out[t * 8 + k]), expected[k]) << k << " of " << v;
  }
}

TEST_F(NvccMath, DoublesOfTheLibrary) {
  LOAD_CUDA(device, "math64");
  constexpr size_t kCount = 128;
  std::vector<double> in(3 * kCount), out(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    in[3 * i] = (double(i) + 0.37) / 4; // j0 and y0 lose digits beyond
    in[3 * i + 1] = (double(i * 29 % kCount) + 1.1) / 16;
    in[3 * i + 2] = (double(i) - 63.5) / 64;
  }
  auto x = device.upload(in), y = device.allocate(kCount * 8);
  auto check = [&](const std::string &name, auto expected) {
    device.run("k_" + name, {1}, {unsigned(kCount)}, 0, x, y);
    out = device.download<double>(y, kCount);
    for (size_t i = 0; i < kCount; ++i) {
      auto [got, exact] = expected(&in[3 * i], out[i]);
      if (std::isnan(exact) || std::isinf(exact))
        ASSERT_EQ(std::isnan(got), std::isnan(exact)) << name << " " << i;
      else
        ASSERT_NEAR(got, exact, std::abs(exact) * 2e-14 + 5e-13)
            << name << " " << i;
    }
  };
  using Pair = std::pair<double, double>;
#define CALL(name, argument, value)                                            \
  check(#name, [](const double *in, double r) {                                \
    double x = in[argument], y = in[1];                                        \
    (void)x, (void)y;                                                          \
    return value;                                                              \
  });
#define UNARY(name, reference) CALL(name, 0, Pair(r, double(reference)))
#define BINARY(name, reference) CALL(name, 0, Pair(r, double(reference)))
#define NARROW(name, reference) CALL(name, 2, Pair(r, double(reference)))
#define INVERSE(name, argument, back) CALL(name, 2, Pair(back, argument))
#include "test/emulator/kernels/math64.inc"
}

} // namespace
} // namespace cria::emulator
