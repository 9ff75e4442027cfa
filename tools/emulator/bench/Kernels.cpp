#include "tools/emulator/bench/Kernels.h"

#include <cstring>

namespace cria::emulator {
namespace {

/// y = W x in bf16, one warp for each row.
const char kGemv[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry gemv(.param .u64 w, .param .u64 x, .param .u64 y, .param .u32 n)
 {
  .reg .b16 %a<2>, %b<2>;
  .reg .b32 %w<4>, %x<4>, %r<4>, %i, %n, %row;
  .reg .b64 %p<4>;
  .reg .f32 %f<2>, %sum;
  .reg .pred %q;
  ld.param.u64 %p0, [w];
  ld.param.u64 %p1, [x];
  ld.param.u64 %p2, [y];
  ld.param.u32 %n, [n];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  shr.u32 %row, %r0, 5;
  mad.lo.u32 %row, %r1, 4, %row;
  and.b32 %i, %r0, 31;
  shl.b32 %i, %i, 3;
  mad.lo.u32 %r2, %row, %n, %i;
  mad.wide.u32 %p0, %r2, 2, %p0;
  mad.wide.u32 %p1, %i, 2, %p1;
  mov.f32 %sum, 0f00000000;
again:
  ld.global.nc.v4.b32 {%w0, %w1, %w2, %w3}, [%p0];
  ld.global.nc.v4.b32 {%x0, %x1, %x2, %x3}, [%p1];
  mov.b32 {%a0, %a1}, %w0;
  mov.b32 {%b0, %b1}, %x0;
  cvt.f32.bf16 %f0, %a0;
  cvt.f32.bf16 %f1, %b0;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  cvt.f32.bf16 %f0, %a1;
  cvt.f32.bf16 %f1, %b1;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  mov.b32 {%a0, %a1}, %w1;
  mov.b32 {%b0, %b1}, %x1;
  cvt.f32.bf16 %f0, %a0;
  cvt.f32.bf16 %f1, %b0;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  cvt.f32.bf16 %f0, %a1;
  cvt.f32.bf16 %f1, %b1;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  mov.b32 {%a0, %a1}, %w2;
  mov.b32 {%b0, %b1}, %x2;
  cvt.f32.bf16 %f0, %a0;
  cvt.f32.bf16 %f1, %b0;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  cvt.f32.bf16 %f0, %a1;
  cvt.f32.bf16 %f1, %b1;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  mov.b32 {%a0, %a1}, %w3;
  mov.b32 {%b0, %b1}, %x3;
  cvt.f32.bf16 %f0, %a0;
  cvt.f32.bf16 %f1, %b0;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  cvt.f32.bf16 %f0, %a1;
  cvt.f32.bf16 %f1, %b1;
  fma.rn.f32 %sum, %f0, %f1, %sum;
  add.s64 %p0, %p0, 512;
  add.s64 %p1, %p1, 512;
  add.u32 %i, %i, 256;
  setp.lt.u32 %q, %i, %n;
  @%q bra again;
  mov.b32 %r0, %sum;
  shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1;
  mov.b32 %f0, %r1;
  add.rn.f32 %sum, %sum, %f0;
  mov.b32 %r0, %sum;
  shfl.sync.bfly.b32 %r1, %r0, 8, 31, -1;
  mov.b32 %f0, %r1;
  add.rn.f32 %sum, %sum, %f0;
  mov.b32 %r0, %sum;
  shfl.sync.bfly.b32 %r1, %r0, 4, 31, -1;
  mov.b32 %f0, %r1;
  add.rn.f32 %sum, %sum, %f0;
  mov.b32 %r0, %sum;
  shfl.sync.bfly.b32 %r1, %r0, 2, 31, -1;
  mov.b32 %f0, %r1;
  add.rn.f32 %sum, %sum, %f0;
  mov.b32 %r0, %sum;
  shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;
  mov.b32 %f0, %r1;
  add.rn.f32 %sum, %sum, %f0;
  and.b32 %r0, %i, 255;
  setp.ne.u32 %q, %r0, 0;
  @%q bra done;
  cvt.rn.bf16.f32 %a0, %sum;
  mad.wide.u32 %p2, %row, 2, %p2;
  st.global.b16 [%p2], %a0;
done:
  ret;
 }
)";

/// Elementwise: no thread waits.
const char kSwiglu[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry swiglu(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
 {
  .reg .b32 %r<4>;
  .reg .b64 %p<4>;
  .reg .f32 %f<8>;
  ld.param.u64 %p0, [a];
  ld.param.u64 %p1, [b];
  ld.param.u64 %p2, [c];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mad.lo.u32 %r3, %r1, %r2, %r0;
  mul.wide.u32 %p3, %r3, 4;
  add.s64 %p0, %p0, %p3;
  add.s64 %p1, %p1, %p3;
  add.s64 %p2, %p2, %p3;
  ld.global.nc.f32 %f0, [%p0];
  ld.global.nc.f32 %f1, [%p1];
  mul.rn.f32 %f2, %f0, 0fBFB8AA3B;
  ex2.approx.f32 %f3, %f2;
  add.rn.f32 %f4, %f3, 0f3F800000;
  div.approx.f32 %f5, %f0, %f4;
  mul.rn.f32 %f6, %f5, %f1;
  st.global.f32 [%p2], %f6;
  ret;
 }
)";

/// A sum in shared memory: barriers.
const char kTree[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry tree(.param .u64 in, .param .u64 out, .param .u32 n)
 {
  .shared .align 4 .b8 sums[1024];
  .reg .b32 %r<6>, %t, %half, %at;
  .reg .b64 %p<3>;
  .reg .pred %q;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  mov.u32 %t, %tid.x;
  mov.u32 %r0, %ctaid.x;
  mad.lo.u32 %r1, %r0, 256, %t;
  mad.wide.u32 %p0, %r1, 4, %p0;
  ld.global.u32 %r2, [%p0];
  mov.u32 %at, sums;
  mad.lo.u32 %at, %t, 4, %at;
  st.shared.u32 [%at], %r2;
  mov.u32 %half, 128;
again:
  bar.sync 0;
  setp.ge.u32 %q, %t, %half;
  @%q bra skip;
  mad.lo.u32 %r3, %half, 4, %at;
  ld.shared.u32 %r4, [%r3];
  ld.shared.u32 %r5, [%at];
  add.u32 %r5, %r5, %r4;
  st.shared.u32 [%at], %r5;
skip:
  shr.u32 %half, %half, 1;
  setp.ne.u32 %q, %half, 0;
  @%q bra again;
  setp.ne.u32 %q, %t, 0;
  @%q bra done;
  mad.wide.u32 %p1, %r0, 4, %p1;
  st.global.u32 [%p1], %r5;
done:
  ret;
 }
)";

/// Loads from shared memory: each thread folds a tile of 16 KiB, `n` times, in
/// an order that no compiler can vectorize. A barrier follows the filling of
/// the tile. FIRST is the place where thread t begins, LOAD what it loads to r0
/// and up, STEP the distance of the next load.
const char kShared[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry NAME(.param .u64 in, .param .u64 out, .param .u32 n)
 {
  .shared .align 16 .b8 tile[17408];
  .reg .b32 %r<4>, %t, %at, %end, %sum, %i, %n;
  .reg .b64 %p<3>;
  .reg .pred %q;
  ld.param.u64 %p1, [out];
  ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x;
  mov.u32 %at, tile;
  add.u32 %end, %at, 17408;
  mad.lo.u32 %at, %t, 4, %at;
fill:
  st.shared.u32 [%at], %t;
  add.u32 %at, %at, 1024;
  setp.lt.u32 %q, %at, %end;
  @%q bra fill;
  sub.u32 %end, %end, 1024;
  bar.sync 0;
  mov.u32 %sum, 0;
  mov.u32 %i, 0;
round:
  mov.u32 %at, tile;
  mad.lo.u32 %at, %t, FIRST, %at;
again:
  LOAD
  xor.b32 %sum, %sum, %r0;
  add.u32 %sum, %sum, %at;
  add.u32 %at, %at, STEP;
  setp.lt.u32 %q, %at, %end;
  @%q bra again;
  add.u32 %i, %i, 1;
  setp.lt.u32 %q, %i, %n;
  @%q bra round;
  mov.u32 %r0, %ctaid.x;
  mad.lo.u32 %r1, %r0, 256, %t;
  mad.wide.u32 %p1, %r1, 4, %p1;
  st.global.u32 [%p1], %sum;
  ret;
 }
)";

std::string sharedKernel(const std::string &name, const std::string &first,
                         const std::string &load, const std::string &step) {
  std::string ptx = kShared;
  for (auto &[word, text] : {std::pair("NAME", name),
                             {"FIRST", first},
                             {"LOAD", load},
                             {"STEP", step}})
    ptx.replace(ptx.find(word), std::strlen(word), text);
  return ptx;
}

/// Tensor cores on copies that are waited for immediately.
const char kMma[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry mma(.param .u64 in, .param .u64 out, .param .u32 n)
 {
  .shared .align 16 .b8 tile[16384];
  .reg .b32 %r<8>, %a<4>, %b<4>, %t, %at, %i, %n;
  .reg .b64 %p<3>;
  .reg .f32 %c<8>;
  .reg .pred %q;
  ld.param.u64 %p0, [in];
  ld.param.u64 %p1, [out];
  ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x;
  mov.u32 %at, tile;
  mad.lo.u32 %at, %t, 16, %at;
  mad.wide.u32 %p0, %t, 16, %p0;
  mov.f32 %c0, 0f00000000;
  mov.f32 %c1, 0f00000000;
  mov.f32 %c2, 0f00000000;
  mov.f32 %c3, 0f00000000;
  mov.u32 %i, 0;
again:
  bar.sync 0;
  cp.async.cg.shared.global [%at], [%p0], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, [%at];
  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%b0, %b1, %b2, %b3}, [%at];
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b2, %b3}, {%c0, %c1, %c2, %c3};
  add.u32 %i, %i, 1;
  setp.lt.u32 %q, %i, %n;
  @%q bra again;
  mov.u32 %r0, %ctaid.x;
  mad.lo.u32 %r1, %r0, 128, %t;
  mad.wide.u32 %p1, %r1, 16, %p1;
  st.global.v4.f32 [%p1], {%c0, %c1, %c2, %c3};
  ret;
 }
)";

} // namespace

std::vector<BenchKernel> benchKernels() {
  constexpr uint64_t kMega = 1 << 20;
  return {{"gemv", kGemv, {1024}, {128}, {32 * kMega, 8192, 8192}, 4096},
          {"swiglu",
           kSwiglu,
           {16384},
           {256},
           {16 * kMega, 16 * kMega, 16 * kMega},
           0},
          {"own",
           sharedKernel("own", "4", "ld.shared.u32 %r0, [%at];", "1024"),
           {16},
           {256},
           {kMega, kMega},
           64},
          {"others",
           sharedKernel("others", "4", "ld.shared.u32 %r0, [%at+12];", "1024"),
           {16},
           {256},
           {kMega, kMega},
           64},
          {"broadcast",
           sharedKernel("broadcast", "0", "ld.shared.u32 %r0, [%at];", "4"),
           {16},
           {256},
           {kMega, kMega},
           4},
          {"vectors",
           sharedKernel("vectors", "0",
                        "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%at];", "16"),
           {16},
           {256},
           {kMega, kMega},
           8},
          {"tree", kTree, {4096}, {256}, {4 * kMega, kMega}, 0},
          {"mma", kMma, {64}, {128}, {kMega, kMega}, 64}};
}

} // namespace cria::emulator
