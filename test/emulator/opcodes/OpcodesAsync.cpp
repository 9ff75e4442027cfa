// mbarrier, bulk copies and products of warpgroups.
#include "test/emulator/Floats.h"
#include "test/emulator/opcodes/Opcodes.h"

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;
using u32 = uint32_t;

constexpr auto kBits = Compare::Bits;
constexpr auto kIntegers = Inputs64::Integers;

void addBarriers(Cases &c) {
  c.push_back(
      alone("mbarrier.init.shared.b64 [%sh], 3; "
            "mbarrier.arrive.shared.b64 %z, [%sh]; "
            "mbarrier.test_wait.shared.b64 %q0, [%sh], %z; "
            "mbarrier.arrive_drop.noComplete.release.cta.shared.b64 %i64, "
            "[%sh], 1; "
            "mbarrier.arrive.shared.b64 _, [%sh]; "
            "mbarrier.arrive.noComplete.release.cta.shared.b64 %i64, [%sh], 1; "
            "mbarrier.arrive.shared.b64 _, [%sh]; "
            "mbarrier.test_wait.parity.shared.b64 %q1, [%sh], 1; "
            "mbarrier.inval.shared.b64 [%sh];",
            [](const Inputs &, Results &out) { out.q[1] = 1; }));
  c.push_back(alone(
      "mbarrier.init.shared::cta.b64 [%sh], 2; "
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%sh], 16; "
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%sh], 8; "
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%sh], 24; "
      "mbarrier.arrive_drop.shared::cta.b64 %z, [%sh]; "
      "mbarrier.try_wait.shared::cta.b64 %q0, [%sh], %z; "
      "mbarrier.arrive.shared::cta.b64 _, [%sh]; "
      "mbarrier.try_wait.parity.shared::cta.b64 %q1, [%sh], 1, 1000;",
      [](const Inputs &, Results &out) { out.q[0] = out.q[1] = 1; }, kIntegers,
      kBits, 90));
}

void addCopies(Cases &c) {
  c.push_back(alone(
      "st.global.v2.b64 [%g], {%x0, %x1}; "
      "mbarrier.init.shared::cta.b64 [%sh+32], 1; "
      "fence.mbarrier_init.release.cluster; fence.proxy.async; "
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%sh+32], 16; "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%sh], [%g], 16, [%sh+32]; again: "
      "mbarrier.try_wait.parity.shared::cta.b64 %q0, [%sh+32], 0; "
      "@!%q0 bra again; ld.shared.b64 %y, [%sh]; st.shared.b64 [%sh], %x2; "
      "fence.proxy.async.shared::cta; "
      "cp.async.bulk.global.shared::cta.bulk_group [%g+16], [%sh], 16; "
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
      "cp.async.bulk.wait_group 0; ld.global.v2.b32 {%r0, %t0}, [%g+16]; "
      "ld.global.v2.b32 {%t0, %r1}, [%g+24];",
      [](const Inputs &in, Results &out) {
        out.y = in.x[0];
        out.r[0] = in.a(2);
        out.r[1] = u32(in.x[1] >> 32);
        out.q[0] = 1;
      },
      kIntegers, kBits, 90));
  // The block is a cluster of its own; ClusterTest.cpp has larger ones.
  c.push_back(alone(
      "st.global.v2.b64 [%g], {%x0, %x1}; mov.u32 %t0, %cluster_ctarank; "
      "mapa.shared::cluster.u64 %z, %sh, %t0; "
      "mbarrier.init.shared::cta.b64 [%sh+32], 2; "
      "fence.mbarrier_init.release.cluster; fence.proxy.async; "
      "barrier.cluster.arrive.relaxed.aligned; "
      "barrier.cluster.wait.acquire.aligned; "
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%sh+32], 16; "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%z], [%g], 16, [%z+32], 1; "
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%z+32]; again: "
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q0, "
      "[%sh+32], 0; @!%q0 bra again; ld.shared.b64 %y, [%sh]; "
      "barrier.cluster.arrive; barrier.cluster.wait; "
      "mov.u32 %r1, %cluster_nctarank;",
      [](const Inputs &in, Results &out) {
        out.y = in.x[0];
        out.r[1] = 1;
        out.q[0] = 1;
      },
      kIntegers, kBits, 90));
  // HopperTest.cpp copies boxes of tensors; here nothing has a map.
  c.push_back(alone(
      "cp.async.bulk.prefetch.L2.global [%g], 16; setp.ne.u32 %q0, %n, %n; "
      "@%q0 prefetch.tensormap [%g]; "
      "@%q0 cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%g, {%a0}]; "
      "@%q0 cp.async.bulk.tensor.2d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%sh], [%g, {%a0, %a1}], [%sh]; "
      "@%q0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier"
      "::complete_tx::bytes.multicast::cluster [%sh], [%g, {%a0, %a1}], "
      "[%sh], 1; "
      "@%q0 cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
      "[%g, {%a0, %a1, %a2}], [%sh]; mov.b32 %r0, %a0;",
      [](const Inputs &in, Results &out) { out.r[0] = in.a(0); }, kIntegers,
      kBits, 90));
}

/// A (64 x 16) of the inputs times an identity (16 x 8), negated. A thread
/// brings half a row of A, or its fragment.
struct Identity {
  string type, result;
  bool inRegisters, transposed;

  string code() const;
  /// Words 0 and 3 of a thread's accumulators, or 0 and 1 of f16.
  void reference(const Inputs *warp, unsigned lane, Results &out) const;
};

string Identity::code() const {
  bool isHalf = result == "f16";
  string one = type == "f16" ? "0x3c00" : "0x3f80";
  string code = ".reg .b32 %m<5>, %d<4>; .reg .b16 %k<2>; .reg .b64 %e<2>; ";
  for (int i = 0; i < 4; ++i) {
    string k = std::to_string(i);
    code += "mov.b32 %m" + k + ", %a" + k + "; mov.b32 %d" + k + ", 0; " +
            smallFloats(type, i);
  }
  // Rows of A lie 16 bytes apart, their halves 1024; so do B's columns, whose
  // halves lie 128 apart.
  code += "mov.u32 %t1, pool; shr.u32 %t2, %n, 1; shl.b32 %t2, %t2, 4; "
          "and.b32 %t3, %n, 1; mad.lo.u32 %t2, %t3, 1024, %t2; "
          "add.u32 %t2, %t2, %t1; "
          "st.shared.v4.b32 [%t2], {%m0, %m1, %m2, %m3}; "
          "setp.lt.u32 %q0, %n, 16; shl.b32 %t2, %n, 4; "
          "add.u32 %t2, %t2, %t1; mov.b32 %m4, 0; "
          "@%q0 st.shared.v4.b32 [%t2+2048], {%m4, %m4, %m4, %m4}; "
          "setp.lt.u32 %q0, %n, 8; shl.b32 %t3, %n, 1; "
          "add.u32 %t2, %t2, %t3; mov.b16 %k0, " +
          one +
          "; @%q0 st.shared.b16 [%t2+2048], %k0; "
          "fence.proxy.async; bar.sync 0; shr.u32 %t1, %t1, 4; "
          "cvt.u64.u32 %e0, %t1; add.u64 %e1, %e0, 128; "
          "or.b64 %e0, %e0, 0x800400000; or.b64 %e1, %e1, 0x800080000; "
          "setmaxnreg.dec.sync.aligned.u32 64; wgmma.fence.sync.aligned; "
          "wgmma.mma_async.sync.aligned.m64n8k16." +
          result + "." + type + "." + type +
          (isHalf ? " {%d0, %d1}, " : " {%d0, %d1, %d2, %d3}, ") +
          (inRegisters ? "{%m0, %m1, %m2, %m3}" : "%e0") +
          ", %e1, %q1, 1, -1, " + (inRegisters ? "" : "0, ") +
          (transposed ? "1; " : "0; ") +
          "wgmma.commit_group.sync.aligned; "
          "wgmma.wait_group.sync.aligned 0; mov.b32 %r0, %d0; mov.b32 %r1, " +
          (isHalf ? "%d1;" : "%d3;") + " setp.ne.u32 %q0, %n, %n;";
  return code;
}

void Identity::reference(const Inputs *warp, unsigned lane,
                         Results &out) const {
  auto element = [&](unsigned row, unsigned column) {
    u32 word = inRegisters ? warp[lane].a(int(row / 8))
                           : warp[2 * row].a(int(column / 2));
    return float(7 - int(word >> (16 * (column % 2)) & 15));
  };
  unsigned row = lane / 4, column = lane % 4 * 2;
  if (result == "f16") {
    for (unsigned i = 0; i < 2; ++i)
      out.r[i] = halfBits(element(row + 8 * i, column)) |
                 u32(halfBits(element(row + 8 * i, column + 1))) << 16;
    return;
  }
  out.f(element(row, column));
  out.f(element(row + 8, column + 1), 1);
}

} // namespace

void addAsyncCases(Cases &cases) {
  addBarriers(cases);
  addCopies(cases);
}

void addWarpgroupCases(Cases &cases) {
  for (string type : {"bf16", "f16"})
    for (string result : {"f32", "f16"})
      for (int way = 0; way < 4 && (type == "f16" || result == "f32"); ++way) {
        Identity identity{type, result, way % 2 == 1, way / 2 == 1};
        cases.push_back({identity.code(),
                         [=](const Inputs *warp, unsigned lane, Results &out) {
                           identity.reference(warp, lane, out);
                         },
                         kIntegers, kBits, 90, 128});
      }
}

} // namespace cria::emulator
