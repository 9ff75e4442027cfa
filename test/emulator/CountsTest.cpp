// Counts of kernels that can be worked out by hand.
#include "test/emulator/Device.h"

#include <random>
#include <set>

namespace cria::emulator {
namespace {

/// Runs kernels that count. A body has %tid in %r0, its lane in %r1, the
/// address of shared memory in %r2 and that of a buffer in %rd0.
class Counts : public testing::Test {
protected:
  Counts() {
    device.options.counting = Counting::Requests;
    device.checks.init = device.checks.race = false;
  }

  void run(const std::string &body, Dim grid = {}, Dim block = {32}) {
    std::string head =
        ".reg .b64 %rd<8>; .reg .b32 %r<40>; .reg .f32 %f<8>; .reg .pred %p;\n"
        ".shared .align 128 .b8 s[16384];\n.local .align 4 .b8 l[16];\n"
        "ld.param.u64 %rd0, [a]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31;\n"
        "mov.u32 %r2, s;\n";
    ASSERT_EQ(device.load(kernelPtx(".param .u64 a", head + body + "\nret;\n")),
              "");
    LaunchResult result = device.launch("k", grid, block, 0, buffer);
    ASSERT_FALSE(result.finding) << result.finding->headline;
    counts = result.counts;
  }
  RequestCounts of(RequestKind kind) { return counts.ofKind(plan(), kind); }
  uint64_t threads(const std::string &name) {
    return counts.ofThreads(plan(), name);
  }
  uint64_t warps(const std::string &name) {
    return counts.ofWarps(plan(), name);
  }
  CountPlan &plan() { return *device.program->find("k")->countPlan; }

  TestDevice device;
  uint64_t buffer = device.allocate(1 << 20);
  LaunchCounts counts;
};

/// %rd1 = buffer + bytes * %r1
std::string strided(int bytes, int from = 0) {
  return "mad.lo.u32 %r3, %r1, " + std::to_string(bytes) + ", " +
         std::to_string(from) +
         "; cvt.u64.u32 %rd1, %r3; add.u64 %rd1, %rd0, %rd1;\n";
}

/// %r3 = shared memory + bytes * %r1
std::string sharedStrided(int bytes) {
  return "mad.lo.u32 %r3, %r1, " + std::to_string(bytes) + ", %r2;\n";
}

TEST_F(Counts, NeighboursShareSectors) {
  run(strided(4) + "ld.global.b32 %r4, [%rd1];");
  RequestCounts loads = of(RequestKind::GlobalLoad);
  EXPECT_EQ(loads.requests, 1u);
  EXPECT_EQ(loads.bytes, 32u * 4);
  EXPECT_EQ(loads.used, 32u * 4);
  EXPECT_EQ(loads.parts, 32u * 4 / 32);
  EXPECT_EQ(loads.least, loads.parts);
}

TEST_F(Counts, AStrideOfTwoUsesHalfOfEachSector) {
  run(strided(8) + "ld.global.b32 %r4, [%rd1];");
  RequestCounts loads = of(RequestKind::GlobalLoad);
  EXPECT_EQ(loads.used, 32u * 4);
  EXPECT_EQ(loads.parts, 32u * 8 / 32);
  EXPECT_EQ(loads.least, 32u * 4 / 32);
}

TEST_F(Counts, SixteenBytesALaneAreSixteenSectors) {
  run(strided(16) + "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1];");
  RequestCounts loads = of(RequestKind::GlobalLoad);
  EXPECT_EQ(loads.requests, 1u);
  EXPECT_EQ(loads.parts, 32u * 16 / 32);
}

TEST_F(Counts, FourBytesBesideASectorTouchOneMore) {
  run(strided(4, 4) + "ld.global.b32 %r4, [%rd1];");
  EXPECT_EQ(of(RequestKind::GlobalLoad).parts, 5u);
  EXPECT_EQ(of(RequestKind::GlobalLoad).least, 4u);
}

TEST_F(Counts, LanesAtOneAddressShareASector) {
  run("st.global.b32 [%rd0], 7;");
  RequestCounts stores = of(RequestKind::GlobalStore);
  EXPECT_EQ(stores.bytes, 32u * 4);
  EXPECT_EQ(stores.used, 4u);
  EXPECT_EQ(stores.parts, 1u);
}

TEST_F(Counts, RandomAddressesTouchEachSectorOnce) {
  std::mt19937 random(1);
  std::vector<uint32_t> offsets;
  std::set<uint32_t> sectors, words;
  for (int lane = 0; lane < 32; ++lane) {
    offsets.push_back(512 + uint32_t(random() % 64) * 4);
    sectors.insert(offsets.back() / 32);
    words.insert(offsets.back());
  }
  std::memcpy(reinterpret_cast<void *>(buffer), offsets.data(), 128);
  run(strided(4) + "ld.global.b32 %r4, [%rd1]; cvt.u64.u32 %rd2, %r4;"
                   "add.u64 %rd2, %rd0, %rd2; ld.global.b32 %r5, [%rd2];");
  RequestCounts loads = of(RequestKind::GlobalLoad);
  EXPECT_EQ(loads.requests, 2u);
  EXPECT_EQ(loads.parts, 4 + sectors.size());
  EXPECT_EQ(loads.used, 128 + 4 * words.size());
}

TEST_F(Counts, AtomicsAreRequests) {
  run("red.global.add.u32 [%rd0], 1; "
      "atom.shared.add.u32 %r4, [s], 1;");
  EXPECT_EQ(of(RequestKind::GlobalAtomic).parts, 1u);
  EXPECT_EQ(of(RequestKind::SharedAtomic).requests, 1u);
  EXPECT_EQ(warps("atomic.global"), 1u);
  EXPECT_EQ(warps("atomic.shared"), 1u);
}

TEST_F(Counts, AGenericAddressIsOfItsSpace) {
  run(strided(4) + "ld.b32 %r4, [%rd1]; cvt.u64.u32 %rd2, %r2;"
                   "cvta.shared.u64 %rd2, %rd2; ld.b32 %r4, [%rd2];");
  EXPECT_EQ(of(RequestKind::GlobalLoad).parts, 4u);
  EXPECT_EQ(of(RequestKind::SharedLoad).parts, 1u);
  EXPECT_EQ(warps("ld.generic"), 2u);
}

TEST_F(Counts, ABlockLoadsASectorFirstOnce) {
  // Both warps of each block load the same 128 bytes twice.
  run("and.b32 %r1, %r1, 31;" + strided(4) +
          "ld.global.b32 %r4, [%rd1]; ld.global.b32 %r4, [%rd1];",
      {3}, {64});
  EXPECT_EQ(of(RequestKind::GlobalLoad).parts, 3u * 2 * 2 * 4);
  EXPECT_EQ(of(RequestKind::GlobalLoad).first, 3u * 4);
}

TEST_F(Counts, LocalMemoryHasBytesAlone) {
  run("st.local.b32 [l], %r1; ld.local.b32 %r4, [l]; ld.local.b32 %r4, [l];");
  EXPECT_EQ(of(RequestKind::LocalStore).bytes, 32u * 4);
  EXPECT_EQ(of(RequestKind::LocalLoad).bytes, 2u * 32 * 4);
  EXPECT_EQ(of(RequestKind::LocalLoad).requests, 0u);
}

TEST_F(Counts, EveryWarpOfEveryBlockAsks) {
  // 40 threads: a warp of 32 lanes and one of 8.
  run(strided(4) + "ld.global.b32 %r4, [%rd1];", {3}, {40});
  EXPECT_EQ(of(RequestKind::GlobalLoad).requests, 3u * 2);
  EXPECT_EQ(of(RequestKind::GlobalLoad).parts, 3u * (4 + 1));
  EXPECT_EQ(of(RequestKind::GlobalLoad).bytes, 3u * 40 * 4);
}

/// Lanes that each go through a loop alone. %r5 counts rounds of %r6.
std::string loop(const std::string &body) {
  return "mov.u32 %r5, 0;\nagain:\n" + body +
         "add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, %r6; @%p bra again;\n";
}

TEST_F(Counts, LanesOfALoopAreJoinedByRound) {
  run(strided(4) + "mov.u32 %r6, 100;" +
      loop("ld.global.b32 %r4, [%rd1]; add.u64 %rd1, %rd1, 128;\n"));
  EXPECT_EQ(of(RequestKind::GlobalLoad).requests, 100u);
  EXPECT_EQ(of(RequestKind::GlobalLoad).parts, 100u * 4);
}

TEST_F(Counts, LanesThatLeaveALoopAskNoMore) {
  // Lane i goes i + 1 rounds: round n has the lanes from n on.
  run(strided(4) + "add.u32 %r6, %r1, 1;" +
      loop("ld.global.b32 %r4, [%rd1]; add.u64 %rd1, %rd1, 128;\n"));
  EXPECT_EQ(of(RequestKind::GlobalLoad).requests, 32u);
  EXPECT_EQ(of(RequestKind::GlobalLoad).parts, 8u * (4 + 3 + 2 + 1));
}

/// Even lanes load in round 0, odd ones in round 1: lanes 8 bytes apart.
void expectTwoHalves(const RequestCounts &loads) {
  EXPECT_EQ(loads.requests, 2u);
  EXPECT_EQ(loads.bytes, 32u * 4);
  EXPECT_EQ(loads.parts, 2u * 16 * 8 / 32);
}
const char *kIsMyRound =
    "xor.b32 %r7, %r5, %r1; and.b32 %r7, %r7, 1; setp.eq.u32 %p, %r7, 0;";

TEST_F(Counts, AnAccessThatIsSwitchedOffKeepsLanesInStep) {
  run(strided(4) + "mov.u32 %r6, 2;" +
      loop(std::string(kIsMyRound) + "@%p ld.global.b32 %r4, [%rd1];\n"));
  expectTwoHalves(of(RequestKind::GlobalLoad));
}

TEST_F(Counts, ABarrierBringsLanesInStep) {
  run(strided(4) + "mov.u32 %r6, 2;" +
      loop(std::string(kIsMyRound) +
           "@!%p bra skip; ld.global.b32 %r4, [%rd1];\nskip: bar.sync 0;\n"));
  expectTwoHalves(of(RequestKind::GlobalLoad));
}

TEST_F(Counts, AShuffleBringsLanesInStep) {
  run(strided(4) + "mov.u32 %r6, 2;" +
      loop(std::string(kIsMyRound) +
           "@!%p bra skip; ld.global.b32 %r4, [%rd1];\n"
           "skip: shfl.sync.bfly.b32 %r8, %r1, 1, 31, -1;\n"));
  expectTwoHalves(of(RequestKind::GlobalLoad));
}

TEST_F(Counts, ALongLoopIsLeftOutInPart) {
  run(strided(4) + "mov.u32 %r6, 100000;" +
      loop("ld.global.b32 %r4, [%rd1];\n"));
  RequestCounts loads = of(RequestKind::GlobalLoad);
  EXPECT_EQ(loads.bytes, 100000u * 128);
  EXPECT_EQ(loads.requests, 65536u);
  EXPECT_EQ(loads.parts, 65536u * 4);
  EXPECT_EQ(loads.unseen, (100000u - 65536) * 32);
}

/// A load from shared memory: its wavefronts, and the fewest.
struct SharedCase {
  std::string name;
  int stride; ///< bytes from lane to lane
  std::string load;
  uint64_t wavefronts, least;
};

class SharedCounts : public Counts,
                     public testing::WithParamInterface<SharedCase> {};

TEST_P(SharedCounts, Wavefronts) {
  const SharedCase &test = GetParam();
  run(sharedStrided(test.stride) + test.load);
  EXPECT_EQ(of(RequestKind::SharedLoad).requests, 1u);
  EXPECT_EQ(of(RequestKind::SharedLoad).parts, test.wavefronts);
  EXPECT_EQ(of(RequestKind::SharedLoad).least, test.least);
}

const char *kLoad2 = "ld.shared.b16 %r4, [%r3];";
const char *kLoad4 = "ld.shared.b32 %r4, [%r3];";
const char *kLoad8 = "ld.shared.v2.b32 {%r4, %r5}, [%r3];";
const char *kLoad16 = "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];";

INSTANTIATE_TEST_SUITE_P(
    Strides, SharedCounts,
    testing::Values(SharedCase{"Words", 4, kLoad4, 1, 1},
                    SharedCase{"OneWord", 0, kLoad4, 1, 1},
                    // Two lanes a word.
                    SharedCase{"HalfWords", 2, kLoad2, 1, 1},
                    // Lanes i and i + 16 are 128 bytes apart: one bank.
                    SharedCase{"EverySecondWord", 8, kLoad4, 2, 1},
                    SharedCase{"OneBank", 128, kLoad4, 32, 1},
                    SharedCase{"OnePadded", 132, kLoad4, 1, 1},
                    SharedCase{"DoubleWords", 8, kLoad8, 2, 2},
                    SharedCase{"SixteenBytes", 16, kLoad16, 4, 4},
                    // Lanes i and i + 4 of a quarter are 128 bytes apart.
                    SharedCase{"EverySecondSixteenBytes", 32, kLoad16, 4 * 2,
                               4}),
    [](const auto &test) { return test.param.name; });

TEST_F(Counts, StoresHaveConflictsToo) {
  run(sharedStrided(8) + "st.shared.b32 [%r3], %r1;");
  EXPECT_EQ(of(RequestKind::SharedStore).parts, 2u);
}

/// Four 8x8 matrices of rows of 64 bytes; lane i brings row i % 8 of its
/// matrix, which is column i / 8 of 16 bytes. %r5 is added to the column by
/// xor.
std::string loadMatrices(const std::string &swizzle) {
  return "and.b32 %r3, %r1, 7; shr.u32 %r4, %r1, 3;" + swizzle +
         "xor.b32 %r4, %r4, %r5; shl.b32 %r4, %r4, 4; "
         "mad.lo.u32 %r4, %r3, 64, %r4; add.u32 %r4, %r4, %r2;"
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, "
         "[%r4];";
}

TEST_F(Counts, RowsOfAMatrixConflict) {
  // Of 8 rows every second begins in one bank.
  run(loadMatrices("mov.u32 %r5, 0;"));
  EXPECT_EQ(of(RequestKind::MatrixLoad).bytes, 32u * 16);
  EXPECT_EQ(of(RequestKind::MatrixLoad).parts, 4u * 4);
  EXPECT_EQ(of(RequestKind::MatrixLoad).least, 4u);
}

TEST_F(Counts, SwizzledRowsDoNot) {
  run(loadMatrices("shr.u32 %r5, %r3, 1;"));
  EXPECT_EQ(of(RequestKind::MatrixLoad).parts, 4u);
}

TEST_F(Counts, AMatrixHasEightLanes) {
  run("mad.lo.u32 %r4, %r1, 16, %r2;"
      "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r6, %r7}, [%r4];");
  EXPECT_EQ(of(RequestKind::MatrixLoad).bytes, 2u * 8 * 16);
  EXPECT_EQ(of(RequestKind::MatrixLoad).parts, 2u);
}

TEST_F(Counts, CopiesReadWhatIsValidAndWriteAll) {
  // The first 8 lanes copy 16 bytes, the others fill with zeros.
  run(strided(16) + "mad.lo.u32 %r3, %r1, 16, %r2; setp.lt.u32 %p, %r1, 8;"
                    "selp.u32 %r4, 16, 0, %p;"
                    "cp.async.cg.shared.global [%r3], [%rd1], 16, %r4;"
                    "cp.async.commit_group; cp.async.wait_group 0;");
  EXPECT_EQ(of(RequestKind::GlobalCopy).bytes, 8u * 16);
  EXPECT_EQ(of(RequestKind::GlobalCopy).parts, 8u * 16 / 32);
  EXPECT_EQ(of(RequestKind::SharedCopy).bytes, 32u * 16);
  EXPECT_EQ(of(RequestKind::SharedCopy).parts, 4u);
  EXPECT_EQ(warps("cp.async"), 1u);
  EXPECT_EQ(warps("sync"), 2u);
}

TEST_F(Counts, MatrixProductsHaveOperations) {
  std::string product =
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11}, {%r12, %r13}, "
      "{%r4, %r5, %r6, %r7};";
  run(product + product + product, {2}, {64});
  EXPECT_EQ(warps("mma.m16n8k16.bf16"), 2u * 2 * 3);
  EXPECT_EQ(plan().classes[plan().classOf("mma.m16n8k16.bf16", 0)].operations,
            2u * 16 * 8 * 16);
}

TEST_F(Counts, AWarpDoesAQuarterOfTheProductOfItsWarpgroup) {
  device.options.capability = 90;
  run("shr.u32 %r3, %r2, 4; cvt.u64.u32 %rd1, %r3; wgmma.fence.sync.aligned; "
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%f0, %f1, %f2, %f3}, %rd1, %rd1, %p, 1, 1, 0, 0; "
      "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
      {2}, {128});
  EXPECT_EQ(warps("wgmma.m64n8k16.bf16"), 2u * 4);
  EXPECT_EQ(plan().classes[plan().classOf("wgmma.m64n8k16.bf16", 0)].operations,
            2u * 64 * 8 * 16 / 4);
  EXPECT_EQ(warps("sync"), 2u * 4 * 3);
}

TEST_F(Counts, BulkCopiesAreNoRequests) {
  device.options.capability = 90;
  run("cp.async.bulk.prefetch.L2.global [%rd0], 16; st.shared.b32 [%r2], 0; "
      "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 16; "
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; "
      "mbarrier.init.shared.b64 [%r2+32], 1;",
      {1}, {1});
  EXPECT_EQ(warps("hint"), 1u);
  EXPECT_EQ(warps("cp.async.bulk"), 1u);
  EXPECT_EQ(warps("sync"), 2u);
  EXPECT_EQ(warps("mbarrier"), 1u);
  EXPECT_EQ(of(RequestKind::GlobalCopy).requests, 0u);
}

TEST_F(Counts, EveryWarpComesToABarrier) {
  run("bar.sync 0; bar.sync 0; barrier.sync 1;", {2}, {96});
  EXPECT_EQ(warps("barrier"), 2u * 3 * 3);
  EXPECT_EQ(threads("barrier"), 2u * 96 * 3);
}

TEST_F(Counts, AWarpExecutesWhatAnyOfItsLanesDoes) {
  run("setp.ge.u32 %p, %r1, 8; @%p bra else;"
      "fma.rn.f32 %f0, %f1, %f2, %f3; add.f32 %f0, %f0, %f0; bra end;\n"
      "else: ex2.approx.f32 %f0, %f1; ex2.approx.f32 %f0, %f0;\nend:");
  EXPECT_EQ(threads("fma"), 8u);
  EXPECT_EQ(warps("fma"), 1u);
  EXPECT_EQ(threads("f32"), 8u);
  EXPECT_EQ(threads("special"), 24u * 2);
  EXPECT_EQ(warps("special"), 2u);
}

TEST_F(Counts, TheLongestBlockHasMostInstructions) {
  run("mov.u32 %r4, %ctaid.x; mul.lo.u32 %r6, %r4, 10;" +
          loop("mul.lo.u32 %r5, %r5, 1;"),
      {4}, {64});
  // Blocks 0 and 1 to 3 go 1, 10, 20 and 30 rounds.
  uint64_t all = 0, rounds = 1 + 10 + 20 + 30;
  for (uint64_t count : counts.warpInstructions)
    all += count;
  uint64_t round = 2 * 4; // by each of two warps
  EXPECT_EQ(counts.longestBlock, (all - rounds * round) / 4 + 30 * round);
}

TEST_F(Counts, ALoopCountsItsRounds) {
  run("add.u32 %r6, %r1, 1;" + loop("mul.lo.u32 %r4, %r4, 3;"));
  // Two integer instructions a round (the product and the counter), and two
  // outside: the lane and %r6.
  EXPECT_EQ(threads("integer"), 32u * 33 / 2 * 2 + 32 * 2);
  EXPECT_EQ(warps("integer"), 32u * 2 + 2);
}

TEST_F(Counts, InstructionsAloneHaveNoRequests) {
  device.options.counting = Counting::Instructions;
  run(strided(4) + "ld.global.b32 %r4, [%rd1];");
  EXPECT_TRUE(counts.sites.empty());
  // 4 at the head, 3 of the address, the load and the end.
  EXPECT_EQ(counts.instructions(), 32u * (4 + 3 + 1 + 1));
}

TEST_F(Counts, EachInstructionHasAClass) {
  run("mov.b32 %r4, %r5; cvt.rn.f32.u32 %f0, %r4; setp.eq.u32 %p, %r4, 0;"
      "selp.b32 %r4, %r5, %r6, %p; div.u32 %r4, %r5, 3; xor.b32 %r4, %r4, 1;"
      "shfl.sync.idx.b32 %r4, %r5, 0, 31, -1; membar.cta;"
      "vote.sync.any.pred %p, %p, -1; max.f32 %f0, %f1, %f2;"
      "fma.rn.bf16x2 %r4, %r5, %r6, %r7; bar.warp.sync -1;");
  const std::map<std::string, uint64_t> expected = {
      {"move", 2 + 1}, // %tid and the address of shared memory
      {"convert", 1},  {"compare", 2}, {"divide", 1},  {"integer", 1 + 1},
      {"shuffle", 1},  {"sync", 2},    {"vote", 1},    {"f32", 1},
      {"f16", 1},      {"control", 1}, {"ld.param", 1}};
  std::map<std::string, uint64_t> found;
  for (const InstructionClass &one : plan().classes)
    found[one.name] = warps(one.name);
  EXPECT_EQ(found, expected);
}

} // namespace
} // namespace cria::emulator
