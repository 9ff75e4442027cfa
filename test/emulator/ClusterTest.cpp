// Blocks of a cluster: barriers of all their threads, arrivals at mbarriers of
// another block, and copies to several blocks.
#include "test/emulator/Device.h"

#include <gmock/gmock.h>

namespace cria::emulator {
namespace {

/// A kernel for clusters of two blocks. A block has 256 bytes of shared memory
/// at %s and an mbarrier for one arrival at %b, which are at %peer and %other
/// in the other block; all have 512 bytes of global memory at %g. %q0: the
/// block is the second of its cluster.
std::string ptxOf(const std::string &code, const std::string &begin) {
  return R"(.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 global)
.explicitcluster
.reqnctapercluster 2
{
  .shared .align 128 .b8 bytes[256];
  .shared .align 8 .b8 barrier[8];
  .reg .pred %q<4>;
  .reg .b32 %b, %s, %n, %rank, %peer, %other, %r<4>;
  .reg .b64 %g, %z;
  mov.u32 %b, barrier;
  mov.u32 %s, bytes;
  mov.u32 %n, %tid.x;
  ld.param.u64 %g, [global];
  mov.u32 %rank, %cluster_ctarank;
  setp.eq.u32 %q0, %rank, 1;
  xor.b32 %r0, %rank, 1;
  mapa.shared::cluster.u32 %other, %b, %r0;
  mapa.shared::cluster.u32 %peer, %s, %r0;
  setp.ne.u32 %q1, %n, 0;
  @%q1 bra ready;
  mbarrier.init.shared::cta.b64 [%b], 1;
  fence.mbarrier_init.release.cluster;
ready:
)" + begin +
         code + "\n  ret;\n}\n";
}

const char kSync[] =
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ";
const char kArrive[] =
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%other]; ";
const char kAwait[] =
    "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q2, "
    "[%b], 0; @!%q2 bra again; ";
const char kExpect[] =
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256; ";
/// Each block's half of the bytes for both.
const char kMulticast[] =
    "shl.b32 %r1, %rank, 7; add.u32 %r2, %s, %r1; cvt.u64.u32 %z, %r1; "
    "add.u64 %z, %g, %z; "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    ".multicast::cluster [%r2], [%z], 128, [%b], 3; ";

struct Outcome {
  std::string finding, details;
  std::vector<int> memory;
};

Outcome outcomeOf(const std::string &code, uint64_t seed = 0,
                  unsigned threads = 1, const std::string &begin = kSync) {
  TestDevice device(90);
  device.seed = seed;
  EXPECT_EQ(device.load(ptxOf(code, begin)), "");
  std::vector<int> values(128);
  for (int i = 0; i < 128; ++i)
    values[size_t(i)] = i;
  uint64_t global = device.upload(values);
  LaunchResult result = device.launch("k", {2}, {threads}, 0, global);
  Outcome outcome;
  if (result.finding)
    outcome = {result.finding->headline, result.finding->details, {}};
  outcome.memory = device.download<int>(global, 128);
  return outcome;
}

class Clusters : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Clusters, testing::Values(0, 1, 2, 3, 4));

/// Word 63 of each block's shared memory goes to word 64 + rank.
TEST_P(Clusters, ShareWhatTheyCopy) {
  std::string code = std::string(kExpect) + kMulticast + kAwait +
                     "ld.shared.u32 %r1, [%s+252]; shl.b32 %r2, %rank, 2; "
                     "cvt.u64.u32 %z, %r2; add.u64 %z, %g, %z; "
                     "add.u32 %r1, %r1, %rank; st.global.u32 [%z+256], %r1; " +
                     kSync;
  Outcome outcome = outcomeOf(code, GetParam());
  EXPECT_EQ(outcome.finding, "") << outcome.details;
  EXPECT_EQ(outcome.memory[64], 63);
  EXPECT_EQ(outcome.memory[65], 64);
}

/// An arrival orders what a block wrote to global memory before what the other
/// one reads.
TEST_P(Clusters, ArriveAtEachOther) {
  std::string code = std::string("@%q0 bra second; st.global.u32 [%g], 77; ") +
                     kArrive + "bra end; second: " + kAwait +
                     "ld.global.u32 %r1, [%g]; st.global.u32 [%g+4], %r1; "
                     "end: " +
                     kSync;
  Outcome outcome = outcomeOf(code, GetParam());
  EXPECT_EQ(outcome.finding, "") << outcome.details;
  EXPECT_EQ(outcome.memory[1], 77);
}

/// Threads that have ended are not waited for, nor is a block of them.
TEST_P(Clusters, PassTheBarrierWithoutThoseThatEnded) {
  Outcome outcome = outcomeOf(
      "@%q0 ret; setp.gt.u32 %q2, %n, 31; @%q2 ret; barrier.cluster.arrive; "
      "barrier.cluster.wait; st.global.u32 [%g], 7;",
      GetParam(), 64);
  EXPECT_EQ(outcome.finding, "") << outcome.details;
  EXPECT_EQ(outcome.memory[0], 7);
}

/// What is between an arrival and the wait need not be ordered.
TEST_P(Clusters, OrderWhatIsBeforeTheArrival) {
  std::string write = "@!%q0 st.global.u32 [%g], 7; ",
              read = "@%q0 ld.global.u32 %r1, [%g]; "
                     "@%q0 st.global.u32 [%g+4], %r1; ";
  Outcome outcome = outcomeOf(write + kSync + read, GetParam());
  EXPECT_EQ(outcome.finding, "") << outcome.details;
  EXPECT_EQ(outcome.memory[1], 7);
  EXPECT_THAT(outcomeOf("barrier.cluster.arrive; " + write +
                            "barrier.cluster.wait; " + read,
                        GetParam())
                  .finding,
              testing::HasSubstr("race in global memory"));
  EXPECT_THAT(outcomeOf(write +
                            "barrier.cluster.arrive.relaxed; "
                            "barrier.cluster.wait; " +
                            read,
                        GetParam())
                  .finding,
              testing::HasSubstr("race in global memory"));
}

/// What a multicast reads counts once, and what further blocks get apart.
TEST(ClusterCounts, HaveAMulticastOnce) {
  TestDevice device(90);
  device.options.counting = Counting::Requests;
  std::string code = std::string(kExpect) + kMulticast + kAwait + kSync;
  ASSERT_EQ(device.load(ptxOf(code, kSync)), "");
  uint64_t global = device.upload(std::vector<int>(128));
  LaunchResult result = device.launch("k", {2}, {1}, 0, global);
  EXPECT_FALSE(result.finding);
  EXPECT_EQ(result.counts.bulkBytes, 256u);
  EXPECT_EQ(result.counts.multicastBytes, 256u);
}

TEST(ClusterRegisters, SayWhichBlockItIs) {
  TestDevice device(90);
  std::string body = R"(
  .reg .b32 %r<12>;
  .reg .b64 %g;
  ld.param.u64 %g, [global];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ctaid.y;
  mad.lo.u32 %r0, %r1, 4, %r0;
  mov.u32 %r1, %clusterid.x;
  mov.u32 %r2, %clusterid.y;
  mov.u32 %r3, %nclusterid.x;
  mov.u32 %r4, %nclusterid.y;
  mov.u32 %r5, %cluster_ctaid.x;
  mov.u32 %r6, %cluster_ctaid.y;
  mov.u32 %r7, %cluster_nctaid.x;
  mov.u32 %r8, %cluster_nctaid.y;
  mov.u32 %r9, %cluster_ctarank;
  mov.u32 %r10, %cluster_nctarank;
  mad.wide.u32 %g, %r0, 40, %g;
)";
  for (int i = 0; i < 10; ++i)
    body += "  st.global.u32 [%g+" + std::to_string(4 * i) + "], %r" +
            std::to_string(i + 1) + ";\n";
  std::string ptx = kernelPtx(".param .u64 global", body + "  ret;\n", "sm_90");
  ptx.insert(ptx.find("\n{"), "\n.reqnctapercluster 2, 3");
  ASSERT_EQ(device.load(ptx), "");
  uint64_t global = device.allocate(24 * 40);
  device.run("k", {4, 6}, {1}, 0, global);
  auto found = device.download<int>(global, 240);
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 4; ++x) {
      std::vector<int> expected = {
          x / 2, y / 3, 2, 2, x % 2, y % 3, 2, 3, x % 2 + y % 3 * 2, 6};
      auto at = found.begin() + (y * 4 + x) * 10;
      EXPECT_EQ(std::vector<int>(at, at + 10), expected) << x << " " << y;
    }
}

struct ClusterMisuse {
  const char *name;
  std::string code;
  const char *finding; ///< part of the headline
  std::string begin = kSync;
};

const ClusterMisuse kMisuses[] = {
    {"ArrivesBeforeInit", std::string(kArrive) + kSync,
     "read of shared memory that nobody wrote at offset 256 of another block",
     ""},
    {"ArrivesWithoutABarrierBehindInit",
     std::string("@%q0 bra second; again2: ld.volatile.global.u32 %r1, [%g]; "
                 "setp.eq.u32 %q3, %r1, 0; @%q3 bra again2; ") +
         kArrive + "second: st.volatile.global.u32 [%g], 1;" + kSync,
     "race: write after write", ""},
    {"CopiesWithoutABarrierBehindInit",
     std::string(kExpect) + kMulticast + kAwait + kSync,
     "read of shared memory that nobody wrote at offset 256 of another block",
     ""},
    {"EndsBeforeAnArrival", std::string("@%q0 ") + kArrive,
     "race: the block may end before another block of its cluster arrives"},
    {"ArrivesAtABlockThatEnded", std::string("@!%q0 ") + kArrive,
     "mbarrier.arrive: block (1,0,0) of the cluster has ended"},
    {"NobodyWaitsForAMulticast",
     std::string(kExpect) + kMulticast + "@%q0 bra end; " + kAwait +
         "end: " + kSync,
     "block ends with a cp.async.bulk that nobody has waited for"},
    {"AMaskOfNone",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
     ".multicast::cluster [%s], [%g], 128, [%b], 0;",
     "a multicast to blocks 0 (a bit each) of a cluster of 2"},
    {"AMaskOfTooMany",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
     ".multicast::cluster [%s], [%g], 128, [%b], 7;",
     "a multicast to blocks 7 (a bit each) of a cluster of 2"},
    {"AMaskOfOne",
     std::string(kExpect) +
         "shl.b32 %r1, %rank, 7; add.u32 %r2, %s, %r1; "
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
         ".multicast::cluster [%r2], [%g], 128, [%b], 1; " +
         kAwait + kSync,
     "deadlock"},
    {"ABlockThatIsNone", "mapa.shared::cluster.u32 %r1, %b, 2;",
     "block 2 of a cluster of 2"},
    {"ArrivesTwice", "barrier.cluster.arrive; barrier.cluster.arrive;",
     "barrier.cluster.arrive by a thread that has yet to wait"},
    {"WaitsWithoutAnArrival", "barrier.cluster.wait;",
     "barrier.cluster.wait without an arrival"},
    {"OneBlockDoesNotCome",
     std::string("@%q0 bra second; ") + kSync + "bra end; second: " + kAwait +
         "end:",
     "deadlock"},
    {"CopiesOverWhatABlockReads",
     std::string("st.shared.u32 [%s+128], 1; ") + kSync +
         "@!%q0 ld.shared.u32 %r3, [%s+128]; @!%q0 bra end; " + kMulticast +
         "end: " + kSync,
     "race: write after read"},
    {"CopiesOverWhatABlockWrote",
     std::string("st.shared.u32 [%s], 1; ") + kExpect + kMulticast + kAwait +
         kSync,
     "race: write after write"},
    {"ReadsWhatIsToCome",
     std::string(kExpect) + kMulticast + kSync + "ld.shared.u32 %r1, [%s]; " +
         kAwait + kSync,
     "that a cp.async is still to write"},
    {"LoadsFromAnotherBlock", "ld.shared::cluster.u32 %r1, [%peer];",
     "out of bounds: load from shared memory"},
};

class ClusterMisuses : public testing::TestWithParam<ClusterMisuse> {};
INSTANTIATE_TEST_SUITE_P(Misuses, ClusterMisuses, testing::ValuesIn(kMisuses),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST_P(ClusterMisuses, AreFound) {
  const ClusterMisuse &misuse = GetParam();
  EXPECT_THAT(outcomeOf(misuse.code, 0, 1, misuse.begin).finding,
              testing::HasSubstr(misuse.finding));
}

/// A deadlock says what the threads of each block of the cluster wait for.
TEST(ClusterDeadlock, HasTheStatesOfAllBlocks) {
  Outcome outcome = outcomeOf(std::string("@%q0 bra second; ") + kSync +
                              "bra end; second: " + kAwait + "end:");
  EXPECT_THAT(outcome.details,
              testing::AllOf(
                  testing::HasSubstr("wait for other threads of their cluster"),
                  testing::HasSubstr("block (1,0,0) of the cluster:"),
                  testing::HasSubstr("wait for an mbarrier")));
}

} // namespace
} // namespace cria::emulator
