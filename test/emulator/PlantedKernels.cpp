#include "test/emulator/PlantedKernels.h"

namespace cria::emulator {
namespace {

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/// out[i] = in[i] + 1 for i < 1000, 4 blocks of 256.
const char kGlobal[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<6>;
  .reg .b64 %p<4>;
  .reg .pred %q;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 256, %r0;
  setp.ge.u32 %q, %r2, 1000;
  @%q bra done;
  mul.wide.u32 %p2, %r2, 4;
  add.s64 %p0, %p0, %p2;
  add.s64 %p1, %p1, %p2;
  ld.global.u32 %r3, [%p0];
  add.u32 %r3, %r3, 1;
  st.global.u32 [%p1], %r3;
done:
  ret;
}
)";

/// Each of 128 threads reads what another wrote to shared memory, twice.
const char kShared[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 16 .b8 tile[512];
  .reg .b32 %r<10>;
  .reg .b64 %p<4>;
  .reg .pred %q;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %q, %r0, 40;
  mul.wide.u32 %p2, %r0, 4;
  add.s64 %p0, %p0, %p2;
  ld.global.u32 %r1, [%p0];
  shl.b32 %r2, %r0, 2;
  mov.u32 %r3, tile;
  add.u32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 508;
  add.u32 %r5, %r3, %r5;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.shared.u32 %r6, [%r5];
  bar.sync 1;
  st.shared.u32 [%r4], %r6;
  bar.sync 2;
  ld.shared.u32 %r7, [%r5+0];
  shr.u32 %r8, %r0, 2;
  shl.b32 %r8, %r8, 4;
  add.u32 %r8, %r3, %r8;
  ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r8];
  add.s64 %p1, %p1, %p2;
  st.global.u32 [%p1], %r7;
  ret;
}
)";

/// Lanes exchange by shared memory and by shuffles.
const char kWarp[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 4 .b8 tile[256];
  .reg .b32 %r<10>;
  .reg .b64 %p<4>;
  .reg .pred %q, %s;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  and.b32 %r9, %r0, 31;
  setp.lt.u32 %q, %r9, 20;
  mul.wide.u32 %p2, %r0, 4;
  add.s64 %p0, %p0, %p2;
  ld.global.u32 %r1, [%p0];
  shl.b32 %r2, %r0, 2;
  mov.u32 %r3, tile;
  add.u32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 4;
  add.u32 %r5, %r3, %r5;
  st.shared.u32 [%r4], %r1;
  bar.warp.sync -1;
  ld.shared.u32 %r6, [%r5];
  shfl.sync.bfly.b32 %r7|%s, %r6, 3, 31, -1;
  vote.sync.ballot.b32 %r8, %q, -1;
  add.u32 %r7, %r7, %r8;
  redux.sync.add.u32 %r6, %r7, -1;
  add.s64 %p1, %p1, %p2;
  st.global.u32 [%p1], %r6;
  ret;
}
)";

/// Lanes of even number read what their neighbours wrote, twice, and then write
/// what the neighbours read. What is done again counts from when it is done
/// again.
const char kAgain[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 4 .b8 tile[256];
  .reg .b32 %r<10>;
  .reg .b64 %p<4>;
  .reg .pred %even;
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  and.b32 %r1, %r0, 1;
  setp.eq.u32 %even, %r1, 0;
  shl.b32 %r2, %r0, 2;
  mov.u32 %r3, tile;
  add.u32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 4;
  add.u32 %r5, %r3, %r5;
  @!%even st.shared.u32 [%r4], %r0;
  bar.warp.sync -1;
  @%even ld.shared.u32 %r6, [%r5];
  bar.warp.sync -1;
  @%even ld.shared.u32 %r7, [%r5];
  bar.warp.sync -1;
  @!%even st.shared.u32 [%r4], %r1;
  @%even st.shared.u32 [%r4], %r0;
  bar.warp.sync -1;
  @%even st.shared.u32 [%r4], %r2;
  bar.warp.sync -1;
  @!%even ld.shared.u32 %r7, [%r5];
  mul.wide.u32 %p2, %r0, 4;
  add.s64 %p1, %p1, %p2;
  st.global.u32 [%p1], %r7;
  ret;
}
)";

/// Four tiles of 512 bytes come by cp.async, one ahead; each thread adds what
/// others copied.
const char kAsync[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 16 .b8 tile[1024];
  .reg .b32 %r<12>;
  .reg .b64 %p<4>;
  .reg .pred %q, %more;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %p2, %r0, 16;
  add.s64 %p0, %p0, %p2;
  mov.u32 %r1, tile;
  mad.lo.u32 %r2, %r0, 16, %r1;
  xor.b32 %r3, %r0, 31;
  mad.lo.u32 %r3, %r3, 16, %r1;
  mov.u32 %r4, 0;
  mov.u32 %r5, 0;
  cp.async.cg.shared.global [%r2], [%p0], 16;
  cp.async.commit_group;
again:
  add.s64 %p0, %p0, 512;
  xor.b32 %r2, %r2, 512;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %more, %r5, 4;
  @%more cp.async.cg.shared.global [%r2], [%p0], 16;
  cp.async.commit_group;
  cp.async.wait_group 1;
  bar.sync 0;
  ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r3];
  add.u32 %r4, %r4, %r6;
  add.u32 %r4, %r4, %r9;
  bar.sync 1;
  xor.b32 %r3, %r3, 512;
  @%more bra again;
  mul.wide.u32 %p2, %r0, 4;
  add.s64 %p1, %p1, %p2;
  st.global.u32 [%p1], %r4;
  ret;
}
)";

/// A product of fragments from shared memory.
const char kMatrix[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 16 .b8 tile[512];
  .reg .b32 %r<12>;
  .reg .b64 %p<4>;
  .reg .f32 %f<4>;
  .reg .pred %q;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %q, %r0, 16;
  mul.wide.u32 %p2, %r0, 16;
  add.s64 %p0, %p0, %p2;
  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%p0];
  mov.u32 %r5, tile;
  mad.lo.u32 %r6, %r0, 16, %r5;
  st.shared.v4.u32 [%r6], {%r1, %r2, %r3, %r4};
  xor.b32 %r7, %r0, 1;
  mad.lo.u32 %r7, %r7, 16, %r5;
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r7];
  mov.f32 %f0, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f0, %f0, %f0, %f0};
  add.s64 %p1, %p1, %p2;
  st.global.v4.f32 [%p1], {%f0, %f1, %f2, %f3};
  ret;
}
)";

/// The first warp makes a value, the others wait for it: at a barrier for 64
/// threads, and by polling a flag in global memory.
const char kFlags[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 4 .b8 value[4];
  .reg .b32 %r<6>;
  .reg .b64 %p<4>;
  .reg .pred %q, %first;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %first, %r0, 32;
  setp.eq.u32 %q, %r0, 0;
  @%q st.shared.u32 [value], 7;
  @%first bra make;
  bar.sync 3, 64;
  ld.shared.u32 %r1, [value];
poll:
  ld.volatile.global.u32 %r2, [%p0];
  setp.eq.u32 %q, %r2, 0;
  @%q bra poll;
  bra.uni join;
make:
  bar.arrive 3, 64;
  mov.u32 %r1, 1;
  @%q st.volatile.global.u32 [%p0], 1;
join:
  mul.wide.u32 %p2, %r0, 4;
  add.s64 %p1, %p1, %p2;
  st.global.u32 [%p1], %r1;
  ret;
}
)";

/// Each block writes its part and counts; the last one adds all parts.
const char kLast[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 4 .b8 count[4];
  .reg .b32 %r<8>;
  .reg .b64 %p<4>;
  .reg .pred %q, %first;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 64, %r0;
  setp.eq.u32 %first, %r0, 0;
  mad.wide.u32 %p2, %r2, 4, %p1;
  st.global.u32 [%p2], %r0;
  bar.sync 0;
  @!%first bra wait;
  membar.gl;
  atom.global.inc.u32 %r3, [%p0], 3;
  st.shared.u32 [count], %r3;
wait:
  bar.sync 1;
  ld.shared.u32 %r3, [count];
  setp.ne.u32 %q, %r3, 3;
  @%q bra done;
  mad.wide.u32 %p2, %r0, 4, %p1;
  ld.global.u32 %r4, [%p2];
  ld.global.u32 %r5, [%p2+256];
  ld.global.u32 %r6, [%p2+512];
  ld.global.u32 %r7, [%p2+768];
  add.u32 %r4, %r4, %r5;
  add.u32 %r4, %r4, %r6;
  add.u32 %r4, %r4, %r7;
  st.global.u32 [%p2+1024], %r4;
done:
  ret;
}
)";

/// Blocks exchange their parts, with a barrier of the grid before and after.
const char kGrid[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .b64 %p<4>;
  .reg .pred %q, %others;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 64, %r0;
  setp.ne.u32 %others, %r0, 0;
  mad.wide.u32 %p2, %r2, 4, %p1;
  add.u32 %r3, %r2, 64;
  and.b32 %r3, %r3, 255;
  mad.wide.u32 %p3, %r3, 4, %p1;
  st.global.u32 [%p2], %r2;
  bar.sync 0;
  @%others bra met;
  membar.gl;
  atom.global.add.u32 %r4, [%p0], 1;
poll:
  ld.volatile.global.u32 %r4, [%p0];
  setp.lt.u32 %q, %r4, 4;
  @%q bra poll;
  membar.gl;
met:
  bar.sync 1;
  ld.global.u32 %r5, [%p3];
  bar.sync 2;
  @%others bra again;
  membar.gl;
  atom.global.add.u32 %r4, [%p0], 1;
pollagain:
  ld.volatile.global.u32 %r4, [%p0];
  setp.lt.u32 %q, %r4, 8;
  @%q bra pollagain;
  membar.gl;
again:
  bar.sync 3;
  st.global.u32 [%p2], %r5;
  ret;
}
)";

/// Each block waits for the flag of the block before it, which guards a plain
/// value (decoupled look-back).
const char kChain[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .b64 %p<4>;
  .reg .pred %q, %begins;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  atom.global.add.u32 %r0, [%p0], 1;
  setp.eq.u32 %begins, %r0, 0;
  mad.wide.u32 %p2, %r0, 8, %p0;
  mad.wide.u32 %p3, %r0, 4, %p1;
  mov.u32 %r3, 0;
  @%begins bra make;
poll:
  ld.relaxed.gpu.global.u32 %r2, [%p2];
  setp.eq.u32 %q, %r2, 0;
  @%q bra poll;
  fence.acq_rel.gpu;
  ld.global.u32 %r3, [%p3+-4];
make:
  add.u32 %r3, %r3, 5;
  st.global.u32 [%p3], %r3;
  st.release.gpu.global.u32 [%p2+8], 1;
  ret;
}
)";

/// The first warp sends a value to the second through a flag in shared memory.
const char kMessage[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 4 .b8 flag[4];
  .shared .align 4 .b8 answer[4];
  .shared .align 8 .b8 value[256];
  .reg .b32 %r<8>;
  .reg .b64 %p<4>;
  .reg .pred %q, %sends, %first;
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %sends, %r0, 32;
  and.b32 %r1, %r0, 31;
  setp.eq.u32 %first, %r1, 0;
  shl.b32 %r1, %r1, 2;
  mov.u32 %r2, value;
  add.u32 %r2, %r2, %r1;
  setp.eq.u32 %q, %r0, 0;
  @%q st.shared.u32 [flag], 0;
  @%q st.shared.u32 [answer], 0;
  bar.sync 0;
  @!%sends bra poll;
  st.shared.u32 [%r2], %r0;
  bar.warp.sync -1;
  membar.cta;
  @%first st.volatile.shared.u32 [flag], 1;
wait:
  ld.acquire.cta.shared.u32 %r3, [answer];
  setp.ne.u32 %q, %r3, 32;
  @%q bra wait;
  st.shared.u32 [%r2], 9;
  bra.uni done;
poll:
  ld.volatile.shared.u32 %r3, [flag];
  setp.eq.u32 %q, %r3, 0;
  @%q bra poll;
  membar.cta;
  ld.shared.u32 %r4, [%r2];
  atom.release.cta.shared.add.u32 %r5, [answer], 1;
  mad.wide.u32 %p1, %r0, 4, %p1;
  st.global.u32 [%p1], %r4;
done:
  ret;
}
)";

/// All lanes of a warp store the sum that all of them have.
const char kSame[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 8 .b8 sums[16];
  .reg .b32 %r<8>;
  .reg .b64 %p<4>;
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  redux.sync.add.u32 %r1, %r0, -1;
  shr.u32 %r2, %r0, 5;
  shl.b32 %r2, %r2, 3;
  mov.u32 %r3, sums;
  add.u32 %r3, %r3, %r2;
  st.shared.v2.u32 [%r3], {%r1, %r2};
  ld.shared.u32 %r6, [%r3];
  bar.sync 0;
  ld.shared.u32 %r4, [sums];
  ld.shared.u32 %r5, [sums+8];
  add.u32 %r4, %r4, %r5;
  st.global.u32 [%p1], %r4;
  ret;
}
)";

/// Copies replace what is in shared memory already.
const char kReplace[] = HEAD R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .shared .align 16 .b8 tile[1024];
  .reg .b32 %r<8>;
  .reg .b64 %p<4>;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, tile;
  mad.lo.u32 %r2, %r0, 16, %r1;
  xor.b32 %r3, %r0, 33;
  mad.lo.u32 %r3, %r3, 16, %r1;
  mad.wide.u32 %p0, %r0, 16, %p0;
  mad.wide.u32 %p1, %r0, 4, %p1;
  st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};
  bar.sync 0;
  ld.shared.u32 %r4, [%r3];
  bar.sync 1;
  cp.async.cg.shared.global [%r2], [%p0], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 2;
  ld.shared.u32 %r5, [%r3];
  add.u32 %r4, %r4, %r5;
  st.global.u32 [%p1], %r4;
  ret;
}
)";

using F = Finding;

const Mutant kMutants[] = {
    {"global", "NoGuard", "@%q bra done;", "", F::OutOfBounds, "ld.global"},
    {"global", "BoundTooLarge", "1000", "1001", F::OutOfBounds, "ld.global"},
    {"global", "WrongStride", "mul.wide.u32 %p2, %r2, 4",
     "mul.wide.u32 %p2, %r2, 8", F::OutOfBounds, "ld.global"},
    {"global", "NegativeIndex", "[%p1], %r3", "[%p1+-4], %r3", F::OutOfBounds,
     "st.global"},
    {"global", "MisalignedLoad", "[%p0];\n  add.u32 %r3",
     "[%p0+2];\n  add.u32 %r3", F::Misaligned, "ld.global"},
    {"global", "NullPointer", "ld.param.u64 %p1, [out]", "mov.u64 %p1, 0",
     F::OutOfBounds, "st.global"},
    {"global", "Trap", "add.u32 %r3, %r3, 1", "trap", F::Trap, "trap"},
    {"shared", "NoBarrierAfterWrite", "bar.sync 0;", "", F::Race,
     "ld.shared.u32 %r6"},
    {"shared", "NoBarrierBeforeOverwrite", "bar.sync 1;", "", F::Race,
     "st.shared.u32 [%r4], %r6"},
    {"shared", "NoBarrierAfterOverwrite", "bar.sync 2;", "", F::Race,
     "st.shared.u32 [%r4], %r6"},
    {"shared", "DivergentBarrier", "bar.sync 1;",
     "@%q bar.sync 1;\n  @!%q bar.sync 1;", F::DivergentBarrier, "bar.sync 1"},
    {"shared", "BarrierForSome", "bar.sync 1;", "@%q bar.sync 1;", F::Race, ""},
    {"shared", "BarriersOfDifferentNumber", "bar.sync 1;",
     "@%q bar.sync 1;\n  @!%q bar.sync 4;", F::Deadlock, ""},
    {"shared", "ExitBeforeBarrier", "bar.sync 1;", "@%q ret;\n  bar.sync 1;",
     F::DivergentBarrier, "bar.sync 1"},
    {"shared", "SharedOutOfBounds", "[%r5+0]", "[%r5+512]", F::OutOfBounds,
     "ld.shared.u32 %r7"},
    {"shared", "SharedMisaligned",
     "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r8]",
     "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4]", F::Misaligned,
     "ld.shared.v4"},
    {"shared", "SomeDoNotWrite", "st.shared.u32 [%r4], %r1",
     "@%q st.shared.u32 [%r4], %r1", F::Uninitialized, "ld.shared.u32 %r6"},
    {"shared", "WrongBarrierNumber", "bar.sync 1;", "bar.sync 16;", F::Misuse,
     "bar.sync 16"},
    {"shared", "OddBarrierCount", "bar.sync 1;", "bar.sync 1, 100;", F::Misuse,
     "bar.sync 1"},
    {"warp", "NoWarpBarrier", "bar.warp.sync -1;", "", F::Race, "ld.shared"},
    {"warp", "ShuffleForSome", "shfl.sync.bfly", "@%q shfl.sync.bfly",
     F::Deadlock, ""},
    {"warp", "ShuffleOfInactiveLane",
     "shfl.sync.bfly.b32 %r7|%s, %r6, 3, 31, -1",
     "@%q shfl.sync.down.b32 %r7|%s, %r6, 3, 31, 0xfffff", F::DivergentWarp,
     "shfl"},
    {"warp", "MaskWithoutSelf", "vote.sync.ballot.b32 %r8, %q, -1",
     "vote.sync.ballot.b32 %r8, %q, 1", F::DivergentWarp, "vote"},
    {"warp", "MaskNamesEnded", "redux.sync", "@%q ret;\n  redux.sync",
     F::DivergentWarp, "redux"},
    {"warp", "SharedTooSmall", "tile[256]", "tile[128]", F::OutOfBounds,
     "st.shared"},
    {"again", "NoBarrierBehindReads", "bar.warp.sync -1;\n  @!%even st",
     "@!%even st", F::Race, "[%r4], %r1"},
    {"again", "NoBarrierBehindWrites", "bar.warp.sync -1;\n  @!%even ld",
     "@!%even ld", F::Race, "@!%even ld"},
    {"async", "NoWait", "cp.async.wait_group 1;", "", F::Race, "ld.shared"},
    {"async", "WaitsForTooFew", "wait_group 1", "wait_group 2", F::Race,
     "cp.async.cg"},
    {"async", "NoBarrierAfterWait", "bar.sync 0;", "", F::Race, "ld.shared"},
    {"async", "NoBarrierBeforeReuse", "bar.sync 1;", "", F::Race, "cp.async"},
    {"async", "NoCommit", "cp.async.commit_group;\n  cp.async.wait",
     "cp.async.wait", F::Race, "ld.shared"},
    {"async", "MisalignedSource", "[%p0], 16;\n  cp.async.commit_group;\nagain",
     "[%p0+4], 16;\n  cp.async.commit_group;\nagain", F::Misaligned,
     "cp.async"},
    {"async", "OneTileTooMany", "%r5, 4;", "%r5, 5;", F::OutOfBounds,
     "cp.async"},
    {"matrix", "MisalignedRow", "{%r1, %r2, %r3, %r4}, [%r7];\n  mov",
     "{%r1, %r2, %r3, %r4}, [%r7+8];\n  mov", F::Misaligned, "ldmatrix"},
    {"matrix", "RowOutOfBounds", "{%r1, %r2, %r3, %r4}, [%r7];\n  mov",
     "{%r1, %r2, %r3, %r4}, [%r7+32];\n  mov", F::OutOfBounds, "ldmatrix"},
    {"matrix", "NoWarpBarrier", "bar.warp.sync -1;", "", F::Race, "ldmatrix"},
    {"matrix", "MmaForSome", "mma.sync", "@%q mma.sync", F::DivergentWarp, ""},
    {"matrix", "AlignedForFour", ".align 16 .b8 tile[512]",
     ".align 4 .b8 first[4];\n  .shared .align 4 .b8 tile[512]", F::Misaligned,
     "st.shared.v4"},
    {"flags", "NoArrival", "bar.arrive 3, 64;", "", F::Deadlock, ""},
    {"flags", "FlagNeverSet", "st.volatile.global.u32 [%p0], 1",
     "st.volatile.global.u32 [%p0], 0", F::Deadlock, ""},
    {"flags", "BarrierForTooMany", "bar.sync 3, 64", "bar.sync 3, 96",
     F::Deadlock, ""},
    {"flags", "ReadBeforeBarrier",
     "bar.sync 3, 64;\n  ld.shared.u32 %r1, [value];",
     "ld.shared.u32 %r1, [value];\n  bar.sync 3, 64;", F::Race, "ld.shared"},
    {"last", "NoFence", "membar.gl;", "", F::Race, "ld.global"},
    {"last", "FenceOfTheBlock", "membar.gl;", "membar.cta;", F::Race,
     "ld.global"},
    {"last", "NoBarrierBeforeCounting", "bar.sync 0;", "", F::Race,
     "ld.global"},
    {"last", "EachBlockAdds", "@%q bra done;", "", F::Race, ""},
    {"last", "CountIsNotAtomic", "atom.global.inc.u32 %r3, [%p0], 3;",
     "ld.global.u32 %r3, [%p0];\n  add.u32 %r4, %r3, 1;\n"
     "  st.global.u32 [%p0], %r4;",
     F::Race, "[%p0]"},
    {"last", "PartsOverlap", "%r1, 64, %r0", "%r1, 62, %r0", F::Race,
     "st.global.u32 [%p2], %r0"},
    {"grid", "NoBarrierBefore", "setp.lt.u32 %q, %r4, 4;",
     "setp.lt.u32 %q, %r4, 1;", F::Race, "[%p3]"},
    {"grid", "NoBarrierAfter", "setp.lt.u32 %q, %r4, 8;",
     "setp.lt.u32 %q, %r4, 5;", F::Race, "st.global.u32 [%p2], %r5"},
    {"grid", "NoFenceBefore", "membar.gl;", "", F::Race, "[%p3]"},
    {"chain", "Relaxed", "st.release.gpu", "st.relaxed.gpu", F::Race,
     "ld.global"},
    {"chain", "ReleasedInTheBlock", "st.release.gpu", "st.release.cta", F::Race,
     "ld.global"},
    {"chain", "NoFence", "fence.acq_rel.gpu;", "", F::Race, "ld.global"},
    {"message", "NoFenceBefore", "membar.cta;", "", F::Race, "ld.shared"},
    {"message", "NoWarpBarrier", "bar.warp.sync -1;", "", F::Race, ""},
    {"message", "NoFenceBehind", "membar.cta;\n  ld.shared", "ld.shared",
     F::Race, "ld.shared.u32 %r4"},
    {"message", "RelaxedAnswer", "atom.release", "atom.relaxed", F::Race,
     "[%r2], 9"},
    {"same", "Different", "{%r1, %r2}", "{%r0, %r2}", F::Race, "st.shared.v2"},
    {"same", "OneSlotForAll", "shl.b32 %r2, %r2, 3", "mov.u32 %r2, 0", F::Race,
     "st.shared.v2"},
    {"replace", "NoWait", "cp.async.wait_group 0;", "", F::Race, "cp.async.cg"},
    {"replace", "NoWaitAndNoBarrier", "cp.async.wait_group 0;\n  bar.sync 2;",
     "", F::Race, "cp.async.cg"},
    {"replace", "NoBarrierAfterWait", "bar.sync 2;", "", F::Race,
     "ld.shared.u32 %r5"},
    {"replace", "NoBarrierBeforeCopy", "bar.sync 1;", "", F::Race,
     "cp.async.cg"},
};

} // namespace

std::vector<PlantedKernel> plantedKernels() {
  return {{"global", kGlobal, {4}, {256}, 4000, 4000},
          {"shared", kShared, {2}, {128}, 512, 512},
          {"warp", kWarp, {2}, {64}, 256, 256},
          {"again", kAgain, {2}, {64}, 4, 256},
          {"async", kAsync, {1}, {32}, 2048, 128},
          {"matrix", kMatrix, {1}, {32}, 512, 512},
          {"flags", kFlags, {1}, {64}, 4, 256},
          {"last", kLast, {4}, {64}, 4, 1280},
          {"grid", kGrid, {4}, {64}, 4, 1024, true},
          {"chain", kChain, {40}, {1}, 512, 160},
          {"message", kMessage, {2}, {64}, 4, 256},
          {"same", kSame, {1}, {64}, 4, 4},
          {"replace", kReplace, {1}, {64}, 1024, 256}};
}

std::vector<Mutant> plantedMutants() {
  return {std::begin(kMutants), std::end(kMutants)};
}

} // namespace cria::emulator
