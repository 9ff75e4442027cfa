// Races in shared memory, found by the words and their keys
// (tools/emulator/run/Shadow.h). Threads access a few words in turn. Strong
// accesses fix the order, but nothing synchronizes.
#include "test/emulator/Device.h"

#include <random>

namespace cria::emulator {
namespace {

constexpr uint32_t kWords = 8;

/// One access of one thread: 1, 2 or 4 words.
struct Turn {
  uint32_t thread;
  bool writes;
  uint32_t words, at;

  bool conflictsWith(const Turn &other) const {
    return thread != other.thread && (writes || other.writes) &&
           at < other.at + other.words && other.at < at + words;
  }
};

/// The first threads write the words, and all threads meet at a barrier, or the
/// first `meet` do. Then the thread in row i of the table makes access i: the
/// thread, the code of the access, the place.
const char kTurns[] = R"(
  .shared .align 16 .b8 data[32];
  .shared .align 4 .b8 flag[4];
  .reg .b32 %me, %i, %n, %at, %r<4>;
  .reg .b64 %table;
  .reg .pred %q;
  ld.param.u64 %table, [table];
  ld.param.u32 %n, [n];
  mov.u32 %me, %tid.x;
  setp.eq.u32 %q, %me, 0;
  @%q st.shared.u32 [flag], -1;
  bar.sync 0;
  setp.lt.u32 %q, %me, 8;
  mad.lo.u32 %at, %me, 4, data;
  @%q st.shared.u32 [%at], %me;
  ld.param.u32 %r0, [meet];
  setp.lt.u32 %q, %me, %r0;
  @%q bar.sync 0, %r0;
  setp.eq.u32 %q, %me, 0;
  @%q st.relaxed.cta.shared.u32 [flag], 0;
  mov.u32 %i, 0;
next:
  setp.ge.u32 %q, %i, %n;
  @%q bra done;
  ld.global.v4.u32 {%r0, %r1, %at, %r2}, [%table];
  add.s64 %table, %table, 16;
  add.u32 %i, %i, 1;
  setp.ne.u32 %q, %r0, %me;
  @%q bra next;
poll:
  ld.relaxed.cta.shared.u32 %r0, [flag];
  add.u32 %r0, %r0, 1;
  setp.ne.u32 %q, %r0, %i;
  @%q bra poll;
  mad.lo.u32 %at, %at, 4, data;
  ways: .branchtargets l0, l1, l2, s0, s1, s2;
  brx.idx %r1, ways;
l0: ld.shared.u32 %r0, [%at]; bra over;
l1: ld.shared.v2.u32 {%r0, %r1}, [%at]; bra over;
l2: ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%at]; bra over;
s0: st.shared.u32 [%at], %i; bra over;
s1: st.shared.v2.u32 [%at], {%i, %i}; bra over;
s2: st.shared.v4.u32 [%at], {%i, %i, %i, %i}; bra over;
over:
  st.relaxed.cta.shared.u32 [flag], %i;
  bra next;
done:
  ret;
)";

class SharedRaces : public testing::Test {
protected:
  void SetUp() override {
    device.workers = 1;
    ASSERT_EQ(device.load(kernelPtx(".param .u64 table, .param .u32 n,"
                                    " .param .u32 meet",
                                    kTurns)),
              "");
  }

  /// Whether a race is found, and if so that it is the access of `thread`.
  void expectRace(const std::vector<Turn> &turns, const Turn *racing,
                  uint32_t meet = 1024) {
    std::vector<uint32_t> rows;
    std::string text;
    for (const Turn &turn : turns) {
      uint32_t code = uint32_t(__builtin_ctz(turn.words));
      rows.insert(rows.end(),
                  {turn.thread, turn.writes ? code + 3 : code, turn.at, 0});
      text += " " + std::to_string(turn.thread) +
              (turn.writes ? " st" : " ld") + std::to_string(turn.words) + "[" +
              std::to_string(turn.at) + "]";
    }
    auto table = device.upload(rows);
    LaunchResult result =
        device.launch("k", {1}, {1024}, 0, table, uint32_t(turns.size()), meet);
    device.memory.free(table, Allocation::Device);
    ASSERT_EQ(bool(result.finding), bool(racing))
        << text << "\n"
        << (racing ? "" : result.finding->headline);
    if (!racing)
      return;
    std::string by = "thread (" + std::to_string(racing->thread) + ",0,0)";
    EXPECT_EQ(result.finding->kind, Finding::Race);
    EXPECT_NE(result.finding->headline.find(by), std::string::npos)
        << text << "\n"
        << result.finding->headline;
  }

  static const Turn *firstRace(const std::vector<Turn> &turns,
                               uint32_t meet = 1024) {
    for (const Turn &turn : turns) {
      if (turn.thread >= meet)
        return &turn; // with the threads that wrote first
      for (const Turn *earlier = turns.data(); earlier != &turn; ++earlier)
        if (turn.conflictsWith(*earlier))
          return &turn;
    }
    return nullptr;
  }

  TestDevice device;
  std::mt19937 random{7};
};

/// A thread's key never fits another thread, whatever their numbers.
TEST_F(SharedRaces, OfTwoThreadsAreFound) {
  for (uint32_t one : {0, 1, 2, 3, 21, 31, 32, 33, 64, 96, 682, 992, 1023})
    for (uint32_t other : {0, 1, 2, 3, 21, 31, 32, 33, 64, 96, 682, 992, 1023})
      for (int kinds = 0; kinds < 4; ++kinds) {
        std::vector<Turn> turns = {{one, bool(kinds & 1), 1, 3},
                                   {other, bool(kinds & 2), 1, 3}};
        ASSERT_NO_FATAL_FAILURE(expectRace(turns, firstRace(turns)));
      }
}

/// If many of the threads share a warp or have the same lane, the first
/// race is found, and nothing before it.
TEST_F(SharedRaces, OfManyAreExact) {
  for (int i = 0; i < 4000; ++i) {
    uint32_t warps[3], lanes[3];
    for (int j = 0; j < 3; ++j)
      warps[j] = random() % 32, lanes[j] = random() % 32;
    std::vector<Turn> turns(2 + random() % 8);
    for (Turn &turn : turns) {
      turn.thread = warps[random() % 3] * 32 + lanes[random() % 3];
      turn.writes = random() % 8 == 0;
      turn.words = 1u << random() % 3;
      turn.at = random() % (kWords / turn.words) * turn.words;
    }
    turns.back().writes = true;
    uint32_t meet = i % 2 ? 1024 : 512;
    ASSERT_NO_FATAL_FAILURE(expectRace(turns, firstRace(turns, meet), meet));
  }
}

/// A lane writes a word; after the warp has met, two lanes may write its
/// halves.
TEST(SharedHalves, AreFreeAfterAWarpBarrier) {
  for (std::string access :
       {"st.shared.u16 [%at], 2;", "ld.shared.u16 %h, [%at];"}) {
    TestDevice device;
    ASSERT_EQ(device.load(kernelPtx("", R"(
  .shared .align 4 .b8 data[64];
  .reg .b32 %me, %at;
  .reg .b16 %h;
  .reg .pred %q;
  mov.u32 %me, %tid.x;
  mad.lo.u32 %at, %me, 4, data;
  setp.lt.u32 %q, %me, 16;
  @%q st.shared.u32 [%at], 1;
  @%q ld.shared.u32 %at, [%at];
  bar.warp.sync -1;
  mad.lo.u32 %at, %me, 2, data;
)" + access + R"(
  xor.b32 %at, %me, 1;
  bar.warp.sync -1;
  mad.lo.u32 %at, %at, 2, data;
  st.shared.u16 [%at], 3;
  ret;
)")),
              "");
    device.run("k", {1}, {32}, 0);
  }
}

/// What the lanes of a warp do between two accesses: each writes its own word,
/// and lane 8 then reads, or writes, the word of lane 8 ^ `other`.
struct Meeting {
  const char *name, *code;
  uint32_t other;
  bool isRace;
};

class SharedTiles : public testing::TestWithParam<Meeting> {};

const char kTile[] = R"(
  and.b32 %mask, %me, 16;
  shl.b32 %mask, 0xffff, %mask;
  bar.warp.sync %mask;
)";
const char kOneTile[] = R"(
  @%q bra over;
  bar.warp.sync 0xffff;
over:
)";
/// The lanes of each tile meet, and then lanes 8 to 23.
const char kChain[] = R"(
  and.b32 %mask, %me, 16;
  shl.b32 %mask, 0xffff, %mask;
  bar.warp.sync %mask;
  add.u32 %mask, %me, -8;
  setp.gt.u32 %q, %mask, 15;
  @%q bra over;
  bar.warp.sync 0xffff00;
over:
)";

/// Lanes that meet without the rest of their warp are ordered, and so are lanes
/// that have met one of them.
TEST_P(SharedTiles, AreOrderedAlone) {
  const Meeting &meeting = GetParam();
  for (std::string access :
       {"ld.shared.u32 %mask, [%at];", "st.shared.u32 [%at], %me;"}) {
    TestDevice device;
    ASSERT_EQ(device.load(kernelPtx("", R"(
  .shared .align 4 .b8 data[128];
  .reg .b32 %me, %at, %mask;
  .reg .pred %q;
  mov.u32 %me, %tid.x;
  setp.gt.u32 %q, %me, 15;
  mad.lo.u32 %at, %me, 4, data;
  st.shared.u32 [%at], %me;
)" + std::string(meeting.code) + R"(
  xor.b32 %at, %me, )" + std::to_string(meeting.other) +
                                            R"(;
  mad.lo.u32 %at, %at, 4, data;
  setp.eq.u32 %q, %me, 8;
  @%q )" + access + R"(
  ret;
)")),
              "");
    LaunchResult result = device.launch("k", {1}, {32}, 0);
    EXPECT_EQ(bool(result.finding), meeting.isRace) << access;
    if (result.finding) {
      EXPECT_EQ(result.finding->kind, Finding::Race);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , SharedTiles,
    testing::Values(Meeting{"Nobody", "", 1, true},
                    Meeting{"Own", kTile, 7, false},
                    Meeting{"OtherTile", kTile, 16, true},
                    Meeting{"OnlyOneTile", kOneTile, 7, false},
                    Meeting{"NotTheOtherTile", kOneTile, 24, true},
                    Meeting{"OverAThirdLane", kChain, 20, false}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace cria::emulator
