// Kernels for sm_90a agree with plain C++: a ring of tiles that the TMA fills,
// products of warpgroups, and results that the TMA copies.
#include "test/emulator/Device.h"
#include "test/emulator/Floats.h"
#include "test/emulator/HopperKernels.h"
#include "tools/emulator/run/async/TensorMap.h"
#include "tools/emulator/run/matrix/MatrixView.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace cria::emulator {
namespace {

/// Small integers, whose sums are exact.
std::vector<uint16_t> integers(size_t count, unsigned seed) {
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = toBFloat(float(int((i + seed) * 2654435761u >> 16 & 7) - 3));
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
        kernel.transposesB ? mapOf(device.upload(b), n, k, kernel.columns)
                           : mapOf(device.upload(b), k, n, 64),
        mapOf(result, m, n, 64),
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
          sum += fromBFloat(a[row * k + i]) *
                 fromBFloat(
                     b[kernel.transposesB ? column * k + i : i * n + column]);
        if (c[row * n + column] != toBFloat(sum))
          return "c(" + std::to_string(row) + ", " + std::to_string(column) +
                 ") is " + std::to_string(fromBFloat(c[row * n + column])) +
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

TEST_P(Hopper, MultipliesAMatrixAlongItsRows) {
  Gemm gemm;
  gemm.seed = GetParam();
  gemm.kernel.transposesB = false;
  expectRight(gemm);
}

/// The kernels are PTX, and ptxas does not put the products one after another.
TEST(HopperKernels, AreRightForPtxas) {
  if (std::system("ptxas --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "ptxas is not installed";
  auto path = std::filesystem::temp_directory_path() /
              ("cria-hopper-" + std::to_string(getpid()) + ".ptx");
  for (GemmKernel kernel :
       {GemmKernel{}, GemmKernel{256, 2}, GemmKernel{128, 3, false}}) {
    std::ofstream(path) << kernel.ptx();
    std::string command = "ptxas -arch=sm_90a -o /dev/null " + path.string();
    EXPECT_EQ(std::system(
                  (command + " && ! " + command + " 2>&1 | grep -q serialized")
                      .c_str()),
              0);
  }
  std::filesystem::remove(path);
}

/// A layout as the PTX manual writes it, ((shape)):((stride)), in units of 16
/// bytes: inside of both indices, the fastest first.
struct Layout {
  const char *name;
  bool isMnMajor;
  uint32_t swizzleBytes, leading, stride; ///< of the descriptor, in units
  uint32_t inner[2][2];                   ///< MN: sizes, strides
  uint32_t outer[2][2];                   ///< K: sizes, strides
};

/// The examples of the manual's canonical layouts: (MN x K) in units along the
/// contiguous dimension.
const Layout kLayouts[] = {
    {"KMajor", false, 0, 16, 8, {{8, 2}, {1, 8}}, {{1, 4}, {0, 16}}},
    {"KMajor32", false, 32, 1, 16, {{8, 2}, {2, 16}}, {{2, 1}, {1, 0}}},
    {"MnMajor", true, 0, 16, 8, {{1, 2}, {1, 8}}, {{8, 2}, {1, 16}}},
    {"MnMajor32", true, 32, 16, 32, {{2, 2}, {1, 16}}, {{8, 2}, {2, 32}}},
    {"MnMajor64", true, 64, 32, 64, {{4, 2}, {1, 32}}, {{8, 2}, {4, 64}}},
    {"MnMajor128", true, 128, 64, 128, {{8, 2}, {1, 64}}, {{8, 2}, {8, 128}}},
    {"KMajor64", false, 64, 1, 32, {{8, 2}, {4, 32}}, {{4, 1}, {1, 0}}},
    {"KMajor128", false, 128, 1, 64, {{8, 2}, {8, 64}}, {{8, 1}, {1, 0}}},
};

TEST(MatrixView, HasTheLayoutsOfTheManual) {
  for (const Layout &layout : kLayouts) {
    const uint64_t kCodes[] = {0, 3, 2, 0, 1}; // of swizzles, by 32 bytes
    uint64_t descriptor = 2048 >> 4 | uint64_t(layout.leading) << 16 |
                          uint64_t(layout.stride) << 32 |
                          kCodes[layout.swizzleBytes / 32] << 62;
    MatrixView view = MatrixView::of(descriptor);
    EXPECT_TRUE(view.isAligned()) << layout.name;
    auto &[sizes, strides] = layout.inner;
    auto &[depths, steps] = layout.outer;
    for (uint32_t i = 0; i < sizes[0] * sizes[1]; ++i)
      for (uint32_t k = 0; k < depths[0] * depths[1]; ++k) {
        uint32_t at = i % sizes[0] * strides[0] + i / sizes[0] * strides[1] +
                      k % depths[0] * steps[0] + k / depths[0] * steps[1];
        uint32_t units = layout.swizzleBytes ? layout.swizzleBytes / 16 : 1;
        uint32_t expected = 2048 + 16 * (at ^ (at / 8 % units));
        EXPECT_EQ(layout.isMnMajor ? view.unitAt(true, i, k)
                                   : view.unitAt(false, k, i),
                  expected)
            << layout.name << " " << i << " " << k;
      }
  }
}

/// One change to the kernel: the first `from` becomes `to`.
struct HopperMutant {
  const char *name, *from, *to;
  const char *finding; ///< part of it; "": results are wrong
};

const HopperMutant kMutants[] = {
    {"ProducerParity", "mov.u32 %parity, 1;", "mov.u32 %parity, 0;",
     "deadlock"},
    {"ConsumerParity", "mov.u32 %parity, 0;", "mov.u32 %parity, 1;", "race: "},
    {"ParityNeverFlips", "xor.b32 %parity, %parity, 1;\n  bra consume",
     "bra consume", "race: "},
    {"NoExpectedBytes",
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 32768;",
     "mbarrier.arrive.shared::cta.b64 _, [%full];", "race: "},
    {"TooFewBytes", "b64 _, [%full], 32768;", "b64 _, [%full], 16384;",
     "deadlock"},
    {"TooManyBytes", "b64 _, [%full], 32768;", "b64 _, [%full], 65536;",
     "deadlock"},
    {"NoBarrierFence", "fence.mbarrier_init.release.cluster;", "",
     "missing fence.mbarrier_init"},
    {"NoBarrierBehindInit", "bar.sync 0;", "", "race: write after write"},
    {"AnotherSwizzle", "0x4000004000000000", "0x8000004000000000",
     "misaligned matrix"},
    {"BaseOffset", "0x4000004000000000", "0x4002004000000000",
     "with a base offset"},
    {"NoSwizzle", "or.b64 %descB, %descB, 0x4000004000000000",
     "or.b64 %descB, %descB, 0x0000004000000000", ""},
    {"RowsOfAnotherStride", "or.b64 %descA, %descA, 0x4000004000000000",
     "or.b64 %descA, %descA, 0x4000002000000000", ""},
    {"MatrixBetweenPatterns", "mad.lo.u32 %at2, %group, 8192, %at;",
     "mad.lo.u32 %at2, %group, 8320, %at;", "misaligned matrix"},
    {"NoWaitForFull", "@!%done bra waitFull;", "", "race: "},
    {"NoWaitForEmpty", "@!%done bra waitEmpty;", "", "race: "},
    {"NoWaitForProducts", "wgmma.wait_group.sync.aligned 1;", "", "race: "},
    {"NoWaitAtTheEnd", "wgmma.wait_group.sync.aligned 0;", "",
     "missing wgmma.wait_group: '%acc1'"},
    {"NoCommit", "wgmma.commit_group.sync.aligned;", "",
     "missing wgmma.wait_group: '%acc1'"},
    {"NoFenceOfRegisters", "wgmma.fence.sync.aligned;", "",
     "missing wgmma.fence: '%acc0'"},
    {"StageReleasedBeforeItsProducts", "[%last];", "[%last+16];", "deadlock"},
    {"ReleasesTheStageItReads",
     "wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 1;\n  "
     "setp.ne.u32 %first, %tile, 0;\n  and.pred %first, %first, %leader;\n  "
     "@%first mbarrier.arrive.shared::cta.b64 _, [%last];",
     "@%leader mbarrier.arrive.shared::cta.b64 _, [%full+8];\n  "
     "wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;",
     "race: "},
    {"ArrivesTwice", "b64 _, [%last];", "b64 _, [%last], 2;", "race: "},
    {"OneConsumerReleases", "+8], 2;", "+8], 1;", "race: "},
    {"TooManyArrivals", "+8], 2;", "+8], 3;", "deadlock"},
    {"StagesOverlap", "mad.lo.u32 %at, %stage, 32768, %base;",
     "mad.lo.u32 %at, %stage, 16384, %base;", "race: "},
    {"AStageTooMany", "setp.ne.u32 %other, %stage, 3;\n  @%other bra produce",
     "setp.ne.u32 %other, %stage, 4;\n  @%other bra produce",
     "out of bounds: mbarrier.try_wait"},
    {"NoProxyFence", "fence.proxy.async.shared::cta;", "",
     "missing fence.proxy.async"},
    {"ProxyFenceOfGlobalMemory", "fence.proxy.async.shared::cta;",
     "fence.proxy.async.global;", "missing fence.proxy.async"},
    {"NoBarrierBeforeStore", "bar.sync %k, 128;", "", "race: read after write"},
    {"NoWaitForStore", "cp.async.bulk.wait_group 0;", "", "has not waited for"},
    {"StoreNotCommitted", "cp.async.bulk.commit_group;", "",
     "has not waited for"},
    {"MisalignedTile", "add.u32 %at2, %at, 16384;\n  cp",
     "add.u32 %at2, %at, 16400;\n  cp", "misaligned target"},
    {"ThreeDimensions",
     "tensor.2d.shared::cluster.global.tile.mbarrier"
     "::complete_tx::bytes [%at], [%a, {%k, %m}]",
     "tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
     "[%at], [%a, {%k, %m, %m}]",
     "tensor map of 2 dimensions"},
    {"RegistersOfOneWarp", "setmaxnreg.dec.sync.aligned.u32 40;",
     "setp.lt.u32 %other, %thread, 32;\n  @%other setmaxnreg.dec.sync.aligned"
     ".u32 40;",
     "different numbers of wgmma or setmaxnreg"},
    {"RegistersOfWarpsDiffer", "setmaxnreg.dec.sync.aligned.u32 40;",
     "setp.lt.u32 %other, %thread, 32;\n  @%other bra few;\n  "
     "setmaxnreg.dec.sync.aligned.u32 40;\n  bra same;\nfew:\n  "
     "setmaxnreg.dec.sync.aligned.u32 24;\nsame:",
     "divergent setmaxnreg"},
    {"TooManyRegisters", "setmaxnreg.dec.sync.aligned.u32 40;",
     "setmaxnreg.dec.sync.aligned.u32 64;", "67584 registers"},
    {"ProductsOfThreeWarps", "consumer:",
     "consumer:\n  setp.ge.u32 %other, %thread, 352;\n  @%other bra exit;",
     "deadlock"},
    {"ProducerOfAnotherMap", "mov.b64 %b, mapB;", "mov.b64 %b, mapC;",
     "deadlock"},
};

class HopperPlanted : public testing::TestWithParam<HopperMutant> {};
INSTANTIATE_TEST_SUITE_P(Mutants, HopperPlanted, testing::ValuesIn(kMutants),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

/// A kernel with a bug is refused, accused or wrong, under one of three seeds.
TEST_P(HopperPlanted, IsFound) {
  const HopperMutant &mutant = GetParam();
  Gemm gemm;
  std::string ptx = gemm.kernel.ptx();
  size_t at = ptx.find(mutant.from);
  ASSERT_NE(at, std::string::npos) << mutant.from;
  ptx.replace(at, std::strlen(mutant.from), mutant.to);
  TestDevice device(90);
  std::string said = device.load(ptx); // why it is refused
  for (gemm.seed = 0; gemm.seed < 3 && said.empty(); ++gemm.seed) {
    LaunchResult done = gemm.launch(ptx);
    said = done.finding ? done.finding->headline : gemm.firstWrong();
  }
  ASSERT_NE(said, "");
  EXPECT_NE(said.find(*mutant.finding ? mutant.finding : "expected"),
            std::string::npos)
      << said;
}

} // namespace
} // namespace cria::emulator
