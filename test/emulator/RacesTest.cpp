// Races between blocks in global memory, found by the stamps of lines and
// granules (tools/emulator/run/GlobalRaces.h). Blocks access a few lines in
// turn. Strong accesses fix the order, but only fences synchronize.
#include "test/emulator/Device.h"
#include "test/emulator/PlantedKernels.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <random>

namespace cria::emulator {
namespace {

/// One access of one block.
struct Turn {
  bool writes;
  uint32_t bytes, at; ///< 1, 2, 4, 8 or 16; from the start of the data

  bool conflictsWith(const Turn &other) const {
    return (writes || other.writes) && at < other.at + other.bytes &&
           other.at < at + bytes;
  }
};

/// The number of the instruction that makes an access.
uint32_t codeOf(const Turn &turn) {
  return uint32_t(__builtin_ctz(turn.bytes)) + (turn.writes ? 5 : 0);
}

/// How the turns are taken.
struct How {
  bool byWarps = false;  ///< of one block; else by blocks
  bool fences = false;   ///< around each access
  bool barriers = false; ///< in each block, before its access
};

/// Block i, or warp i, waits for its turn and makes the access of row i of the
/// table: code and place. All bytes that it writes are i. Before, the same
/// instruction accesses a line that is its own: only what an instruction does
/// again is noted without a call.
const char kTurns[] = R"(
  .reg .b32 %me, %code, %at, %r<2>;
  .reg .b64 %data, %next, %table, %flag, %row, %x<2>;
  .reg .pred %q, %fence, %barrier;
  ld.param.u64 %data, [data];
  ld.param.u64 %table, [table];
  ld.param.u64 %flag, [flag];
  ld.param.u32 %r0, [fences];
  setp.ne.u32 %fence, %r0, 0;
  ld.param.u32 %r0, [barriers];
  setp.ne.u32 %barrier, %r0, 0;
  mov.u32 %r0, %laneid;
  setp.ne.u32 %q, %r0, 0;
  @%q ret;
  mov.u32 %r0, %warpid;
  mov.u32 %me, %ctaid.x;
  add.u32 %me, %me, %r0;
  mad.wide.u32 %row, %me, 8, %table;
  ld.global.v2.u32 {%code, %at}, [%row];
  cvt.u64.u32 %x0, %at;
  add.s64 %next, %data, %x0;
  mad.wide.u32 %data, %me, 64, %data;
  add.s64 %data, %data, 8192;
  mul.lo.u32 %r1, %me, 0x01010101;
  mov.b64 %x1, {%r1, %r1};
access:
  ways: .branchtargets l0, l1, l2, l3, l4, s0, s1, s2, s3, s4;
  brx.idx %code, ways;
l0: ld.global.u8 %r1, [%data]; bra over;
l1: ld.global.u16 %r1, [%data]; bra over;
l2: ld.global.u32 %r1, [%data]; bra over;
l3: ld.global.u64 %x1, [%data]; bra over;
l4: ld.global.v2.u64 {%x0, %x1}, [%data]; bra over;
s0: st.global.u8 [%data], %r1; bra over;
s1: st.global.u16 [%data], %r1; bra over;
s2: st.global.u32 [%data], %r1; bra over;
s3: st.global.u64 [%data], %x1; bra over;
s4: st.global.v2.u64 [%data], {%x1, %x1}; bra over;
over:
  setp.eq.s64 %q, %data, %next;
  @%q bra done;
  mov.u64 %data, %next;
poll:
  ld.relaxed.gpu.global.u32 %r0, [%flag];
  setp.ne.u32 %q, %r0, %me;
  @%q bra poll;
  @%fence fence.acq_rel.gpu;
  @%barrier bar.sync 0;
  bra access;
done:
  @%fence fence.acq_rel.gpu;
  add.u32 %me, %me, 1;
  st.relaxed.gpu.global.u32 [%flag], %me;
  ret;
)";

class Races : public testing::Test {
protected:
  /// The first page of an allocation is looked at by the runtime, and most
  /// accesses to the second are not.
  static constexpr uint32_t kSecondPage = 4096 + 128, kBytes = 3 * 4096;

  void SetUp() override {
    ASSERT_EQ(device.load(kernelPtx(".param .u64 data, .param .u64 table,"
                                    " .param .u64 flag, .param .u32 fences,"
                                    " .param .u32 barriers",
                                    kTurns)),
              "");
    data = device.allocate(kBytes);
  }

  LaunchResult take(const std::vector<Turn> &turns, How how = {}) {
    std::memset(reinterpret_cast<void *>(data), 0xFF, kBytes);
    std::vector<uint32_t> rows;
    for (const Turn &turn : turns)
      rows.insert(rows.end(), {codeOf(turn), turn.at});
    auto table = device.upload(rows);
    auto flag = device.upload(std::vector<uint32_t>(1));
    auto count = uint32_t(turns.size());
    LaunchResult result = device.launch(
        "k", {how.byWarps ? 1 : count}, {how.byWarps ? 32 * count : 1}, 0, data,
        table, flag, uint32_t(how.fences), uint32_t(how.barriers));
    device.memory.free(table, Allocation::Device);
    device.memory.free(flag, Allocation::Device);
    return result;
  }

  /// The turn whose access is reported, or as many as there are.
  size_t found(const std::vector<Turn> &turns, How how = {}) {
    LaunchResult result = take(turns, how);
    if (!result.finding)
      return turns.size();
    const std::string &text = result.finding->headline;
    EXPECT_EQ(result.finding->kind, Finding::Race) << text;
    const char *mark = how.byWarps ? "thread (" : "block (";
    int at = std::stoi(text.substr(text.find(mark) + std::strlen(mark)));
    return size_t(how.byWarps ? at / 32 : at);
  }

  /// The first turn that conflicts with an earlier one, or as many as there
  /// are.
  static size_t expected(const std::vector<Turn> &turns) {
    for (size_t i = 0; i < turns.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (turns[i].conflictsWith(turns[j]))
          return i;
    return turns.size();
  }

  /// Turns of `bytes`, or of any size if 0, in two lines.
  std::vector<Turn> randomTurns(uint32_t bytes) {
    std::vector<Turn> turns(2 + random() % 5);
    for (Turn &turn : turns) {
      turn.writes = random() % 3 == 0;
      turn.bytes = bytes ? bytes : 1u << random() % 5;
      turn.at = kSecondPage + random() % (128 / turn.bytes) * turn.bytes;
    }
    return turns;
  }

  static std::string describe(const std::vector<Turn> &turns) {
    std::string text;
    for (const Turn &turn : turns)
      text += std::string(turn.writes ? " st" : " ld") +
              std::to_string(turn.bytes) + "[" + std::to_string(turn.at) + "]";
    return text;
  }

  TestDevice device;
  uint64_t data = 0;
  std::mt19937 random{5};
};

/// Two that access bytes in common, one of them to write, race; two that do
/// not, do not. Of each size, in each order.
TEST_F(Races, OfTwoAreExact) {
  for (uint32_t base : {0u, kSecondPage})
    for (int kinds = 0; kinds < 4; ++kinds)
      for (uint32_t bytes : {1u, 2u, 4u, 8u, 16u})
        for (uint32_t others : {1u, 2u, 4u, 8u, 16u})
          for (uint32_t at = 0; at < 32; at += others) {
            std::vector<Turn> turns = {{bool(kinds & 1), bytes, base + 16},
                                       {bool(kinds & 2), others, base + at}};
            for (How how : {How(), How{false, false, true}, How{true}})
              ASSERT_EQ(found(turns, how), expected(turns))
                  << describe(turns) << how.byWarps << how.barriers;
          }
}

TEST_F(Races, NameBothSides) {
  Turn read = {false, 4, kSecondPage}, write = {true, 4, kSecondPage};
  for (auto &[turns, what, line] :
       {std::tuple(std::vector{read, write}, "write after read", "l2:"),
        {std::vector{write, read}, "read after write", "s2:"},
        {std::vector{write, write}, "write after write", "s2:"}}) {
    LaunchResult result = take(turns);
    ASSERT_TRUE(result.finding) << what;
    EXPECT_THAT(result.finding->headline, testing::HasSubstr(what));
    std::string ptx = kernelPtx("", kTurns);
    auto end = ptx.begin() + long(ptx.find(line));
    auto number = 1 + std::count(ptx.begin(), end, '\n');
    EXPECT_THAT(result.finding->details,
                testing::HasSubstr("by block (0,0,0) warp 0 at PTX line " +
                                   std::to_string(number)));
  }
}

/// Of accesses to whole granules the first race is found, whatever the stamps
/// of the lines said before, in this launch and in earlier ones.
TEST_F(Races, OfManyAreExactForGranules) {
  for (int i = 0; i < 1000; ++i) {
    auto turns = randomTurns(8);
    ASSERT_EQ(found(turns), expected(turns)) << describe(turns);
  }
}

/// Of other accesses some races are lost, but none is made up.
TEST_F(Races, AreNotMadeUp) {
  size_t named = 0;
  for (int i = 0; i < 1000; ++i) {
    auto turns = randomTurns(0);
    size_t at = found(turns, {i % 2 == 0, false, i % 4 == 1});
    if (at == turns.size())
      continue;
    ++named;
    bool conflicts = false;
    for (size_t j = 0; j < at; ++j)
      conflicts |= turns.at(at).conflictsWith(turns[j]);
    ASSERT_TRUE(conflicts) << describe(turns) << ", turn " << at;
  }
  EXPECT_GT(named, 200u);
}

TEST_F(Races, AreNoneWithFences) {
  for (int i = 0; i < 1000; ++i) {
    auto turns = randomTurns(i % 2 ? 8 : 0);
    LaunchResult result = take(turns, {i % 3 == 0, true});
    ASSERT_FALSE(result.finding) << describe(turns) << "\n"
                                 << result.finding->headline;
  }
}

/// After several blocks have read a line one of them may not write it.
TEST_F(Races, WithManyReadersAreFound) {
  std::vector<Turn> turns(4, {false, 4, kSecondPage});
  turns.push_back({true, 4, kSecondPage});
  LaunchResult result = take(turns);
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline, testing::HasSubstr("write after read"));
  EXPECT_THAT(result.finding->details, testing::HasSubstr("several blocks"));
}

/// The first block reads a line, the second too, and then the first writes it:
/// that it was the first to read it does not make it the only one.
TEST(RacesOfReaders, AreFoundByTheFirst) {
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 data, .param .u64 flag", R"(
  .reg .b32 %r0;
  .reg .b64 %data, %flag, %at;
  .reg .pred %q;
  ld.param.u64 %data, [data];
  ld.param.u64 %flag, [flag];
  add.s64 %data, %data, 64;
  mov.u32 %r0, %ctaid.x;
  setp.ne.u32 %q, %r0, 0;
  @%q bra second;
  ld.global.u32 %r0, [%data];
  st.relaxed.gpu.global.u32 [%flag], 1;
wait:
  ld.relaxed.gpu.global.u32 %r0, [%flag];
  setp.ne.u32 %q, %r0, 2;
  @%q bra wait;
  add.s64 %at, %data, 64; // first another line, for what is noted with no call
write:
  st.global.u32 [%at], 5;
  setp.eq.s64 %q, %at, %data;
  mov.u64 %at, %data;
  @!%q bra write;
  ret;
second:
  ld.relaxed.gpu.global.u32 %r0, [%flag];
  setp.ne.u32 %q, %r0, 1;
  @%q bra second;
  ld.global.u32 %r0, [%data];
  st.relaxed.gpu.global.u32 [%flag], 2;
  ret;
)")),
            "");
  auto data = device.allocate(4096), flag = device.upload(std::vector<int>(1));
  LaunchResult result = device.launch("k", {2}, {1}, 0, data, flag);
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline, testing::HasSubstr("write after read"));
  EXPECT_THAT(result.finding->headline, testing::HasSubstr("block (0,0,0)"));
}

/// Elements of 1, 2, 4 and 8 bytes of one line, each changed in place by a
/// block of its own, at once.
TEST(RacesOfNeighbours, AreNone) {
  for (uint32_t bytes : {1, 2, 4, 8}) {
    std::string type = "u" + std::to_string(bytes * 8);
    std::string wide = bytes == 8 ? "u64" : "u32";
    TestDevice device;
    ASSERT_EQ(device.load(kernelPtx(".param .u64 data", R"(
  .reg .b32 %r<3>;
  .reg .b64 %p<2>;
  .reg .)" + wide + R"( %x;
  ld.param.u64 %p0, [data];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %tid.x;
  mad.lo.u32 %r0, %r1, 32, %r0;
  mad.wide.u32 %p0, %r0, )" + std::to_string(bytes) +
                                                            R"(, %p0;
  ld.global.)" + type + " %x, [%p0];\n  add." + wide + R"( %x, %x, 1;
  st.global.)" + type + R"( [%p0], %x;
  ret;
)")),
              "");
    for (device.seed = 0; device.seed < 20; ++device.seed) {
      std::vector<uint8_t> values(32 * 64 * bytes);
      auto data = device.upload(values);
      device.run("k", {32}, {64}, 0, data);
      for (size_t i = 0; i < values.size(); i += bytes)
        values[i] = 1;
      ASSERT_EQ(device.download<uint8_t>(data, values.size()), values) << type;
    }
  }
}

/// A warp has no segment of its own where a grid is large, its block has.
TEST(RacesOfLargeGrids, AreFound) {
  constexpr uint32_t kBlocks = 270000;
  TestDevice device;
  ASSERT_EQ(device.load(kernelPtx(".param .u64 data, .param .u32 far", R"(
  .reg .b32 %r<4>;
  .reg .b64 %p<2>;
  .reg .pred %q;
  ld.param.u64 %p0, [data];
  ld.param.u32 %r2, [far];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %p0, %r0, 4, %p0;
  mad.wide.u32 %p1, %r2, 4, %p0;
  setp.eq.u32 %q, %r1, 0;
  @%q st.global.u32 [%p0], %r0;
  bar.sync 0;
  setp.eq.u32 %q, %r1, 32;
  @%q ld.global.u32 %r3, [%p1];
  ret;
)")),
            "");
  auto data = device.allocate((kBlocks + 1) * 4);
  device.run("k", {kBlocks}, {33}, 0, data, 0u);
  EXPECT_TRUE(device.launch("k", {kBlocks}, {33}, 0, data, 1u).finding);
}

/// ldmatrix loads the same with all checks, with one, and with none.
TEST(LoadMatrix, NeedsNoChecks) {
  std::vector<uint16_t> in(256);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = uint16_t(0x3f80 + i); // bf16 from 1 on
  std::vector<std::vector<float>> results;
  for (int checks : {0, 1, 2}) {
    TestDevice device;
    device.options.checks = checks > 0;
    device.options.global = checks > 1;
    device.checks = {checks > 0, checks > 1, checks > 1, checks > 1,
                     checks > 1};
    std::string ptx;
    for (const PlantedKernel &kernel : plantedKernels())
      if (kernel.name == std::string("matrix"))
        ptx = kernel.ptx;
    // Further than the notes of kernels that other tests check.
    ptx.insert(ptx.find("  .shared"), "  .shared .align 16 .b8 far[40000];\n");
    ASSERT_EQ(device.load(ptx), "");
    auto x = device.upload(in), y = device.allocate(512);
    device.run("k", {1}, {32}, 0, x, y);
    results.push_back(device.download<float>(y, 128));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_NE(results[0][0], 0.0f);
}

} // namespace
} // namespace cria::emulator
