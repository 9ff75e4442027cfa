// The checks find planted bugs and name the place; kernels that are right are
// not accused.
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
