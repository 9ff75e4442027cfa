// Instructions that lanes execute together.
#include "test/emulator/Floats.h"
#include "test/emulator/opcodes/Opcodes.h"

#include <algorithm>

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;
using u32 = uint32_t;

/// shfl as the manual's pseudocode has it.
void shuffle(const string &mode, const Inputs *warp, int lane, int b, int c,
             Results &out) {
  int clamp = c & 31, segment = c >> 8 & 31;
  int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  int from = mode == "up"     ? lane - b
             : mode == "down" ? lane + b
             : mode == "bfly" ? lane ^ b
                              : first | (b & ~segment);
  bool inside = mode == "up" ? from >= last : from <= last;
  out.r[0] = warp[inside ? from : lane].a(0);
  out.q[0] = inside;
}

void addShuffles(Cases &c) {
  for (string mode : {"up", "down", "bfly", "idx"})
    for (int b : {0, 1, 5, 16, 31})
      for (int segments : {0, 16, 24}) {
        int clamp = segments << 8 | (mode == "up" ? 0 : 31);
        c.push_back({"shfl.sync." + mode + ".b32 %r0|%q0, %a0, " +
                         std::to_string(b) + ", " + std::to_string(clamp) +
                         ", -1;",
                     [=](const Inputs *warp, unsigned lane, Results &out) {
                       shuffle(mode, warp, int(lane), b, clamp, out);
                     }});
      }
}

u32 ballot(const Inputs *warp) {
  u32 votes = 0;
  for (int l = 0; l < 32; ++l)
    votes |= u32(warp[l].p(0)) << l;
  return votes;
}

void addVotes(Cases &c) {
  c.push_back({"vote.sync.ballot.b32 %r0, %p0, -1; "
               "vote.sync.any.pred %q0, %p0, -1; "
               "vote.sync.all.pred %q1, %p0, -1;",
               [](const Inputs *warp, unsigned, Results &out) {
                 out.r[0] = ballot(warp);
                 out.q[0] = out.r[0] != 0;
                 out.q[1] = out.r[0] == ~0u;
               }});
  c.push_back({"vote.sync.uni.pred %q0, !%p0, -1;",
               [](const Inputs *warp, unsigned, Results &out) {
                 out.q[0] = ballot(warp) == 0 || ballot(warp) == ~0u;
               }});
  for (string bits : {"32", "64"})
    c.push_back({"and.b32 %t0, %a0, 3; cvt.u64.u32 %z, %t0; "
                 "match.any.sync.b" +
                     bits + " %r0, " + (bits == "32" ? "%t0" : "%z") +
                     ", -1; match.all.sync.b" + bits + " %r1|%q0, " +
                     (bits == "32" ? "%t0" : "%z") + ", -1;",
                 [](const Inputs *warp, unsigned lane, Results &out) {
                   for (int l = 0; l < 32; ++l)
                     out.r[0] |=
                         u32((warp[l].a(0) & 3) == (warp[lane].a(0) & 3)) << l;
                   out.q[0] = out.r[0] == ~0u;
                   out.r[1] = out.q[0] ? ~0u : 0;
                 }});
  c.push_back({"activemask.b32 %r0; elect.sync %r1|%q0, -1; bar.warp.sync -1;",
               [](const Inputs *, unsigned lane, Results &out) {
                 out.r[0] = ~0u;
                 out.r[1] = 0;
                 out.q[0] = lane == 0;
               },
               Inputs64::Integers, Compare::Bits, 90});
}

void addReductions(Cases &c) {
  struct Op {
    string name;
    u32 (*join)(u32, u32);
  };
  const Op ops[] = {
      {"add.u32", [](u32 a, u32 b) { return a + b; }},
      {"add.s32", [](u32 a, u32 b) { return a + b; }},
      {"min.u32", [](u32 a, u32 b) { return std::min(a, b); }},
      {"max.u32", [](u32 a, u32 b) { return std::max(a, b); }},
      {"min.s32", [](u32 a, u32 b) { return u32(std::min(int(a), int(b))); }},
      {"max.s32", [](u32 a, u32 b) { return u32(std::max(int(a), int(b))); }},
      {"and.b32", [](u32 a, u32 b) { return a & b; }},
      {"or.b32", [](u32 a, u32 b) { return a | b; }},
      {"xor.b32", [](u32 a, u32 b) { return a ^ b; }}};
  for (const Op &op : ops)
    c.push_back({"redux.sync." + op.name + " %r0, %a0, -1;",
                 [op](const Inputs *warp, unsigned, Results &out) {
                   out.r[0] = warp[0].a(0);
                   for (int l = 1; l < 32; ++l)
                     out.r[0] = op.join(out.r[0], warp[l].a(0));
                 }});
}

/// Two warps meet; all lanes of both have the same count of true predicates.
void addBarriers(Cases &c) {
  for (string bar : {"bar", "bar.cta", "barrier", "barrier.cta"})
    for (string count : {"", ", 64"}) {
      string aligned = bar.substr(0, 7) == "barrier" ? ".aligned" : "";
      c.push_back(alone(
          "st.shared.u32 [%sh], %n; " + bar + ".sync" + aligned + " 1" + count +
              "; xor.b32 %t0, %n, 33; shl.b32 %t0, %t0, 6; "
              "mov.u32 %t1, pool; add.u32 %t0, %t0, %t1; "
              "ld.shared.u32 %r0, [%t0]; xor.b32 %r0, %r0, %n; " +
              bar + ".red.popc" + aligned + ".u32 %r1, 2" + count +
              ", 1; setp.eq.u32 %q0, %n, 5; " + bar + ".red.or" + aligned +
              ".pred %q1, 3" + count + ", %q0; " + bar + ".red.and" + aligned +
              ".pred %q0, 4" + count + ", !%q0;",
          [](const Inputs &, Results &out) {
            out.r[0] = 33;
            out.r[1] = 64;
            out.q[0] = 0;
            out.q[1] = 1;
          }));
    }
  for (string bar : {"bar", "barrier"})
    c.push_back(alone("setp.lt.u32 %q0, %n, 32; @%q0 st.shared.u32 [%sh], 7; "
                      "@%q0 " +
                          bar + ".arrive 5, 64; @!%q0 " + bar +
                          ".sync 5, 64; mov.b32 %r0, 7; sub.u64 %z, %sh, "
                          "2048; @!%q0 ld.shared.u32 %r0, [%z]; "
                          "mov.pred %q0, 1;",
                      [](const Inputs &, Results &out) {
                        out.r[0] = 7;
                        out.q[0] = 1;
                      }));
}

} // namespace

string smallFloats(const string &type, int number) {
  string t = "%m" + std::to_string(number), code;
  for (int half = 0; half < 2; ++half)
    code += "bfe.u32 %t0, " + t + ", " + std::to_string(16 * half) +
            ", 4; sub.s32 %t0, %t0, 7; cvt.rn.f32.s32 %t0, %t0; cvt.rn." +
            type + ".f32 %k" + std::to_string(half) + ", %t0; ";
  return code + "mov.b32 " + t + ", {%k0, %k1}; ";
}

void addWarpCases(Cases &cases) {
  addShuffles(cases);
  addVotes(cases);
  addReductions(cases);
  addBarriers(cases);
}

namespace {

/// Fragments: what each lane holds of the operands of mma.m16n8k`k`.
struct Fragments {
  int k, each; ///< elements a word
  bool isSigned, isFloat, isBFloat;

  double element(const Inputs *warp, int lane, int word, int i) const {
    u32 bits = u32(warp[lane].x[word / 2] >> (32 * (word % 2)));
    if (!isFloat) {
      auto byte = uint8_t(bits >> (8 * i));
      return isSigned ? int8_t(byte) : byte;
    }
    // Small integers, so that sums are exact in every format.
    return int(bits >> (16 * i) & 15) - 7;
  }
  double a(const Inputs *w, int row, int column) const {
    int word = row / 8 + column / (4 * each) * 2;
    return element(w, row % 8 * 4 + column / each % 4, word, column % each);
  }
  /// B begins after A, at word 4.
  double b(const Inputs *w, int row, int column) const {
    int word = 4 + row / (4 * each);
    return element(w, column * 4 + row / each % 4, word, row % each);
  }
};

void addProduct(Cases &c, int k, string d, string type, string inputs) {
  bool isFloat = type.find('f') != string::npos;
  Fragments f{k, isFloat ? 2 : 4, type == "s8", isFloat, type == "bf16"};
  int wordsB = k / (4 * f.each);
  string code = ".reg .b32 %m<8>; .reg .b16 %k<2>; ";
  for (int i = 0; i < 6; ++i)
    code += "mov.b64 {" + string(i % 2 ? "_, %m" : "%m") + std::to_string(i) +
            (i % 2 ? "" : ", _") + "}, %x" + std::to_string(i / 2) + "; ";
  if (isFloat)
    for (int i = 0; i < 6; ++i)
      code += smallFloats(type, i);
  string a = wordsB == 2 ? "{%m0, %m1, %m2, %m3}" : "{%m0, %m1}";
  string b = wordsB == 2 ? "{%m4, %m5}" : "{%m4}";
  bool half = d == "f16";
  string zero = half ? "{%t1, %t1}" : "{%t1, %t1, %t1, %t1}";
  string to = half ? "{%r0, %r1}" : "{%r0, %t2, %t3, %r1}";
  code += "mov.b32 %t1, 0; mma.sync.aligned.m16n8k" + std::to_string(k) +
          ".row.col." + d + "." + inputs + "." + d + " " + to + ", " + a +
          ", " + b + ", " + zero + ";";
  c.push_back({code, [=](const Inputs *warp, unsigned lane, Results &out) {
                 auto sum = [&](int part) {
                   int row = int(lane) / 4 + part / 2 * 8;
                   int column = int(lane) % 4 * 2 + part % 2;
                   double total = 0;
                   for (int i = 0; i < k; ++i)
                     total += f.a(warp, row, i) * f.b(warp, i, column);
                   return total;
                 };
                 if (half)
                   for (int i = 0; i < 2; ++i)
                     out.r[i] = halfBits(sum(2 * i)) |
                                u32(halfBits(sum(2 * i + 1))) << 16;
                 else if (isFloat)
                   out.f(float(sum(0))), out.f(float(sum(3)), 1);
                 else
                   out.r[0] = u32(int(sum(0))), out.r[1] = u32(int(sum(3)));
               }});
}

/// Each lane's row is 16 bytes of its own: two 64-bit inputs.
void addMatrixMoves(Cases &c) {
  for (bool trans : {false, true})
    for (int count : {1, 2, 4}) {
      string to = count == 1   ? "{%r0}"
                  : count == 2 ? "{%r0, %r1}"
                               : "{%t0, %r0, %t1, %r1}";
      int first = count == 4 ? 1 : 0, second = count == 4 ? 3 : 1;
      c.push_back({"st.shared.v2.b64 [%sh], {%x0, %x1}; bar.warp.sync -1; "
                   "ldmatrix.sync.aligned.m8n8.x" +
                       std::to_string(count) + (trans ? ".trans" : "") +
                       ".shared.b16 " + to + ", [%sh];",
                   [=](const Inputs *warp, unsigned lane, Results &out) {
                     auto element = [&](int m, int row, int column) {
                       const Inputs &from = warp[m * 8 + row];
                       return u32(
                           uint16_t(from.x[column / 4] >> (16 * (column % 4))));
                     };
                     auto word = [&](int m) {
                       int row = int(lane) / 4, column = int(lane) % 4 * 2;
                       return trans ? element(m, column, row) |
                                          element(m, column + 1, row) << 16
                                    : element(m, row, column) |
                                          element(m, row, column + 1) << 16;
                     };
                     out.r[0] = word(first);
                     if (count > 1)
                       out.r[1] = word(second);
                   }});
    }
  c.push_back({"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%sh], "
               "{%a0, %a1, %a2, %a3}; bar.warp.sync -1; "
               "ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
               "{%r0, %t0, %t1, %r1}, [%sh];",
               [](const Inputs *warp, unsigned lane, Results &out) {
                 out.r[0] = warp[lane].a(0);
                 out.r[1] = warp[lane].a(3);
               },
               Inputs64::Integers, Compare::Bits, 90});
}

void addAsyncCopies(Cases &c) {
  c.push_back(alone("mbarrier.init.shared.b64 [%sh+16], 1; "
                    "st.global.b64 [%g], %x0; "
                    "cp.async.ca.shared.global [%sh], [%g], 8; "
                    "cp.async.mbarrier.arrive.shared.b64 [%sh+16]; "
                    "mbarrier.test_wait.parity.shared.b64 %q0, [%sh+16], 0; "
                    "cp.async.mbarrier.arrive.noinc.shared.b64 [%sh+16]; "
                    "mbarrier.test_wait.parity.shared.b64 %q1, [%sh+16], 0; "
                    "ld.shared.b64 %y, [%sh];",
                    [](const Inputs &i, Results &o) {
                      o.y = i.x[0];
                      o.q[1] = 1;
                    }));
  for (string kind : {"ca", "cg"})
    for (string wait : {"cp.async.commit_group; cp.async.wait_group 0;",
                        "cp.async.wait_all;"})
      c.push_back(alone("st.global.v2.b64 [%g], {%x0, %x1}; cp.async." + kind +
                            ".shared.global [%sh], [%g], 16, 12; " + wait +
                            " ld.shared.b64 %y, [%sh]; "
                            "ld.shared.v2.b32 {%r0, %r1}, [%sh+8];",
                        [](const Inputs &i, Results &o) {
                          o.y = i.x[0];
                          o.r[0] = i.a(1);
                        }));
}

} // namespace

void addMatrixCases(Cases &cases) {
  for (int k : {8, 16}) {
    addProduct(cases, k, "f32", "bf16", "bf16.bf16");
    addProduct(cases, k, "f32", "f16", "f16.f16");
    addProduct(cases, k, "f16", "f16", "f16.f16");
  }
  for (int k : {16, 32}) {
    addProduct(cases, k, "s32", "s8", "s8.s8");
    addProduct(cases, k, "s32", "u8", "u8.u8");
  }
  addMatrixMoves(cases);
  addAsyncCopies(cases);
}

} // namespace cria::emulator
