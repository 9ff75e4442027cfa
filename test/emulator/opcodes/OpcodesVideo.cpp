// Video instructions, and others of bytes and bits.
#include "test/emulator/opcodes/Opcodes.h"

#include <algorithm>

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;
using std::to_string;
using u32 = uint32_t;
using i64 = int64_t;

/// Part `place` of {b, a}, in parts of `bits`.
i64 partOf(u32 a, u32 b, int place, int bits, bool isSigned) {
  uint64_t both = a | uint64_t(b) << 32;
  i64 value = i64(both >> place * bits & ((uint64_t(1) << bits) - 1));
  return isSigned && value >> (bits - 1) ? value - (i64(1) << bits) : value;
}

i64 clamp(i64 value, int bits, bool isSigned) {
  i64 most = (i64(1) << (isSigned ? bits - 1 : bits)) - 1;
  return std::min(std::max(value, isSigned ? -most - 1 : 0), most);
}

struct Operation {
  string name;
  i64 (*meaning)(i64, i64);
};

const Operation kArithmetic[] = {
    {"vadd", [](i64 a, i64 b) { return a + b; }},
    {"vsub", [](i64 a, i64 b) { return a - b; }},
    {"vabsdiff", [](i64 a, i64 b) { return std::max(a - b, b - a); }},
    {"vmin", [](i64 a, i64 b) { return std::min(a, b); }},
    {"vmax", [](i64 a, i64 b) { return std::max(a, b); }}};
const Operation kAverage = {
    "vavrg", [](i64 a, i64 b) { return (a + b + (a + b < 0 ? 0 : 1)) >> 1; }};
const Operation kComparisons[] = {
    {"eq", [](i64 a, i64 b) { return i64(a == b); }},
    {"ne", [](i64 a, i64 b) { return i64(a != b); }},
    {"lt", [](i64 a, i64 b) { return i64(a < b); }},
    {"le", [](i64 a, i64 b) { return i64(a <= b); }},
    {"gt", [](i64 a, i64 b) { return i64(a > b); }},
    {"ge", [](i64 a, i64 b) { return i64(a >= b); }}};

string type(bool isSigned) { return isSigned ? ".s32" : ".u32"; }

/// Bytes and halves that are selected, merged and saturated.
void addScalar(Cases &c, const string &name, const string &after,
               i64 (*f)(i64, i64), bool hasD, int kind) {
  bool sa = kind & 1, sb = kind & 2, sd = kind & 4 || !hasD;
  string types = (hasD ? type(kind & 4) : "") + type(sa) + type(sb);
  string saturate = hasD ? ".sat" : "";
  c.push_back(
      alone(name + types + saturate + after + " %r0.h1, %a0.b3, %a1.h0, %a2; " +
                name + types + after + ".max %r1, %a0, %a1.b1, %a2;",
            [=](const Inputs &in, Results &out) {
              i64 value = f(partOf(in.a(0), 0, 3, 8, sa),
                            partOf(in.a(1), 0, 0, 16, sb));
              if (hasD)
                value = clamp(value, 16, sd);
              out.r[0] = (in.a(2) & 0xffff) | u32(value) << 16;
              i64 other =
                  f(sa ? in.sa(0) : i64(in.a(0)), partOf(in.a(1), 0, 1, 8, sb));
              out.r[1] = sd && hasD ? u32(std::max(int(other), in.sa(2)))
                                    : std::max(u32(other), in.a(2));
            }));
}

/// Parts that are selected and merged; and default parts that are added up.
void addParts(Cases &c, const string &name, const string &after,
              i64 (*f)(i64, i64), int parts, bool hasD, int kind) {
  bool sa = kind & 1, sb = kind & 2, sd = kind & 4;
  int bits = 32 / parts;
  string types = (hasD ? type(sd) : "") + type(sa) + type(sb);
  string full = name + to_string(parts) + types + after;
  string mask = parts == 4 ? ".b20" : ".h1", a = parts == 4 ? ".b7016" : ".h03";
  int placesA[] = {parts == 4 ? 6 : 3, parts == 4 ? 1 : 0, 0, 7};
  c.push_back(alone(
      full + (hasD ? ".sat" : "") + " %r0" + mask + ", %a0" + a +
          ", %a1, %a2; " + full + ".add %r1, %a0, %a1, %a2;",
      [=](const Inputs &in, Results &out) {
        out.r[0] = out.r[1] = in.a(2);
        for (int i = 0; i < parts; ++i) {
          i64 y = partOf(in.a(0), in.a(1), parts + i, bits, sb);
          out.r[1] += u32(f(partOf(in.a(0), in.a(1), i, bits, sa), y));
          if (parts == 4 ? i % 2 : i == 0)
            continue;
          i64 value = f(partOf(in.a(0), in.a(1), placesA[i], bits, sa), y);
          u32 wanted = (u32(1) << bits) - 1;
          out.r[0] &= ~(wanted << i * bits);
          out.r[0] |= (u32(hasD ? clamp(value, bits, sd) : value) & wanted)
                      << i * bits;
        }
      }));
}

void addShifts(Cases &c) {
  for (string mode : {"clamp", "wrap"})
    c.push_back(alone(
        "vshl.u32.u32.u32." + mode + " %r0, %a0.b1, %a1; " +
            "vshr.s32.s32.u32.sat." + mode + ".add %r1, %a0, %a1, %a2;",
        [=](const Inputs &in, Results &out) {
          u32 by = mode == "wrap" ? in.a(1) & 31 : std::min(in.a(1), 32u);
          out.r[0] = u32(uint64_t(in.a(0) >> 8 & 255) << by);
          out.r[1] = u32(i64(in.sa(0)) >> by) + in.a(2);
        },
        Inputs64::Small));
}

/// prmt, lop3 with a predicate, fns and szext.
void addBits(Cases &c) {
  struct Mode {
    string name;
    int (*place)(int by, int i);
  };
  const Mode modes[] = {
      {"f4e", [](int by, int i) { return by + i; }},
      {"b4e", [](int by, int i) { return (by - i + 8) % 8; }},
      {"rc8", [](int by, int) { return by; }},
      {"ecl", [](int by, int i) { return std::max(by, i); }},
      {"ecr", [](int by, int i) { return std::min(by, i); }},
      {"rc16", [](int by, int i) { return by % 2 * 2 + i % 2; }}};
  for (const Mode &mode : modes)
    c.push_back(alone("prmt.b32." + mode.name + " %r0, %a0, %a1, %a2;",
                      [=](const Inputs &in, Results &out) {
                        for (int i = 0; i < 4; ++i)
                          out.r[0] |=
                              u32(partOf(in.a(0), in.a(1),
                                         mode.place(in.a(2) & 3, i), 8, false))
                              << 8 * i;
                      }));
  for (string op : {"or", "and"})
    c.push_back(alone("lop3." + op + ".b32 %r0|%q0, %a0, %a1, %a2, 128, %p3;",
                      [=](const Inputs &in, Results &out) {
                        out.r[0] = in.a(0) & in.a(1) & in.a(2);
                        bool is = out.r[0] != 0;
                        out.q[0] = op == "or" ? is || in.p(3) : is && in.p(3);
                      }));
  c.push_back(alone("and.b32 %t0, %a1, 31; fns.b32 %r0, %a0, %t0, 2; "
                    "fns.b32 %r1, %a0, %t0, -1;",
                    [](const Inputs &in, Results &out) {
                      int from = int(in.a(1) & 31), left = 2;
                      out.r[0] = out.r[1] = ~0u;
                      for (int at = 31; at >= from; --at)
                        if (in.a(0) >> at & 1)
                          out.r[0] = --left == 0 ? ~0u : out.r[0];
                      left = 2;
                      for (int at = from; at < 32; ++at)
                        if (in.a(0) >> at & 1 && --left == 0)
                          out.r[0] = u32(at);
                      for (int at = 0; at <= from; ++at)
                        if (in.a(0) >> at & 1)
                          out.r[1] = u32(at);
                    }));
  for (string mode : {"clamp", "wrap"})
    c.push_back(alone(
        "szext." + mode + ".s32 %r0, %a0, %a1; szext." + mode +
            ".u32 %r1, %a0, %a1;",
        [=](const Inputs &in, Results &out) {
          u32 bits = mode == "wrap" ? in.a(1) & 31 : std::min(in.a(1), 32u);
          if (bits) {
            out.r[0] = u32(partOf(in.a(0), 0, 0, int(bits), true));
            out.r[1] = u32(partOf(in.a(0), 0, 0, int(bits), false));
          }
        },
        Inputs64::Small));
  c.push_back(alone("brkpt; pmevent 3; pmevent.mask 5; mov.b32 %r0, 1;",
                    [](const Inputs &, Results &out) { out.r[0] = 1; }));
}

} // namespace

void addVideoCases(Cases &cases) {
  int kind = 0;
  for (const Operation &op : kArithmetic)
    for (int i = 0; i < 2; ++i)
      addScalar(cases, op.name, "", op.meaning, true, kind += 3);
  for (const Operation &op : kComparisons)
    addScalar(cases, "vset", "." + op.name, op.meaning, false, ++kind);
  for (int parts : {2, 4}) {
    for (const Operation &op : kArithmetic)
      addParts(cases, op.name, "", op.meaning, parts, true, kind += 3);
    for (int i = 0; i < 3; ++i)
      addParts(cases, kAverage.name, "", kAverage.meaning, parts, true,
               kind += 3);
    for (const Operation &op : kComparisons)
      addParts(cases, "vset", "." + op.name, op.meaning, parts, false, ++kind);
  }
  addShifts(cases);
  addBits(cases);
}

} // namespace cria::emulator
