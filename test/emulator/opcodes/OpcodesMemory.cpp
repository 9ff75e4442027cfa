// Memory, atomics and control flow.
#include "test/emulator/opcodes/Opcodes.h"

#include <algorithm>

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;

/// Stores and loads again, in each space and with each prefix that PTX has.
void addSpaces(Cases &c) {
  auto echo = [](const Inputs &i, Results &o) {
    o.r[0] = i.a(0);
    o.r[1] = i.a(1);
  };
  const std::pair<string, string> spaces[] = {{".global", "%g"},
                                              {".shared", "%sh"},
                                              {".shared::cta", "%sh"},
                                              {".local", "own"},
                                              {"", "%g"}};
  for (auto &[space, at] : spaces) {
    c.push_back(alone("st" + space + ".v2.b32 [" + at + "+8], {%a0, %a1}; ld" +
                          space + ".v2.u32 {%r0, %r1}, [" + at + "+8];",
                      echo));
    if (space == ".local")
      continue;
    c.push_back(alone("st.volatile" + space + ".b32 [" + at +
                          "], %a0; ld.volatile" + space + ".b32 %r0, [" + at +
                          "]; mov.b32 %r1, %a1;",
                      echo));
    c.push_back(
        alone("st.release.gpu" + space + ".b32 [" + at +
                  "], %a0; fence.acq_rel.gpu; membar.gl; ld.acquire.gpu" +
                  space + ".b32 %r0, [" + at + "]; mov.b32 %r1, %a1;",
              echo));
    c.push_back(alone("st.relaxed.sys" + space + ".v2.b32 [" + at +
                          "], {%a0, %a1}; ld.relaxed.sys" + space +
                          ".v2.b32 {%r0, %r1}, [" + at + "];",
                      echo));
  }
}

void addHints(Cases &c) {
  auto echo = [](const Inputs &i, Results &o) {
    o.r[0] = i.a(0);
    o.r[1] = i.a(1);
  };
  c.push_back(alone("st.weak.global.L1::no_allocate.b32 [%g], %a0; "
                    "st.global.wt.b32 [%g+4], %a1; fence.sc.cta; "
                    "ld.weak.global.L1::evict_last.L2::128B.b32 %r0, [%g]; "
                    "ld.global.nc.L1::no_allocate.b32 %r1, [%g+4];",
                    echo));
  c.push_back(alone("createpolicy.fractional.L2::evict_first.b64 %z, 1.0; "
                    "st.global.L2::cache_hint.b32 [%g], %a0, %z; "
                    "ld.global.nc.L2::cache_hint.b32 %r0, [%g], %z; "
                    "st.global.b32 [%g+4], %a1; ldu.global.b32 %r1, [%g+4];",
                    echo));
  c.push_back(alone("prefetch.global.L2 [%g]; prefetchu.L1 [%g]; "
                    "discard.global.L2 [%g], 128; "
                    "applypriority.global.L2::evict_normal [%g], 128; "
                    "nanosleep.u32 20; mov.b32 %r0, %a0; mov.b32 %r1, %a1;",
                    echo));
  c.push_back(alone("griddepcontrol.wait; griddepcontrol.launch_dependents; "
                    "mov.b32 %r0, %a0; mov.b32 %r1, %a1;",
                    echo, Inputs64::Integers, Compare::Bits, 90));
}

/// Narrow loads fill their registers by the sign of their type.
void addWidths(Cases &c) {
  c.push_back(alone("st.global.b8 [%g], %a0; ld.global.s8 %r0, [%g]; "
                    "ld.global.u8 %r1, [%g];",
                    [](const Inputs &i, Results &o) {
                      o.r[0] = uint32_t(int8_t(i.a(0)));
                      o.r[1] = uint8_t(i.a(0));
                    }));
  c.push_back(alone("st.shared.u16 [%sh+2], %h0; ld.shared.s16 %r0, [%sh+2]; "
                    "ld.shared.b16 %s, [%sh+2];",
                    [](const Inputs &i, Results &o) {
                      o.r[0] = uint32_t(int16_t(i.h(0)));
                      o.s = i.h(0);
                    }));
  c.push_back(alone("st.global.v4.b16 [%g], {%h0, %h1, %h2, %h3}; "
                    "ld.global.b64 %y, [%g];",
                    [](const Inputs &i, Results &o) {
                      for (int k = 0; k < 4; ++k)
                        o.y |= uint64_t(i.h(k)) << (16 * k);
                    }));
  c.push_back(alone("st.global.v2.f64 [%g], {%x0, %x1}; "
                    "ld.global.v4.f32 {_, %r0, _, %r1}, [%g];",
                    [](const Inputs &i, Results &o) {
                      o.r[0] = uint32_t(i.x[0] >> 32);
                      o.r[1] = uint32_t(i.x[1] >> 32);
                    }));
  c.push_back(alone("cvta.shared.u64 %z, %sh; isspacep.shared %q0, %z; "
                    "isspacep.global %q1, %g;",
                    [](const Inputs &, Results &o) { o.q[0] = o.q[1] = 1; }));
  c.push_back(alone("mov.u64 %z, own; cvta.local.u64 %z, %z; "
                    "isspacep.local %q0, %z; isspacep.global %q1, %z; "
                    "isspacep.const %p0, %z; @%p0 mov.b32 %r0, 1;",
                    [](const Inputs &, Results &o) { o.q[0] = 1; }));
}

void addCalls(Cases &c) {
  c.push_back(alone("{ .param .b32 result; .param .b32 argument; "
                    "st.param.b32 [argument], %a0; "
                    "call.uni (result), twice, (argument); "
                    "ld.param.b32 %r0, [result]; }",
                    [](const Inputs &i, Results &o) { o.r[0] = 2 * i.a(0); }));
  // Each call has its own variables, as clang writes them.
  c.push_back(alone(
      "{ .param .align 8 .b8 param0[16]; .param .align 8 .b8 retval0[16]; "
      "st.param.v2.b32 [param0], {%a0, %a1}; st.param.b64 [param0+8], %x2; "
      "call.uni (retval0), swap, (param0); ld.param.b64 %y, [retval0]; "
      "ld.param.v2.b32 {%r0, %r1}, [retval0+8]; } "
      "{ .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], %r1; "
      "call.uni (retval0), twice, (param0); ld.param.b32 %r1, [retval0]; }",
      [](const Inputs &i, Results &o) {
        o.y = i.x[2];
        o.r[0] = i.a(1);
        o.r[1] = 2 * i.a(0);
      }));
  c.push_back(alone(".local .b32 v; st.local.u32 [v], %a0; "
                    "{ .local .b64 v; st.local.u64 [v], %x1; } "
                    "ld.local.u32 %r0, [v];",
                    [](const Inputs &i, Results &o) { o.r[0] = i.a(0); }));
  c.push_back(alone(".shared .b64 v; mov.u32 %r0, v; "
                    "{ .shared .b64 v; mov.u32 %r1, v; } "
                    "sub.u32 %r0, %r1, %r0; mov.u32 %r1, 0;",
                    [](const Inputs &, Results &o) { o.r[0] = 8; }));
}

void addControl(Cases &c) {
  c.push_back(alone("mov.u32 %t0, %a0; and.b32 %t0, %t0, 15; again: "
                    "setp.eq.u32 %q0, %t0, 0; @%q0 bra over; "
                    "add.u32 %r0, %r0, %t0; sub.u32 %t0, %t0, 1; "
                    "bra.uni again; over:",
                    [](const Inputs &i, Results &o) {
                      uint32_t n = i.a(0) & 15;
                      o.r[0] = n * (n + 1) / 2;
                      o.q[0] = 1;
                    }));
  c.push_back(
      alone("and.b32 %t0, %a0, 1; ways: .branchtargets one, two; "
            "brx.idx %t0, ways; one: mov.b32 %r0, 11; bra over; two: "
            "mov.b32 %r0, 22; over:",
            [](const Inputs &i, Results &o) { o.r[0] = i.p(0) ? 22 : 11; }));
  c.push_back(
      alone("@%p0 mov.b32 %r0, 1; @!%p0 mov.b32 %r0, 2; "
            "bra never; trap; never:",
            [](const Inputs &i, Results &o) { o.r[0] = i.p(0) ? 1 : 2; }));
  c.push_back(alone("bra join; exit; join: mov.b32 %r0, 3;",
                    [](const Inputs &, Results &o) { o.r[0] = 3; }));
}

} // namespace

void addMemoryCases(Cases &cases) {
  addSpaces(cases);
  addHints(cases);
  addWidths(cases);
  addControl(cases);
  addCalls(cases);
  // TexturesTest.cpp reads images; here there are none.
  cases.push_back(
      alone("setp.ne.u32 %q0, %n, %n; "
            "@%q0 tex.2d.v4.f32.f32 {%r0, %r1, %t0, %t1}, [%x0, {%a0, %a1}]; "
            "@%q0 tex.level.3d.v4.u32.f32 {%r0, %r1, %t0, %t1}, "
            "[%x0, {%a0, %a1, %a2, %a2}], %a3; "
            "@%q0 suld.b.2d.v2.b32.trap {%r0, %r1}, [%x0, {%a0, %a1}]; "
            "@%q0 sust.b.1d.b32.zero [%x0, {%a0}], {%a1}; mov.b32 %r0, %a0;",
            [](const Inputs &in, Results &out) { out.r[0] = in.a(0); }));
}

namespace {

/// One atomic operation on a word: its old value, and then the new one.
template <typename T, typename F>
void addAtomic(Cases &c, string op, F meaning,
               Inputs64 inputs = Inputs64::Integers,
               Compare compare = Compare::Bits) {
  string bits = std::to_string(8 * sizeof(T));
  bool wide = sizeof(T) == 8;
  string x = wide ? "%x" : "%a", out = wide ? "%y" : "%r1";
  for (string where : {".global", ".shared", ""}) {
    string at = where == ".shared" ? "[%sh]" : "[%g]";
    auto reference = [=](const Inputs &i, Results &o, bool keepsOld) {
      T before = T(i.x[0]), after = T(meaning(T(i.x[0]), T(i.x[1])));
      if (wide)
        o.y = uint64_t(after);
      else
        o.r[1] = uint32_t(after);
      if (keepsOld)
        o.r[0] = uint32_t(before);
    };
    string store = "st" + where + ".b" + bits + " " + at + ", " + x + "0; ";
    string load = "ld" + where + ".b" + bits + " " + out + ", " + at + ";";
    string old = wide ? "%z, " : "%r0, ";
    string narrow = wide ? "cvt.u32.u64 %r0, %z; " : "";
    c.push_back(alone(
        store + "atom" + where + "." + op + " " + old + at + ", " + x + "1; " +
            narrow + load,
        [=](const Inputs &i, Results &o) { reference(i, o, true); }, inputs,
        compare));
    if (op.substr(0, 4) != "exch")
      c.push_back(alone(
          store + "red.relaxed.gpu" + where + "." + op + " " + at + ", " + x +
              "1; " + load,
          [=](const Inputs &i, Results &o) { reference(i, o, false); }, inputs,
          compare));
  }
}

void addNarrowAtomics(Cases &c) {
  for (string op : {"atom", "red"})
    for (string type : {"f16", "f16x2", "bf16", "bf16x2"}) {
      bool pair = type.back() == '2', isBFloat = type[0] == 'b';
      // 1.5 + 0.25 = 1.75 in each half
      uint32_t a = isBFloat ? 0x3FC0 : 0x3E00, b = isBFloat ? 0x3E80 : 0x3400;
      uint32_t sum = isBFloat ? 0x3FE0 : 0x3F00;
      auto both = [&](uint32_t v) { return pair ? v << 16 | v : v; };
      string x = pair ? "%t0" : "%s", bits = pair ? "b32" : "b16";
      string old = op == "red" ? " " : pair ? " %t1, " : " %h0, ";
      string code = "mov.b32 %t0, " + std::to_string(both(a)) +
                    "; st.global.b32 [%g], %t0; mov.b32 %t0, " +
                    std::to_string(both(b)) + "; cvt.u16.u32 %s, %t0; " + op +
                    ".global.add.noftz." + type + old + "[%g], " + x +
                    "; ld.global." + bits +
                    (pair ? " %r0, [%g];" : " %s, [%g];") +
                    (pair ? " mov.b16 %s, 0;" : "");
      uint32_t expected = both(sum);
      c.push_back(alone(
          code,
          [=](const Inputs &, Results &o) { (pair ? o.r[0] : o.s) = expected; },
          Inputs64::Integers, Compare::Bits, isBFloat ? 90 : 80));
    }
}

} // namespace

void addAtomicCases(Cases &cases) {
  using u32 = uint32_t;
  using u64 = uint64_t;
  addAtomic<u32>(cases, "add.u32", [](u32 a, u32 b) { return a + b; });
  addAtomic<u64>(cases, "add.u64", [](u64 a, u64 b) { return a + b; });
  addAtomic<int32_t>(cases, "min.s32",
                     [](int32_t a, int32_t b) { return std::min(a, b); });
  addAtomic<u64>(cases, "max.u64", [](u64 a, u64 b) { return std::max(a, b); });
  addAtomic<u32>(cases, "and.b32", [](u32 a, u32 b) { return a & b; });
  addAtomic<u64>(cases, "or.b64", [](u64 a, u64 b) { return a | b; });
  addAtomic<u32>(cases, "xor.b32", [](u32 a, u32 b) { return a ^ b; });
  addAtomic<u32>(cases, "inc.u32",
                 [](u32 a, u32 b) { return a >= b ? 0 : a + 1; });
  addAtomic<u32>(cases, "dec.u32",
                 [](u32 a, u32 b) { return a == 0 || a > b ? b : a - 1; });
  addAtomic<u32>(cases, "exch.b32", [](u32, u32 b) { return b; });
  addAtomic<u32>(
      cases, "add.f32",
      [](u32 a, u32 b) {
        return Inputs::as<u32>(Inputs::as<float>(a) + Inputs::as<float>(b));
      },
      Inputs64::Floats, Compare::Float);
  for (string bits : {"32", "64"})
    cases.push_back(alone(
        "st.global.b" + bits + " [%g], " + (bits == "32" ? "%a0" : "%x0") +
            "; atom.acq_rel.gpu.global.cas.b" + bits +
            (bits == "32" ? " %r0" : " %z") + ", [%g], " +
            (bits == "32" ? "%a1, %a2" : "%x1, %x2") + "; ld.global.b" + bits +
            (bits == "32" ? " %t0, [%g]; cvt.u64.u32 %y, %t0;" : " %y, [%g];"),
        [bits](const Inputs &i, Results &o) {
          u64 mask = bits == "32" ? 0xffffffff : ~u64(0);
          bool same = (i.x[0] & mask) == (i.x[1] & mask);
          o.y = i.x[same ? 2 : 0] & mask;
          o.r[0] = bits == "32" ? i.a(0) : 0;
        },
        Inputs64::Small));
  addNarrowAtomics(cases);
}

} // namespace cria::emulator
