// Kernels that begin before the previous kernels have ended (programmatic
// dependent launch): before griddepcontrol.wait they must not access memory
// that the previous kernels write.
#include "test/emulator/Device.h"

#include <gmock/gmock.h>

namespace cria::emulator {
namespace {

const char kHead[] = R"(.version 8.0
.target sm_90
.address_size 64
)";

/// A kernel of (from, to): `begin`, to[i] = from[i] + 1, `end`.
std::string kernel(const std::string &name, const std::string &begin,
                   const std::string &end = "") {
  return ".visible .entry " + name +
         "(.param .u64 from, .param .u64 to)\n{\n"
         "  .reg .b32 %r<4>;\n  .reg .b64 %p<4>;\n"
         "  ld.param.u64 %p0, [from];\n  ld.param.u64 %p1, [to];\n"
         "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %ctaid.x;\n"
         "  mad.lo.u32 %r0, %r1, 64, %r0;\n  mul.wide.u32 %p2, %r0, 4;\n"
         "  add.s64 %p0, %p0, %p2;\n  add.s64 %p1, %p1, %p2;\n" +
         begin +
         "  ld.global.u32 %r2, [%p0];\n  add.u32 %r2, %r2, 1;\n"
         "  st.global.u32 [%p1], %r2;\n" +
         end + "  ret;\n}\n";
}

const char kWait[] = "  griddepcontrol.wait;\n";
const char kTrigger[] = "  griddepcontrol.launch_dependents;\n";

/// An instruction that block 0 alone executes.
std::string ofBlock0(const std::string &instruction) {
  return "  .reg .pred %q;\n  setp.eq.u32 %q, %r1, 0;\n  @%q" + instruction;
}

/// An instruction that the first thread of each warp alone executes.
std::string ofLane0(const std::string &instruction) {
  return "  .reg .pred %l;\n  .reg .b32 %m;\n  and.b32 %m, %r0, 31;\n"
         "  setp.eq.u32 %l, %m, 0;\n  @%l" +
         instruction;
}

/// An instruction that the first warp of each block alone executes.
std::string ofWarp0(const std::string &instruction) {
  return "  .reg .pred %w;\n  .reg .b32 %n;\n  mov.u32 %n, %tid.x;\n"
         "  setp.lt.u32 %w, %n, 32;\n  @%w" +
         instruction;
}

class Overlap : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(
        device.load(
            kHead + kernel("plain", "") + kernel("waits", kWait, kTrigger) +
            kernel("late", "", kWait) +
            kernel("early", std::string(kTrigger) + kWait) +
            kernel("oneWaits", ofBlock0(kWait)) +
            kernel("laneWaits", ofLane0(kWait)) +
            kernel("warpWaits", ofWarp0(kWait)) +
            kernel("lanesMeet", ofLane0(kWait) + "  bar.warp.sync -1;\n") +
            kernel("warpsMeet", ofWarp0(kWait) + "  bar.sync 0;\n") +
            kernel("lanesMeetOnly", ofWarp0(kWait) + "  bar.warp.sync -1;\n") +
            kernel("oneIsEarly", ofBlock0(kTrigger) + kWait)),
        "");
    for (uint64_t *buffer : {&a, &b, &c, &d, &e})
      *buffer = device.upload(std::vector<int>(256));
  }

  /// Launches a kernel that may begin early; what is wrong, or "".
  std::string overlapping(const std::string &name, uint64_t from, uint64_t to) {
    device.overlaps = true;
    LaunchResult result = device.launch(name, {4}, {64}, 0, from, to);
    device.overlaps = false;
    return result.finding ? result.finding->headline + result.finding->details
                          : "";
  }
  void first(uint64_t from, uint64_t to) {
    device.run("plain", {4}, {64}, 0, from, to);
  }

  /// Launches three kernels: the first writes what the last reads, `middle` in
  /// between touches neither. `finding` is part of what is wrong with the last.
  void expectThroughTwo(const std::string &middle, const std::string &last,
                        const std::string &finding) {
    first(a, b);
    EXPECT_EQ(overlapping(middle, a, c), "");
    std::string said = overlapping(last, b, d);
    EXPECT_EQ(said.empty(), finding.empty()) << said;
    EXPECT_THAT(said, testing::HasSubstr(finding));
  }

  TestDevice device{90};
  uint64_t a, b, c, d, e;
};

TEST_F(Overlap, WaitOrdersTheLaunchBefore) {
  first(a, b);
  EXPECT_EQ(overlapping("waits", b, c), "");
  EXPECT_EQ(overlapping("waits", c, b), "");
  EXPECT_EQ(device.download<int>(b, 256), std::vector<int>(256, 3));
}

TEST_F(Overlap, NothingIsOrderedBeforeTheWait) {
  for (std::string name : {"plain", "late"}) {
    first(a, b);
    EXPECT_THAT(
        overlapping(name, b, c),
        testing::AllOf(testing::HasSubstr("read of what it writes"),
                       testing::HasSubstr("no griddepcontrol.wait was before")))
        << name;
    first(a, b);
    EXPECT_THAT(overlapping(name, c, b),
                testing::HasSubstr("write of what it writes"));
    first(a, b);
    EXPECT_THAT(overlapping(name, c, a),
                testing::HasSubstr("write of what it reads"));
  }
}

/// Threads that do not wait must meet one that has.
TEST_F(Overlap, AWaitIsOfThreadsAndOfThoseThatTheyMeet) {
  for (std::string name : {"lanesMeet", "warpsMeet"}) {
    first(a, b);
    EXPECT_EQ(overlapping(name, b, c), "") << name;
  }
  for (std::string name : {"laneWaits", "warpWaits", "lanesMeetOnly"}) {
    first(a, b);
    EXPECT_THAT(overlapping(name, b, c),
                testing::HasSubstr("no griddepcontrol.wait was before"))
        << name;
  }
}

TEST_F(Overlap, OtherMemoryMayBeUsedBeforeTheWait) {
  first(a, b);
  EXPECT_EQ(overlapping("late", a, c), "");
}

TEST_F(Overlap, ALaunchWithoutTheAttributeIsOrdered) {
  first(a, b);
  first(b, c);
}

/// A kernel none of whose blocks waits may end before the one before it has.
TEST_F(Overlap, AWaitReachesBackOnlyThroughWaits) {
  expectThroughTwo("plain", "waits", "no block of the launch in between");
  expectThroughTwo("waits", "waits", "");
  expectThroughTwo("oneWaits", "waits", "");
}

TEST_F(Overlap, AnAccessBeforeTheWaitReachesBackOnlyThroughWaits) {
  expectThroughTwo("plain", "late", "no griddepcontrol.wait was before");
  expectThroughTwo("waits", "late", "");
  expectThroughTwo("oneWaits", "late", "");
}

/// The next begins when all blocks have triggered or ended.
TEST_F(Overlap, AKernelThatTriggersBeforeItsWaitLetsTheNextOverlapBoth) {
  expectThroughTwo("early", "late", "read of what it writes");
  expectThroughTwo("oneIsEarly", "late", "");
}

/// What a wait has ordered stays so, though an earlier launch may still run.
TEST_F(Overlap, AWaitOrdersTheLaunchBeforeAloneWhereThatDidNotWait) {
  first(a, b);
  EXPECT_EQ(overlapping("plain", a, c), "");
  EXPECT_EQ(overlapping("waits", a, d), "");
  EXPECT_EQ(overlapping("late", c, e), "");
  first(a, b);
  EXPECT_EQ(overlapping("plain", a, c), "");
  EXPECT_EQ(overlapping("waits", a, d), "");
  EXPECT_THAT(overlapping("late", b, e),
              testing::HasSubstr("read of what it writes"));
}

} // namespace
} // namespace cria::emulator
