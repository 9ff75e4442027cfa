// The checks find wrong uses of mbarriers, bulk copies and products, one in
// each kernel.
#include "test/emulator/Device.h"
#include "tools/emulator/run/async/TensorMap.h"

#include <gmock/gmock.h>

namespace cria::emulator {
namespace {

/// A kernel of (map, global) that has an mbarrier for one arrival at %b, 256
/// bytes of shared memory at %s and 256 bytes of global memory at %g.
std::string ptxOf(const std::string &code) {
  return R"(.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 global)
{
  .shared .align 128 .b8 bytes[256];
  .shared .align 8 .b8 barrier[8];
  .reg .pred %q<2>;
  .reg .b32 %b, %s, %n;
  .reg .b64 %g, %m, %z;
  .reg .f32 %f<4>;
  mov.u32 %b, barrier;
  mov.u32 %s, bytes;
  mov.u32 %n, %tid.x;
  mov.b64 %m, map;
  cvta.param.u64 %m, %m;
  ld.param.u64 %g, [global];
  setp.ne.u32 %q0, %n, 0;
  @%q0 bra ready;
  mbarrier.init.shared::cta.b64 [%b], 1;
  fence.mbarrier_init.release.cluster;
ready:
  bar.sync 0;
)" + code +
         "\n  ret;\n}\n";
}

/// The headline of the finding, or "".
std::string findingOf(const std::string &code, unsigned threads = 1,
                      TensorMap map = {}, Checks checks = {}) {
  TestDevice device(90);
  device.checks = checks;
  EXPECT_EQ(device.load(ptxOf(code)), "");
  uint64_t global = device.upload(std::vector<int>(64));
  map.address = global;
  LaunchResult result = device.launch("k", {1}, {threads}, 0, map, global);
  return result.finding ? result.finding->headline : "";
}

struct Misuse {
  const char *name, *code;
  const char *finding; ///< part of the headline
  unsigned threads = 1;
};

const Misuse kMisuses[] = {
    {"NoArrivals", "mbarrier.init.shared::cta.b64 [%s], 0;",
     "mbarrier for 0 arrivals, expected 1 to 1048575"},
    {"InitTwice", "mbarrier.init.shared::cta.b64 [%b], 1;",
     "mbarrier.init of an mbarrier that is in use"},
    {"NoMbarrier",
     "st.shared.b64 [%s], 0; mbarrier.arrive.shared::cta.b64 _, [%s];",
     "mbarrier.arrive: there is no mbarrier at offset 0"},
    {"Overwritten",
     "st.shared.b64 [%b], 0; mbarrier.arrive.shared::cta.b64 _, [%b];",
     "mbarrier.arrive: the mbarrier at offset 256 was overwritten"},
    {"TooManyArrivals", "mbarrier.arrive.shared::cta.b64 _, [%b], 2;",
     "2 arrivals at an mbarrier whose phase needs 1 more"},
    {"TooManyBytes", "mbarrier.expect_tx.shared::cta.b64 [%b], 1048576;",
     "an mbarrier that waits for 1048576 bytes, expected at most 1048575"},
    {"NegativeBytes", "mbarrier.expect_tx.shared::cta.b64 [%b], -16;",
     "an mbarrier that waits for 4294967280 bytes"},
    {"NoCompleteThatCompletes",
     "mbarrier.arrive.noComplete.shared::cta.b64 %z, [%b], 1;",
     "mbarrier.arrive.noComplete ends a phase"},
    {"StateOfAnotherPhase",
     "mbarrier.arrive.shared::cta.b64 %z, [%b]; "
     "mbarrier.arrive.shared::cta.b64 _, [%b]; "
     "mbarrier.test_wait.shared::cta.b64 %q0, [%b], %z;",
     "mbarrier.test_wait for a state of another phase"},
    {"InvalidatedUnderACopy",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[%s], [%g], 16, [%b]; mbarrier.inval.shared::cta.b64 [%b];",
     "mbarrier.inval while a copy is to complete there"},
    {"NobodyWaitsForALoad",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[%s], [%g], 16, [%b];",
     "block ends with a cp.async.bulk that nobody has waited for"},
    {"OddBytes",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[%s], [%g], 24, [%b];",
     "cp.async.bulk of 24 bytes, expected a multiple of 16"},
    {"SourceChanges",
     "st.shared.v4.b32 [%s], {%n, %n, %n, %n}; fence.proxy.async; "
     "cp.async.bulk.global.shared::cta.bulk_group [%g], [%s], 16; "
     "cp.async.bulk.commit_group; st.shared.b32 [%s], 1; "
     "cp.async.bulk.wait_group 0;",
     "missing fence.proxy.async"},
    {"SourceChangesBehindAFence",
     "st.shared.v4.b32 [%s], {%n, %n, %n, %n}; fence.proxy.async; "
     "cp.async.bulk.global.shared::cta.bulk_group [%g], [%s], 16; "
     "cp.async.bulk.commit_group; st.shared.b32 [%s], 1; fence.proxy.async; "
     "cp.async.bulk.wait_group 0;",
     "shared memory was written while a cp.async.bulk read it"},
    {"MapInTheMiddleOfAParameter",
     "add.u64 %m, %m, 32; cp.async.bulk.tensor.1d.shared::cluster.global.tile"
     ".mbarrier::complete_tx::bytes [%s], [%m, {%n}], [%b];",
     "a tensor map at offset 32 of the parameters"},
    {"NoMap",
     "cp.async.bulk.tensor.1d.shared::cluster.global.tile"
     ".mbarrier::complete_tx::bytes [%s], [%g, {%n}], [%b];",
     "cp.async.bulk.tensor without a tensor map"},
    {"NoWarpgroup", "setmaxnreg.dec.sync.aligned.u32 40;",
     "setmaxnreg in a warpgroup of fewer than 128 threads", 96},
    {"NobodyWaitsForAProduct",
     "add.u32 %b, %s, %n; st.shared.b8 [%b], %n; fence.proxy.async; "
     "bar.sync 0; shr.u32 %s, %s, 4; cvt.u64.u32 %z, %s; "
     "wgmma.fence.sync.aligned; "
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
     "{%f0, %f1, %f2, %f3}, %z, %z, %q1, 1, 1, 0, 0; "
     "wgmma.commit_group.sync.aligned;",
     "thread ends with wgmma that it has not waited for", 128},
};

class Async : public testing::TestWithParam<Misuse> {};
INSTANTIATE_TEST_SUITE_P(Misuses, Async, testing::ValuesIn(kMisuses),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST_P(Async, IsFound) {
  EXPECT_THAT(findingOf(GetParam().code, GetParam().threads),
              testing::HasSubstr(GetParam().finding));
}

/// 256^5 elements are more than 32 bits count.
TEST(AsyncBox, IsNoLargerThanSharedMemory) {
  TensorMap map;
  map.rank = 5;
  map.elementBytes = 1;
  std::fill_n(map.dims, 5, 256);
  std::fill_n(map.box, 5, 256);
  EXPECT_THAT(
      findingOf("cp.async.bulk.tensor.5d.shared::cluster.global.tile"
                ".mbarrier::complete_tx::bytes [%s], "
                "[%m, {%n, %n, %n, %n, %n}], [%b];",
                1, map),
      testing::HasSubstr("a box of 1099511627776 bytes, more than shared"));
}

/// Bytes may come before somebody expects them.
TEST(AsyncBytes, EndAPhaseWhenTheyAreExpected) {
  EXPECT_EQ(findingOf("mbarrier.complete_tx.shared::cta.b64 [%b], 16; "
                      "mbarrier.arrive.shared::cta.b64 %z, [%b]; "
                      "mbarrier.expect_tx.shared::cta.b64 [%b], 16; "
                      "mbarrier.try_wait.shared::cta.b64 %q0, [%b], %z;"),
            "");
}

/// Where lanes may be missing from operations of a warp, they must not be
/// missing from those of a warpgroup.
TEST(AsyncWarpgroup, HasAllLanes) {
  Checks checks;
  checks.sync = false;
  EXPECT_THAT(
      findingOf("setp.eq.u32 %q0, %n, 5; @%q0 ret; "
                "setmaxnreg.dec.sync.aligned.u32 40;",
                128, {}, checks),
      testing::HasSubstr("setmaxnreg in a warp of which threads have ended"));
}

/// Where nobody looks for what is not waited for, a copy is made all the same.
TEST(AsyncStore, IsMadeWithoutAGroup) {
  TestDevice device(90);
  device.checks.sync = false;
  ASSERT_EQ(device.load(ptxOf(
                "st.shared.v4.b32 [%s], {7, 7, 7, 7}; fence.proxy.async; "
                "cp.async.bulk.global.shared::cta.bulk_group [%g], [%s], 16;")),
            "");
  uint64_t global = device.upload(std::vector<int>(64));
  device.run("k", {1}, {1}, 0, TensorMap(), global);
  EXPECT_EQ(device.download<int>(global, 5), (std::vector<int>{7, 7, 7, 7, 0}));
}

} // namespace
} // namespace cria::emulator
