// The checks find planted bugs and name the place; correct kernels pass.
#include "test/emulator/Device.h"
#include "test/emulator/PlantedKernels.h"

#include <gmock/gmock.h>
#include <sstream>

namespace cria::emulator {
namespace {

LaunchResult runPlanted(const PlantedKernel &kernel, const std::string &ptx,
                        uint64_t seed) {
  TestDevice device;
  device.seed = seed;
  device.cooperative = kernel.cooperative;
  EXPECT_EQ(device.load(ptx), "");
  if (!device.program)
    return {};
  auto in = device.upload(std::vector<char>(kernel.inBytes));
  auto out = device.allocate(kernel.outBytes);
  return device.launch("k", kernel.grid, kernel.block, 0, in, out);
}

const PlantedKernel &kernelNamed(const std::string &name) {
  static const auto all = plantedKernels();
  for (const PlantedKernel &kernel : all)
    if (kernel.name == name)
      return kernel;
  abort();
}

/// The lines of `ptx` that a finding names: of a race, both.
std::string linesNamed(const Finding &finding, const std::string &ptx) {
  std::vector<std::string> lines;
  std::istringstream text(ptx);
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  std::string all = finding.headline + finding.details, named;
  const std::string mark = "PTX line ";
  for (size_t at = 0; (at = all.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    named += lines.at(size_t(std::stoi(all.substr(at)) - 1)) + "\n";
  }
  return named;
}

class Right : public testing::TestWithParam<PlantedKernel> {};
INSTANTIATE_TEST_SUITE_P(Kernels, Right, testing::ValuesIn(plantedKernels()),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST_P(Right, IsNotAccused) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    LaunchResult result = runPlanted(GetParam(), GetParam().ptx, seed);
    if (result.finding)
      ADD_FAILURE() << "seed " << seed << ": " << result.finding->headline
                    << "\n"
                    << result.finding->details;
  }
}

class Planted : public testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(Mutants, Planted, testing::ValuesIn(plantedMutants()),
                         [](const auto &info) {
                           return std::string(info.param.kernel) +
                                  info.param.name;
                         });

TEST_P(Planted, IsFoundAndNamed) {
  const Mutant &mutant = GetParam();
  const PlantedKernel &kernel = kernelNamed(mutant.kernel);
  std::string ptx = kernel.ptx;
  size_t at = ptx.find(mutant.from);
  ASSERT_NE(at, std::string::npos) << mutant.from;
  ptx.replace(at, std::strlen(mutant.from), mutant.to);
  LaunchResult result = runPlanted(kernel, ptx, 0);
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, mutant.kind) << result.finding->headline;
  EXPECT_THAT(result.finding->headline,
              testing::StartsWith("kernel 'k', PTX line "));
  EXPECT_THAT(result.finding->headline, testing::HasSubstr("block ("));
  EXPECT_THAT(linesNamed(*result.finding, ptx), testing::HasSubstr(mutant.at))
      << result.finding->headline;
}

/// If a barrier is missing: the reads before it and the writes after it.
TEST(Planted, MissingBarrierNamesBothSides) {
  const PlantedKernel &kernel = kernelNamed("shared");
  std::string ptx = kernel.ptx;
  ptx.replace(ptx.find("bar.sync 0;"), 11, "");
  LaunchResult result = runPlanted(kernel, ptx, 0);
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline, testing::HasSubstr("missing barrier"));
  std::string lines = linesNamed(*result.finding, ptx);
  EXPECT_THAT(lines, testing::HasSubstr("st.shared.u32 [%r4], %r1"));
  EXPECT_THAT(lines, testing::HasSubstr("ld.shared.u32 %r6"));
}

/// What came of reading too early is not what is reported.
TEST(Planted, EarlyReadComesBeforeItsConsequences) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 out", R"(
  .shared .align 4 .b8 index[4];
  .reg .b32 %r<2>;
  .reg .b64 %p<2>;
  ld.param.u64 %p0, [out];
  ld.shared.u32 %r0, [index];
  mad.wide.u32 %p1, %r0, 4, %p0;
  st.global.u32 [%p1], 1;
  ret;
)")),
            "");
  auto out = device.allocate(4);
  LaunchResult result = device.launch("k", {1}, {1}, 0, out);
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, Finding::Uninitialized);
}

/// The other access of a race in global memory is named.
TEST(Planted, RaceInGlobalMemoryNamesBothSides) {
  const PlantedKernel &kernel = kernelNamed("last");
  std::string ptx = kernel.ptx;
  ptx.replace(ptx.find("membar.gl;"), 10, "");
  LaunchResult result = runPlanted(kernel, ptx, 0);
  ASSERT_TRUE(result.finding);
  std::string lines = linesNamed(*result.finding, ptx);
  EXPECT_THAT(lines, testing::HasSubstr("ld.global.u32"));
  EXPECT_THAT(lines, testing::HasSubstr("st.global.u32 [%p2], %r0"));
  EXPECT_THAT(result.finding->details, testing::HasSubstr("by block ("));
}

/// Kernels of one stream follow each other: what one wrote the next may read
/// and write.
TEST(Planted, LaunchesAreOrdered) {
  TestDevice device;
  ASSERT_EQ(device.load(plantedKernels()[0].ptx), "");
  auto a = device.upload(std::vector<int>(1000)), b = device.allocate(4000);
  for (int i = 0; i < 3; ++i) {
    device.run("k", {4}, {256}, 0, a, b);
    device.run("k", {4}, {256}, 0, b, a);
  }
  EXPECT_EQ(device.download<int>(a, 1000), std::vector<int>(1000, 6));
}

/// Many blocks may set one flag to the same value.
TEST(Planted, SameValueInGlobalMemoryIsNoRace) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 out, .param .u32 byBlock", R"(
  .reg .b32 %r<3>;
  .reg .b64 %p<1>;
  .reg .pred %q;
  ld.param.u64 %p0, [out];
  ld.param.u32 %r1, [byBlock];
  mov.u32 %r0, %ctaid.x;
  mul.lo.u32 %r0, %r0, %r1;
  st.global.u32 [%p0], %r0;
  ret;
)")),
            "");
  auto out = device.allocate(4);
  device.run("k", {8}, {32}, 0, out, 0u);
  EXPECT_TRUE(device.launch("k", {8}, {32}, 0, out, 1u).finding);
}

TEST(Planted, SourceLineIsNamed) {
  TestDevice device;
  std::string ptx = plantedKernels()[0].ptx;
  ptx.insert(ptx.find("  ld.global"),
             ".loc 1 77 3\n  .loc 2 5 1, function_name x, inlined_at 1 78 3\n");
  ptx += ".file 1 \"/somewhere/kernel.cu\"\n.file 2 \"helper.h\"\n";
  ASSERT_EQ(device.load(ptx), "");
  auto in = device.allocate(8), out = device.allocate(4000);
  LaunchResult result = device.launch("k", {4}, {256}, 0, in, out);
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline,
              testing::HasSubstr(
                  "(helper.h:5 inlined at kernel.cu:78): out of bounds"));
}

TEST(Planted, UseAfterFreeIsNamed) {
  TestDevice device;
  ASSERT_EQ(device.load(plantedKernels()[0].ptx), "");
  auto in = device.allocate(4000), out = device.allocate(4000);
  device.memory.free(in, Allocation::Device);
  LaunchResult result = device.launch("k", {4}, {256}, 0, in, out);
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, Finding::UseAfterFree);
  EXPECT_THAT(result.finding->details, testing::HasSubstr("which was freed"));
}

TEST(Planted, EndlessLoopIsNamed) {
  TestDevice device;
  device.timeLimit = 0.2;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 p", "again:\nbra again;\n")),
            "");
  LaunchResult result = device.launch("k", {3}, {32}, 0, uint64_t(0));
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline,
              testing::HasSubstr("PTX line 7: endless loop"));
}

TEST(Planted, PointerOfTheHostIsOutOfBounds) {
  TestDevice device;
  ASSERT_EQ(device.load(plantedKernels()[0].ptx), "");
  std::vector<int> host(1000);
  auto out = device.allocate(4000);
  LaunchResult result =
      device.launch("k", {4}, {256}, 0, uint64_t(host.data()), out);
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, Finding::OutOfBounds);
}

} // namespace
} // namespace cria::emulator
