#include "test/emulator/HopperKernels.h"

#include <map>

namespace cria::emulator {
namespace {

/// Replaces each `$name` by its value.
std::string filled(std::string text,
                   const std::map<std::string, std::string> &values) {
  for (auto pair = values.rbegin(); pair != values.rend(); ++pair) {
    auto &[name, value] = *pair; // $copiesOfB before $copies
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, value);
  }
  return text;
}

const char kHead[] = R"(.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry gemm(.param .align 64 .b8 mapA[128],
                     .param .align 64 .b8 mapB[128],
                     .param .align 64 .b8 mapC[128], .param .u32 tiles)
.maxntid 384
{
  .reg .pred %done, %other, %add, %leader, %first;
  .reg .b32 %thread, %lane, %warp, %group, %tiles, %tile, %stage, %parity, %m, %n;
  .reg .b32 %base, %full, %empty, %last, %at, %at2, %k, %row, %mask, %to, %pair;
  .reg .b64 %a, %b, %c, %descA, %descB, %wide;
  .reg .f32 %acc<128>;
  mov.u32 %thread, %tid.x;
  and.b32 %lane, %thread, 31;
  shr.u32 %group, %thread, 7;
  mov.u32 %base, smem;
  ld.param.u32 %tiles, [tiles];
  mov.u32 %m, %ctaid.y;
  shl.b32 %m, %m, 7;
  mov.u32 %n, %ctaid.x;
  mul.lo.u32 %n, %n, $columns;
  setp.ne.u32 %other, %thread, 0;
  @%other bra ready;
$begin
  fence.mbarrier_init.release.cluster;
ready:
  bar.sync 0;
  mov.u32 %stage, 0;
  mov.u32 %tile, 0;
  setp.ne.u32 %other, %group, 0;
  @%other bra consumer;

  setmaxnreg.dec.sync.aligned.u32 40;
  setp.ne.u32 %other, %thread, 0;
  @%other bra exit;
  mov.b64 %a, mapA;
  cvta.param.u64 %a, %a;
  mov.b64 %b, mapB;
  cvta.param.u64 %b, %b;
  prefetch.tensormap [%a];
  mov.u32 %parity, 1;
  mov.u32 %k, 0;
produce:
  setp.ge.u32 %done, %tile, %tiles;
  @%done bra exit;
  shl.b32 %full, %stage, 4;
  add.u32 %full, %full, %base;
  add.u32 %full, %full, $barriers;
  add.u32 %empty, %full, 8;
waitEmpty:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%empty], %parity;
  @!%done bra waitEmpty;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], $stageBytes;
  mad.lo.u32 %at, %stage, $stageBytes, %base;
  add.u32 %at2, %at, $tileOfA;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%at], [%a, {%k, %m}], [%full];
$copiesOfB
  add.u32 %k, %k, 64;
$nextToProduce

consumer:
  setmaxnreg.inc.sync.aligned.u32 232;
  sub.u32 %group, %group, 1;
  and.b32 %row, %thread, 127;
  setp.eq.u32 %leader, %row, 0;
  mov.u32 %parity, 0;
  mov.u32 %last, 0;
  setp.ne.u32 %add, %tile, 0;
consume:
  setp.ge.u32 %done, %tile, %tiles;
  @%done bra drain;
  shl.b32 %full, %stage, 4;
  add.u32 %full, %full, %base;
  add.u32 %full, %full, $barriers;
waitFull:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%full], %parity;
  @!%done bra waitFull;
  mad.lo.u32 %at, %stage, $stageBytes, %base;
  mad.lo.u32 %at2, %group, 8192, %at;
  shr.u32 %at2, %at2, 4;
  cvt.u64.u32 %descA, %at2;
  or.b64 %descA, %descA, $descriptor;
  add.u32 %at2, %at, $tileOfA;
  shr.u32 %at2, %at2, 4;
  cvt.u64.u32 %descB, %at2;
  or.b64 %descB, %descB, $descriptorOfB;
  wgmma.fence.sync.aligned;
$products
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 1;
  setp.ne.u32 %first, %tile, 0;
  and.pred %first, %first, %leader;
  @%first mbarrier.arrive.shared::cta.b64 _, [%last];
  add.u32 %last, %full, 8;
$nextToConsume
drain:
  wgmma.wait_group.sync.aligned 0;

  shr.u32 %warp, %row, 5;
  shl.b32 %warp, %warp, 4;
  shr.u32 %row, %lane, 2;
  shl.b32 %mask, %row, 4;
  add.u32 %row, %row, %warp;
  mad.lo.u32 %at, %group, $halfOfC, %base;
  add.u32 %at, %at, $output;
  mad.lo.u32 %to, %row, 128, %at;
  and.b32 %k, %lane, 3;
  mad.lo.u32 %to, %k, 4, %to;
$stores
  fence.proxy.async.shared::cta;
  add.u32 %k, %group, 1;
  bar.sync %k, 128;
  @!%leader bra exit;
  mov.b64 %c, mapC;
  cvta.param.u64 %c, %c;
  mad.lo.u32 %m, %group, 64, %m;
$copies
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
exit:
  ret;
}
)";

/// Of a matrix whose rows have 128 bytes, swizzled: 1024 bytes from 8 rows to
/// the next 8.
constexpr char kDescriptor[] = "0x4000004000000000";
/// Of b (k x n), in boxes of 64 rows and 64 columns: 8192 bytes from one to the
/// next.
constexpr char kDescriptorAlongN[] = "0x4000004002000000";

/// Goes to the next tile in the ring, and on with `loop`.
std::string nextTile(const GemmKernel &kernel, const std::string &loop) {
  return "  add.u32 %tile, %tile, 1;\n  add.u32 %stage, %stage, 1;\n"
         "  setp.ne.u32 %other, %stage, " +
         std::to_string(kernel.stages) + ";\n  @%other bra " + loop +
         ";\n  mov.u32 %stage, 0;\n  xor.b32 %parity, %parity, 1;\n  bra " +
         loop + ";";
}

std::string beginOf(const GemmKernel &kernel) {
  std::string text;
  for (uint32_t i = 0; i < kernel.stages; ++i) {
    std::string at = std::to_string(kernel.stages * kernel.stageBytes() +
                                    kernel.tileOfC() + 16 * i);
    text += "  mbarrier.init.shared::cta.b64 [%base+" + at +
            "], 1;\n  mbarrier.init.shared::cta.b64 [%base+" + at + "+8], 2;\n";
  }
  return text;
}

std::string productsOf(const GemmKernel &kernel) {
  std::string sums, text;
  for (uint32_t i = 0; i < kernel.columns / 2; ++i)
    sums += (i ? ", %acc" : "%acc") + std::to_string(i);
  for (uint32_t k = 0; k < GemmKernel::kDepth; k += 16)
    text += "  wgmma.mma_async.sync.aligned.m64n" +
            std::to_string(kernel.columns) + "k16.f32.bf16.bf16 {" + sums +
            "}, %descA, %descB, %add, 1, 1, 0, " +
            (kernel.transposesB ? "0" : "1") +
            ";\n  setp.eq.u32 %add, %base, %base;\n"
            "  add.u64 %descA, %descA, 2;\n  add.u64 %descB, %descB, " +
            (kernel.transposesB ? "2" : "128") + ";\n";
  return text;
}

/// Pairs of columns go to boxes of 64 columns, swizzled.
std::string storesOf(const GemmKernel &kernel) {
  std::string text;
  for (uint32_t i = 0; i < kernel.columns / 2; i += 2) {
    uint32_t box = i / 32, unit = i / 4 % 8, below = i / 2 % 2;
    text += "  cvt.rn.bf16x2.f32 %pair, %acc" + std::to_string(i + 1) +
            ", %acc" + std::to_string(i) + ";\n  xor.b32 %at2, %mask, " +
            std::to_string(16 * unit) + ";\n  add.u32 %at2, %at2, %to;\n" +
            "  st.shared.b32 [%at2+" +
            std::to_string(box * 8192 + below * 1024) + "], %pair;\n";
  }
  return text;
}

/// Of b^T all columns at once, of b boxes of 64 columns.
std::string copiesOfB(const GemmKernel &kernel) {
  std::string copy = "  cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%at2], [%b, {";
  if (kernel.transposesB)
    return copy + "%k, %n}], [%full];";
  std::string text = "  mov.u32 %last, %n;\n";
  for (uint32_t box = 0; box < kernel.columns / 64; ++box)
    text += copy + "%last, %k}], [%full];\n  add.u32 %at2, %at2, 8192;\n"
                   "  add.u32 %last, %last, 64;\n";
  return text;
}

std::string copiesOf(const GemmKernel &kernel) {
  std::string text;
  for (uint32_t box = 0; box < kernel.columns / 64; ++box)
    text += "  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
            "[%c, {%n, %m}], [%at];\n"
            "  add.u32 %at, %at, 8192;\n  add.u32 %n, %n, 64;\n";
  return text;
}

} // namespace

std::string GemmKernel::ptx() const {
  uint32_t output = stages * stageBytes();
  return filled(
      kHead, {{"columns", std::to_string(columns)},
              {"begin", beginOf(*this)},
              {"barriers", std::to_string(output + tileOfC())},
              {"stageBytes", std::to_string(stageBytes())},
              {"tileOfA", std::to_string(tileOfA())},
              {"nextToProduce", nextTile(*this, "produce")},
              {"nextToConsume", nextTile(*this, "consume")},
              {"descriptorOfB", transposesB ? kDescriptor : kDescriptorAlongN},
              {"descriptor", kDescriptor},
              {"copiesOfB", copiesOfB(*this)},
              {"products", productsOf(*this)},
              {"halfOfC", std::to_string(tileOfC() / 2)},
              {"output", std::to_string(output)},
              {"stores", storesOf(*this)},
              {"copies", copiesOf(*this)}});
}

} // namespace cria::emulator
