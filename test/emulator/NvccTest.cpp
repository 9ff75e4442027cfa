// CUDA C++ kernels compiled by nvcc agree with plain C++: reductions, scans,
// atomics and the order of blocks. Each runs in order and under two seeds.
#include "test/emulator/Nvcc.h"
#include "test/emulator/Device.h"

#include <algorithm>
#include <numeric>

namespace cria::emulator {
namespace {

class Nvcc : public testing::TestWithParam<uint64_t> {
protected:
  void SetUp() override { device.seed = GetParam(); }
  TestDevice device;
};

INSTANTIATE_TEST_SUITE_P(Seeds, Nvcc, testing::Values(0, 1, 2));

std::vector<int> numbers(size_t count, int modulus) {
  std::vector<int> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = int(i * 2654435761u % unsigned(modulus)) - modulus / 2;
  return values;
}

TEST_P(Nvcc, ReducesByShuffles) {
  LOAD_CUDA(device, "reduce_shuffle");
  std::vector<float> in(10000, 0.25f);
  auto x = device.upload(in), y = device.allocate(4 * 8);
  device.run("reduce", {8}, {256}, 0, x, y, 10000);
  auto out = device.download<float>(y, 8);
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0.0f), 2500.0f);
}

TEST_P(Nvcc, ReducesByATree) {
  LOAD_CUDA(device, "reduce_tree");
  auto in = numbers(5000, 1 << 20);
  auto x = device.upload(in), y = device.upload(std::vector<int>{INT32_MIN});
  device.run("reduce", {20}, {256}, 0, x, y, 5000);
  EXPECT_EQ(device.download<int>(y, 1)[0],
            *std::max_element(in.begin(), in.end()));
}

TEST_P(Nvcc, Transposes) {
  LOAD_CUDA(device, "transpose");
  int rows = 70, columns = 45;
  std::vector<float> in(size_t(rows) * columns);
  std::iota(in.begin(), in.end(), 0.0f);
  auto x = device.upload(in), y = device.allocate(in.size() * 4);
  device.run("transpose", {2, 3}, {32, 8}, 0, x, y, rows, columns);
  auto out = device.download<float>(y, in.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      ASSERT_EQ(out[size_t(c * rows + r)], in[size_t(r * columns + c)]);
}

TEST_P(Nvcc, Scans) {
  LOAD_CUDA(device, "scan");
  auto in = numbers(3 * 200, 1000);
  auto x = device.upload(in), y = device.allocate(in.size() * 4);
  device.run("scan", {3}, {200}, 200 * 8, x, y);
  auto out = device.download<int>(y, in.size());
  for (size_t block = 0; block < 3; ++block) {
    auto begin = in.begin() + long(block * 200);
    std::vector<int> expected(200);
    std::partial_sum(begin, begin + 200, expected.begin());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           out.begin() + long(block * 200)));
  }
}

TEST_P(Nvcc, LooksBack) {
  LOAD_CUDA(device, "look_back");
  constexpr uint32_t kBlocks = 100, kThreads = 64;
  std::vector<uint32_t> in(kBlocks * kThreads), expected(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = uint32_t(i * 2654435761u);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  auto x = device.upload(in), y = device.allocate(in.size() * 4);
  for (int round = 0; round < 20; ++round) {
    auto words = device.upload(std::vector<uint64_t>(kBlocks));
    auto ticket = device.upload(std::vector<uint32_t>(1));
    device.run("scan", {kBlocks}, {kThreads}, 0, x, y, words, ticket);
    ASSERT_EQ(device.download<uint32_t>(y, in.size()), expected) << round;
  }
}

TEST_P(Nvcc, CountsBytes) {
  LOAD_CUDA(device, "histogram");
  std::vector<uint8_t> in(20000);
  std::vector<unsigned> expected(256);
  for (size_t i = 0; i < in.size(); ++i)
    ++expected[in[i] = uint8_t(i * i >> 5)];
  auto x = device.upload(in), y = device.upload(std::vector<unsigned>(256));
  device.run("histogram", {5}, {128}, 0, x, y, int(in.size()));
  EXPECT_EQ(device.download<unsigned>(y, 256), expected);
}

TEST_P(Nvcc, TakesDivergentWays) {
  LOAD_CUDA(device, "divergence");
  auto collatz = [](unsigned n) {
    int steps = 0;
    for (; n != 1; ++steps)
      n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
  };
  int n = 1000;
  auto y = device.allocate(size_t(n) * 4);
  device.run("diverge", {8}, {128}, 0, y, n);
  auto out = device.download<int>(y, size_t(n));
  for (int i = 0; i < n; ++i) {
    const int ways[] = {
        collatz(unsigned(i) + 1),        -i,    i * i, i << (i % 5), i / 3,
        __builtin_popcount(unsigned(i)), i % 11};
    int expected = ways[i % 7] + (i % 3 ? 0 : collatz(unsigned(i) + 5));
    ASSERT_EQ(out[size_t(i)], expected) << i;
  }
}

TEST_P(Nvcc, LetsTheLastBlockFinish) {
  LOAD_CUDA(device, "last_block");
  auto in = numbers(16 * 128, 5000);
  auto x = device.upload(in), parts = device.allocate(64),
       y = device.allocate(8);
  for (int round = 0; round < 2; ++round) {
    device.run("sum", {16}, {128}, 0, x, parts, y);
    EXPECT_EQ(device.download<long long>(y, 1)[0],
              std::accumulate(in.begin(), in.end(), 0LL));
  }
}

static std::vector<float> jagged(size_t n) {
  std::vector<float> a(n);
  for (size_t i = 0; i < n; ++i)
    a[i] = float(i * 37 % 101);
  return a;
}

/// `out` is `a`, each element averaged with its neighbours `rounds` times.
static void expectSmoothed(std::vector<float> a, int rounds,
                           const std::vector<float> &out) {
  size_t n = a.size();
  for (std::vector<float> b(n); rounds > 0; --rounds, std::swap(a, b))
    for (size_t i = 0; i < n; ++i)
      b[i] = (a[(i + n - 1) % n] + 2 * a[i] + a[(i + 1) % n]) / 4;
  for (size_t i = 0; i < n; ++i)
    ASSERT_NEAR(out[i], a[i], 1e-4);
}

TEST_P(Nvcc, MeetsAtAGridBarrier) {
  LOAD_CUDA(device, "grid_barrier");
  device.cooperative = true;
  size_t n = 6 * 64;
  std::vector<float> a = jagged(n), b(n);
  auto x = device.upload(a), y = device.upload(b),
       count = device.upload(std::vector<unsigned>{0});
  device.run("smooth", {6}, {64}, 0, x, y, count, 4);
  expectSmoothed(a, 4, device.download<float>(x, n));
}

TEST_P(Nvcc, WaitsForEarlierBlocks) {
  LOAD_CUDA(device, "spin");
  std::vector<int> in(100);
  std::iota(in.begin(), in.end(), 1);
  std::vector<int> zeros(100);
  auto x = device.upload(in), sums = device.upload(zeros),
       flags = device.upload(zeros), ticket = device.upload(zeros);
  device.run("chain", {100}, {32}, 0, x, sums, flags, ticket);
  EXPECT_EQ(device.download<int>(sums, 100)[99], 5050);
}

TEST_P(Nvcc, KnowsTheSpacesOfMemory) {
  LOAD_CUDA(device, "spaces");
  struct Settings {
    char tag;
    short offsets[3];
    double scale;
  } settings = {'a', {-3, 5, 1000}, 0.125};
  auto y = device.allocate(32 * 8);
  device.run("spaces", {1}, {32}, 0, settings, y);
  const int powers[] = {1, 3, 9, 27, 81, 243, 729, 2187};
  const long long table[] = {1LL << 40, -5, 7, 1LL << 33};
  auto localOf = [&](int t, int at) {
    for (int i = 0; i < 16; ++i)
      if ((i * 5 + t) % 16 == at)
        return powers[(i + t) % 8] + i;
    return 0;
  };
  auto out = device.download<double>(y, 32);
  for (int t = 0; t < 32; ++t) {
    int either = t % 2 ? localOf(31 - t, (31 - t) % 16) : localOf(t, t % 16);
    long long big = table[t % 4] * either + table[2 + t % 2];
    EXPECT_EQ(out[size_t(t)], double(big / (t + 3) % 1000003) * 0.125 +
                                  settings.offsets[t % 3] + 'a')
        << t;
  }
}

TEST_P(Nvcc, VotesAndMatches) {
  LOAD_CUDA(device, "warp_ops");
  std::vector<unsigned> in(64);
  for (unsigned i = 0; i < 64; ++i)
    in[i] = i * i % 97;
  auto x = device.upload(in), y = device.allocate(64 * 32);
  device.run("warpOps", {1}, {64}, 0, x, y);
  auto out = device.download<unsigned>(y, 64 * 8);
  for (unsigned t = 0; t < 64; ++t) {
    const unsigned *warp = &in[t / 32 * 32], *mine = &out[t * 8];
    unsigned odd = 0, equal = 0, sum = 0, three = 0, rank = 0, any = 0;
    int most = INT32_MIN;
    for (unsigned l = 0; l < 32; ++l) {
      odd |= (warp[l] & 1) << l;
      equal |= unsigned(warp[l] % 5 == in[t] % 5) << l;
      sum += warp[l];
      most = std::max(most, int(warp[l]) - 500);
      three += warp[l] % 3 == 0;
      rank += warp[l] % 3 == 0 && l < t % 32;
      any |= warp[l] == 7;
    }
    unsigned twos = unsigned(
        std::count_if(in.begin(), in.end(), [](unsigned v) { return v & 2; }));
    EXPECT_EQ(mine[0], odd);
    EXPECT_EQ(mine[1], any * 2 + 1);
    EXPECT_EQ(mine[2], equal);
    EXPECT_EQ(mine[3], sum);
    EXPECT_EQ(int(mine[4]), most);
    EXPECT_EQ(mine[5], warp[(t % 32 & ~7u) | ((t ^ 5) & 7)]);
    EXPECT_EQ(mine[6], twos);
    EXPECT_EQ(mine[7], in[t] % 3 ? 0 : three * 100 + rank);
  }
}

TEST_P(Nvcc, DividesIn128Bits) {
  LOAD_CUDA(device, "int128");
  using Unsigned = unsigned __int128;
  constexpr size_t kCount = 512;
  std::vector<__int128> in(2 * kCount);
  uint64_t word = 88172645463325252;
  auto next = [&] {
    word ^= word << 13, word ^= word >> 7, word ^= word << 17;
    return word;
  };
  for (size_t i = 0; i < in.size(); ++i) {
    auto wide = Unsigned(next()) << 64 | next();
    in[i] = __int128(wide >> (i * 5 % 127)) * (i % 3 ? 1 : -1);
    if (i % 2 && in[i] == 0)
      in[i] = 1;
  }
  auto x = device.upload(in), y = device.allocate(kCount * 4 * 16);
  device.run("divide", {4}, {128}, 0, x, y);
  auto out = device.download<__int128>(y, kCount * 4);
  for (size_t i = 0; i < kCount; ++i) {
    __int128 a = in[2 * i], b = in[2 * i + 1];
    ASSERT_TRUE(out[4 * i] == a / b) << i;
    ASSERT_TRUE(out[4 * i + 1] == a % b) << i;
    ASSERT_TRUE(Unsigned(out[4 * i + 2]) == Unsigned(a) / Unsigned(b)) << i;
    ASSERT_TRUE(Unsigned(out[4 * i + 3]) == Unsigned(a) % Unsigned(b)) << i;
  }
}

/// CUB's look-back publishes a sum and its state in one access of 8 bytes or of
/// 16, and no fence is needed.
TEST_P(Nvcc, RunsCub) {
  LOAD_CUDA(device, "cub");
  constexpr uint32_t kBlocks = 40, kThreads = 128, kTile = 512;
  constexpr uint64_t kStates = (kBlocks + 32) * 16 + 512;
  auto in = numbers(kBlocks * kTile, 1000);
  auto x = device.upload(in), y = device.upload(std::vector<int>{5});
  device.run("sum", {7}, {kThreads}, 0, x, y, int(in.size()));
  EXPECT_EQ(device.download<int>(y, 1)[0],
            std::accumulate(in.begin(), in.end(), 5));

  auto states = device.allocate(kStates);
  std::vector<int> sums(in.size());
  std::partial_sum(in.begin(), in.end(), sums.begin());
  device.run("beginInt", {1}, {kThreads}, 0, states, kStates, kBlocks);
  device.run("scanInt", {kBlocks}, {kThreads}, 0, x, states, kStates,
             device.upload(std::vector<int>{0}));
  EXPECT_EQ(device.download<int>(x, in.size()), sums);

  auto wide = device.upload(std::vector<double>(in.begin(), in.end()));
  device.run("beginDouble", {1}, {kThreads}, 0, states, kStates, kBlocks);
  device.run("scanDouble", {kBlocks}, {kThreads}, 0, wide, states, kStates,
             device.upload(std::vector<int>{0}));
  EXPECT_EQ(device.download<double>(wide, in.size()),
            std::vector<double>(sums.begin(), sums.end()));

  std::vector<std::pair<unsigned, int>> pairs(in.size());
  for (size_t i = 0; i < pairs.size(); ++i)
    pairs[i] = {unsigned(in[i]), int(i)};
  for (auto tile = pairs.begin(); tile != pairs.end(); tile += kTile)
    std::sort(tile, tile + kTile); // by number where keys are the same
  std::vector<int> places(in.size());
  std::iota(places.begin(), places.end(), 0);
  auto keys = device.upload(in), values = device.upload(places);
  device.run("sort", {kBlocks}, {kThreads}, 0, keys, values);
  auto key = device.download<unsigned>(keys, in.size());
  auto value = device.download<int>(values, in.size());
  for (size_t i = 0; i < pairs.size(); ++i)
    ASSERT_EQ(std::pair(key[i], value[i]), pairs[i]) << i;
}

TEST_P(Nvcc, MeetsInCooperativeGroups) {
  LOAD_CUDA(device, "groups");
  device.cooperative = true;
  size_t n = 6 * 64;
  std::vector<float> a = jagged(n), b(n);
  auto x = device.upload(a), y = device.upload(b);
  EXPECT_TRUE(device.launch("smooth", {6}, {64}, 0, x, y, 4, 0).finding);
  x = device.upload(a);
  device.run("smooth", {6}, {64}, 0, x, y, 4, 1);
  expectSmoothed(a, 4, device.download<float>(x, n));
  // Only a cooperative launch has a barrier of the grid.
  device.cooperative = false;
  LaunchResult alone = device.launch("smooth", {6}, {64}, 0, x, y, 1, 1);
  ASSERT_TRUE(alone.finding);
  EXPECT_EQ(alone.finding->kind, Finding::Trap);
}

TEST_P(Nvcc, ReducesInTilesOfAWarp) {
  LOAD_CUDA(device, "groups");
  auto in = numbers(128, 1000);
  auto x = device.upload(in), y = device.allocate(in.size() * 16);
  device.run("groups", {1}, {128}, 0, x, y);
  auto out = device.download<int>(y, in.size() * 4);
  for (size_t t = 0; t < in.size(); ++t) {
    auto tile = in.begin() + long(t / 8 * 8),
         warp = in.begin() + long(t / 32 * 32);
    EXPECT_EQ(out[t * 4], std::accumulate(tile, tile + 8, 0)) << t;
    EXPECT_EQ(out[t * 4 + 1],
              std::accumulate(tile, in.begin() + long(t) + 1, 0));
    EXPECT_EQ(out[t * 4 + 2],
              std::count_if(warp, warp + 32, [](int v) { return v % 2; }));
    EXPECT_EQ(out[t * 4 + 3], std::accumulate(in.begin(), in.end(), 0));
  }
}

} // namespace
} // namespace cria::emulator
