// Blocks that run on two cores at once: atomic additions lose nothing, accesses
// of 64 bits are seen whole and in order, and waiting for slow work is no
// deadlock. With the checks of races and without.
#include "test/emulator/Device.h"

namespace cria::emulator {
namespace {

class Concurrent : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    device.options.checks = device.options.global = GetParam();
    if (!GetParam())
      device.checks = {false, false, false, false, false};
    device.workers = 2;
  }
  TestDevice device;
};

INSTANTIATE_TEST_SUITE_P(Checks, Concurrent, testing::Bool(),
                         [](const auto &info) {
                           return std::string(info.param ? "On" : "Off");
                         });

constexpr uint32_t kCells = 16, kBlocks = 256, kThreads = 64;

/// Each thread adds to all cells of even or of odd number, over and over, in
/// the same order as all others: half of the threads 1, the others -1.
std::string addingKernel(const std::string &instruction, uint32_t bytes) {
  std::string code = R"(
  .reg .b32 %i, %j, %t, %pair, %old;
  .reg .b64 %first, %cell, %wideOld;
  .reg .f32 %f;
  .reg .f64 %d;
  .reg .pred %q;
  ld.param.u64 %first, [cells];
  mov.u32 %t, %tid.x;
  and.b32 %i, %t, 1;
  mad.wide.u32 %first, %i, BYTES, %first;
  and.b32 %i, %t, 2;
  setp.eq.u32 %q, %i, 0;
  selp.f32 %f, 0f3F800000, 0fBF800000, %q;
  cvt.f64.f32 %d, %f;
  selp.b32 %pair, 0x3C003C00, 0xBC00BC00, %q;
  mov.u32 %i, 0;
again:
  mov.u64 %cell, %first;
  mov.u32 %j, 0;
next:
  ADD
  add.s64 %cell, %cell, 2*BYTES;
  add.u32 %j, %j, 2;
  setp.lt.u32 %q, %j, CELLS;
  @%q bra next;
  add.u32 %i, %i, 1;
  setp.lt.u32 %q, %i, 8;
  @%q bra again;
  ret;
)";
  for (auto &[word, text] :
       {std::pair<std::string, std::string>("ADD", instruction),
        {"2*BYTES", std::to_string(2 * bytes)},
        {"BYTES", std::to_string(bytes)},
        {"CELLS", std::to_string(kCells)}})
    for (size_t at; (at = code.find(word)) != code.npos;)
      code.replace(at, word.size(), text);
  return kernelPtx(".param .u64 cells", code);
}

TEST_P(Concurrent, AdditionsLoseNothing) {
  struct Case {
    const char *instruction;
    uint32_t bytes;
    uint64_t hundred; ///< its bits
  };
  for (const Case &c :
       {Case{"red.global.add.f32 [%cell], %f;", 4, 0x42C80000},
        {"atom.global.add.f32 %old, [%cell], %f;", 4, 0x42C80000},
        {"red.relaxed.gpu.global.add.f64 [%cell], %d;", 8, 0x4059000000000000},
        {"atom.global.add.f64 %wideOld, [%cell], %d;", 8, 0x4059000000000000},
        {"red.global.add.noftz.f16x2 [%cell], %pair;", 4, 0x56405640},
        {"atom.global.add.noftz.f16x2 %old, [%cell], %pair;", 4, 0x56405640}}) {
    ASSERT_EQ(device.load(addingKernel(c.instruction, c.bytes)), "");
    for (int round = 0; round < 3; ++round) {
      std::vector<uint8_t> hundreds(kCells * c.bytes);
      for (size_t i = 0; i < hundreds.size(); i += c.bytes)
        std::memcpy(&hundreds[i], &c.hundred, c.bytes);
      auto cells = device.upload(hundreds);
      device.run("k", {kBlocks}, {kThreads}, 0, cells);
      ASSERT_EQ(device.download<uint8_t>(cells, hundreds.size()), hundreds)
          << c.instruction;
    }
  }
}

/// The first block counts up in a word, whose high half is the complement of
/// the low one, until it has written `count`; the second reads until it sees
/// that. It counts what is not whole and what comes after a greater number.
const char kWords[] = R"(
  .reg .b32 %r0, %low, %high, %last, %wrong, %n;
  .reg .b64 %word, %out, %value;
  .reg .pred %q;
  ld.param.u64 %word, [word];
  ld.param.u64 %out, [out];
  ld.param.u32 %n, [count];
  mov.u32 %low, 0;
  mov.u32 %wrong, 0;
  mov.u32 %last, 0;
  mov.u32 %r0, %ctaid.x;
  setp.ne.u32 %q, %r0, 0;
  @%q bra read;
write:
  add.u32 %low, %low, 1;
  not.b32 %high, %low;
  STORE
  setp.lt.u32 %q, %low, %n;
  @%q bra write;
  ret;
read:
  LOAD
  xor.b32 %r0, %low, %high;
  setp.ne.u32 %q, %r0, -1;
  @%q add.u32 %wrong, %wrong, 1;
  setp.lt.u32 %q, %low, %last;
  @%q add.u32 %wrong, %wrong, 1;
  mov.u32 %last, %low;
  setp.lt.u32 %q, %low, %n;
  @%q bra read;
  st.global.u32 [%out], %wrong;
  ret;
)";

TEST_P(Concurrent, WordsAreWholeAndInOrder) {
  const std::pair<const char *, const char *> kWays[] = {
      {"mov.b64 %value, {%low, %high}; st.volatile.global.u64 [%word], %value;",
       "ld.volatile.global.u64 %value, [%word];"
       " mov.b64 {%low, %high}, %value;"},
      {"st.volatile.global.v2.u32 [%word], {%low, %high};",
       "ld.volatile.global.v2.u32 {%low, %high}, [%word];"},
      {"mov.b64 %value, {%low, %high};"
       " st.relaxed.gpu.global.u64 [%word], %value;",
       "ld.relaxed.gpu.global.u64 %value, [%word];"
       " mov.b64 {%low, %high}, %value;"},
      {"st.relaxed.gpu.global.v2.u32 [%word], {%low, %high};",
       "ld.relaxed.gpu.global.v2.u32 {%low, %high}, [%word];"}};
  for (auto &[store, load] : kWays) {
    std::string code = kWords;
    code.replace(code.find("STORE"), 5, store);
    code.replace(code.find("LOAD"), 4, load);
    ASSERT_EQ(
        device.load(kernelPtx(
            ".param .u64 word, .param .u64 out, .param .u32 count", code)),
        "");
    auto word = device.upload(std::vector<uint32_t>{0, ~0u});
    auto out = device.allocate(4);
    device.run("k", {2}, {1}, 0, word, out, GetParam() ? 300000u : 5000000u);
    EXPECT_EQ(device.download<uint32_t>(out, 1)[0], 0u) << store;
  }
}

/// The first thread of a warp waits for the second, but not for long: whatever
/// it polls with, the other runs meanwhile.
TEST_P(Concurrent, PollingLetsOthersRun) {
  for (const char *poll :
       {"ld.volatile.global.u32 %r0, [%flag];", "ld.cg.u32 %r0, [%flag];",
        "ld.global.cv.u32 %r0, [%flag];",
        "ld.relaxed.gpu.global.u32 %r0, [%flag];",
        "atom.global.exch.b32 %r0, [%flag], 0;",
        "atom.global.add.u32 %r0, [%flag], 0;", "atom.or.b32 %r0, [%flag], 0;",
        "atom.global.cas.b32 %r0, [%flag], 0, 0;"}) {
    ASSERT_EQ(device.load(
                  kernelPtx(".param .u64 flag, .param .u64 out", std::string(R"(
  .reg .b32 %r0, %rounds;
  .reg .b64 %flag, %out;
  .reg .pred %q;
  ld.param.u64 %flag, [flag];
  ld.param.u64 %out, [out];
  mov.u32 %rounds, 0;
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %q, %r0, 0;
  @%q bra wait;
  st.volatile.global.u32 [%flag], 1;
  ret;
wait:
  add.u32 %rounds, %rounds, 1;
  )") + poll + R"(
  setp.eq.u32 %q, %r0, 0;
  setp.lt.and.u32 %q, %rounds, 1000, %q;
  @%q bra wait;
  st.global.u32 [%out], %r0;
  ret;
)")),
              "");
    auto flag = device.upload(std::vector<uint32_t>(1));
    auto out = device.allocate(4);
    device.run("k", {1}, {2}, 0, flag, out);
    EXPECT_EQ(device.download<uint32_t>(out, 1)[0], 1u) << poll;
  }
}

/// The workspace of the grid, by which cooperative groups meet, is memory that
/// a cooperative launch finds empty and no other launch has.
TEST(GridWorkspace, IsOfCooperativeLaunches) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 out", R"(
  .reg .b32 %r<2>;
  .reg .b64 %p<3>;
  .reg .pred %q;
  ld.param.u64 %p0, [out];
  mov.u32 %r0, %envreg1;
  mov.u32 %r1, %envreg2;
  mov.b64 %p1, {%r1, %r0};
  setp.eq.u64 %q, %p1, 0;
  mov.u64 %p2, -1;
  @!%q atom.global.add.u64 %p2, [%p1], 3;
  st.global.u64 [%p0], %p2;
  ret;
)")),
            "");
  auto out = device.allocate(8);
  for (bool cooperative : {true, true, false}) {
    device.cooperative = cooperative;
    device.run("k", {1}, {1}, 0, out);
    EXPECT_EQ(device.download<uint64_t>(out, 1)[0], cooperative ? 0 : ~0ull);
  }
}

/// About two seconds of a processor's cycle counter.
constexpr uint64_t kLong = 5'000'000'000;

/// The others wait for a block that computes for longer than a deadlock takes
/// to be told, and that they cannot tell from one that does nothing.
TEST(Progress, WaitingForLongWorkIsNoDeadlock) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 flag, .param .u64 cycles", R"(
  .reg .b32 %r0;
  .reg .b64 %flag, %cycles, %end, %now;
  .reg .pred %q;
  ld.param.u64 %flag, [flag];
  ld.param.u64 %cycles, [cycles];
  mov.u32 %r0, %ctaid.x;
  setp.eq.u32 %q, %r0, 1;
  @%q bra work;
wait:
  ld.volatile.global.u32 %r0, [%flag];
  setp.eq.u32 %q, %r0, 0;
  @%q bra wait;
  ret;
work:
  mov.u64 %now, %clock64;
  add.u64 %end, %now, %cycles;
again:
  mov.u64 %now, %clock64;
  setp.lt.u64 %q, %now, %end;
  @%q bra again;
  st.volatile.global.u32 [%flag], 1;
  ret;
)")),
            "");
  auto flag = device.upload(std::vector<uint32_t>(1));
  device.run("k", {3}, {1}, 0, flag, kLong);
}

/// The program cannot write the flag before the launch has ended, so this is a
/// deadlock here, though not on a device.
TEST(Progress, WaitingForTheHostIsNamed) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 flag", R"(
  .reg .b32 %r0;
  .reg .b64 %flag;
  .reg .pred %q;
  ld.param.u64 %flag, [flag];
wait:
  ld.volatile.global.u32 %r0, [%flag];
  setp.eq.u32 %q, %r0, 0;
  @%q bra wait;
  ret;
)")),
            "");
  for (auto kind : {Allocation::Managed, Allocation::Device}) {
    auto flag = device.memory.allocate(4, kind);
    *reinterpret_cast<uint32_t *>(flag) = 0;
    LaunchResult result = device.launch("k", {1}, {1}, 0, flag);
    ASSERT_TRUE(result.finding);
    EXPECT_EQ(result.finding->kind, Finding::Deadlock);
    bool isNamed = result.finding->details.find(
                       "memory that the host can write") != std::string::npos;
    EXPECT_EQ(isNamed, kind == Allocation::Managed);
  }
}

/// Two blocks pass a number to and fro, a third waits for the end.
TEST(Progress, SlowProgressIsNoDeadlock) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 flag, .param .u64 cycles", R"(
  .reg .b32 %r0, %me, %turn;
  .reg .b64 %flag, %cycles, %end, %now;
  .reg .pred %q;
  ld.param.u64 %flag, [flag];
  ld.param.u64 %cycles, [cycles];
  mov.u32 %me, %ctaid.x;
  mov.u64 %now, %clock64;
  add.u64 %end, %now, %cycles;
  setp.eq.u32 %q, %me, 2;
  @%q bra wait;
again:
  ld.volatile.global.u32 %turn, [%flag];
  and.b32 %r0, %turn, 1;
  setp.ne.u32 %q, %r0, %me;
  @%q bra again;
  add.u32 %turn, %turn, 1;
  mov.u64 %now, %clock64;
  setp.eq.u32 %q, %me, 0;
  setp.ge.and.u64 %q, %now, %end, %q;
  @%q or.b32 %turn, %turn, 0x40000000; // the last two turns
  st.volatile.global.u32 [%flag], %turn;
  setp.lt.u32 %q, %turn, 0x40000000;
  @%q bra again;
  setp.eq.u32 %q, %me, 1;
  @%q st.volatile.global.u32 [%flag+64], 1;
  ret;
wait:
  ld.volatile.global.u32 %r0, [%flag+64];
  setp.eq.u32 %q, %r0, 0;
  @%q bra wait;
  ret;
)")),
            "");
  auto flag = device.upload(std::vector<uint32_t>(32));
  device.run("k", {3}, {1}, 0, flag, kLong);
  EXPECT_GT(device.download<uint32_t>(flag, 1)[0], 0x40000002u);
}

} // namespace
} // namespace cria::emulator
