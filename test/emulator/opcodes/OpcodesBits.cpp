// Logic, shifts and bit fields.
#include "test/emulator/opcodes/OpcodeHelpers.h"

#include <algorithm>
#include <type_traits>

namespace cria::emulator {
namespace {

template <typename T> void addLogic(Cases &c, std::string bits) {
  add2<T>(c, "and.b" + bits, [](T a, T b) { return a & b; });
  add2<T>(c, "or.b" + bits, [](T a, T b) { return a | b; });
  add2<T>(c, "xor.b" + bits, [](T a, T b) { return a ^ b; });
  add1<T>(c, "not.b" + bits, [](T a) { return ~a; });
  add1<T>(c, "cnot.b" + bits, [](T a) { return a == 0; });
}

template <typename T> void addShifts(Cases &c, std::string bits) {
  constexpr u32 n = 8 * sizeof(T);
  using S = std::make_signed_t<T>;
  auto shift = [&](std::string op, auto meaning) {
    c.push_back(alone(
        op + bits + " " + out<T>() + ", " + in<T>(0) + ", %a1;",
        [meaning](const Inputs &i, Results &o) {
          write<T>(o, T(meaning(read<T>(i, 0), i.a(1))));
        },
        Inputs64::Small));
  };
  shift("shl.b", [](T a, u32 by) { return by >= n ? T(0) : T(a << by); });
  shift("shr.u", [](T a, u32 by) { return by >= n ? T(0) : T(a >> by); });
  shift("shr.s", [](T a, u32 by) { return T(S(a) >> std::min(by, n - 1)); });
}

u64 reversed(u64 value, int bits) {
  u64 result = 0;
  for (int i = 0; i < bits; ++i)
    result |= (value >> i & 1) << (bits - 1 - i);
  return result;
}

/// The place of the highest bit that is not the sign.
u32 highest(u64 value, int bits, bool isSigned, bool fromTop) {
  bool sign = isSigned && (value >> (bits - 1) & 1);
  for (int i = bits - 1; i >= 0; --i)
    if ((value >> i & 1) != u64(sign))
      return u32(fromTop ? bits - 1 - i : i);
  return ~0u;
}

/// bfe as the manual's pseudocode has it.
u64 extracted(u64 a, u32 at, u32 length, int bits, bool isSigned) {
  int position = at & 255, count = length & 255, top = bits - 1;
  bool sign =
      isSigned && count && (a >> std::min(position + count - 1, top) & 1);
  u64 result = 0;
  for (int i = 0; i <= top; ++i) {
    bool inside = i < count && position + i <= top;
    result |= u64(inside ? a >> (position + i) & 1 : sign) << i;
  }
  return result;
}

u64 inserted(u64 field, u64 into, u32 at, u32 length, int bits) {
  int position = at & 255, count = length & 255;
  for (int i = 0; i < count && position + i < bits; ++i) {
    u64 bit = u64(1) << (position + i);
    into = (field >> i & 1) ? into | bit : into & ~bit;
  }
  return into;
}

void addFields(Cases &c) {
  for (int bits : {32, 64}) {
    std::string n = std::to_string(bits), x = bits == 32 ? "%a" : "%x";
    u64 all = bits == 32 ? 0xffffffff : ~u64(0);
    for (bool sign : {false, true}) {
      std::string type = (sign ? "s" : "u") + n;
      for (bool top : {false, true})
        c.push_back(alone((top ? "bfind.shiftamt." : "bfind.") + type +
                              " %r0, " + x + "0;",
                          [=](const Inputs &i, Results &o) {
                            o.r[0] = highest(i.x[0] & all, bits, sign, top);
                          }));
      c.push_back(alone(
          "bfe." + type + (bits == 32 ? " %r0, " : " %y, ") + x +
              "0, %a1, %a2;",
          [=](const Inputs &i, Results &o) {
            u64 v = extracted(i.x[0] & all, i.a(1), i.a(2), bits, sign);
            (bits == 32 ? o.r[0] = u32(v) : o.y = v);
          },
          Inputs64::Small));
    }
    c.push_back(alone(
        "bfi.b" + n + (bits == 32 ? " %r0, " : " %y, ") + x + "0, " + x +
            "3, %a1, %a2;",
        [=](const Inputs &i, Results &o) {
          u64 v = inserted(i.x[0] & all, i.x[3] & all, i.a(1), i.a(2), bits);
          (bits == 32 ? o.r[0] = u32(v) : o.y = v);
        },
        Inputs64::Small));
  }
}

void addCounts(Cases &c) {
  for (int bits : {32, 64}) {
    std::string n = std::to_string(bits), x = bits == 32 ? "%a" : "%x";
    u64 all = bits == 32 ? 0xffffffff : ~u64(0);
    c.push_back(alone("popc.b" + n + " %r0, " + x + "0;",
                      [=](const Inputs &i, Results &o) {
                        o.r[0] = u32(__builtin_popcountll(i.x[0] & all));
                      }));
    c.push_back(alone(
        "clz.b" + n + " %r0, " + x + "0;", [=](const Inputs &i, Results &o) {
          u64 v = i.x[0] & all;
          o.r[0] = u32(v ? __builtin_clzll(v) - (64 - bits) : bits);
        }));
    c.push_back(
        alone("brev.b" + n + (bits == 32 ? " %r0, " : " %y, ") + x + "0;",
              [=](const Inputs &i, Results &o) {
                u64 v = reversed(i.x[0] & all, bits);
                (bits == 32 ? o.r[0] = u32(v) : o.y = v);
              }));
  }
}

void addMixes(Cases &c) {
  for (std::string mode : {"wrap", "clamp"})
    for (bool left : {true, false})
      c.push_back(alone(
          (left ? "shf.l." : "shf.r.") + mode + ".b32 %r0, %a0, %a3, %a1;",
          [=](const Inputs &i, Results &o) {
            u32 by = mode == "wrap" ? i.a(1) & 31 : std::min(i.a(1), 32u);
            u64 both = u64(i.a(3)) << 32 | i.a(0);
            o.r[0] = left ? u32((both << by) >> 32) : u32(both >> by);
          },
          Inputs64::Small));
  for (std::string mode : {"wrap", "clamp"})
    c.push_back(alone(
        "bmsk." + mode + ".b32 %r0, %a1, %a2;",
        [=](const Inputs &i, Results &o) {
          auto bound = [&](u32 v) {
            return mode == "wrap" ? v & 31 : std::min(v, 32u);
          };
          u64 mask = (u64(1) << bound(i.a(2))) - 1;
          o.r[0] = u32(mask << bound(i.a(1)));
        },
        Inputs64::Small));
}

void addTables(Cases &c) {
  c.push_back(
      alone("prmt.b32 %r0, %a0, %a1, %a2;", [](const Inputs &i, Results &o) {
        u64 bytes = u64(i.a(1)) << 32 | i.a(0);
        for (int k = 0; k < 4; ++k) {
          u32 selector = i.a(2) >> (4 * k) & 15;
          auto byte = int8_t(bytes >> (8 * (selector & 7)));
          if (selector & 8)
            byte = int8_t(byte >> 7);
          o.r[0] |= u32(uint8_t(byte)) << (8 * k);
        }
      }));
  for (int table : {0, 0x96, 0xE8, 0xCA, 0xFF, 0x01})
    c.push_back(
        alone("lop3.b32 %r0, %a0, %a1, %a2, " + std::to_string(table) + ";",
              [table](const Inputs &i, Results &o) {
                for (int k = 0; k < 32; ++k) {
                  int row = int(i.a(0) >> k & 1) << 2 |
                            int(i.a(1) >> k & 1) << 1 | int(i.a(2) >> k & 1);
                  o.r[0] |= u32(table >> row & 1) << k;
                }
              }));
  for (std::string op : {"and", "or", "xor"})
    c.push_back(
        alone(op + ".pred %q0, %p0, %p1; not.pred %q1, %p2;",
              [op](const Inputs &i, Results &o) {
                bool a = i.p(0), b = i.p(1);
                o.q[0] = op == "and" ? a && b : op == "or" ? a || b : a != b;
                o.q[1] = !i.p(2);
              }));
}

} // namespace

void addBitCases(Cases &cases) {
  addLogic<uint16_t>(cases, "16");
  addLogic<u32>(cases, "32");
  addLogic<u64>(cases, "64");
  addShifts<uint16_t>(cases, "16");
  addShifts<u32>(cases, "32");
  addShifts<u64>(cases, "64");
  addFields(cases);
  addCounts(cases);
  addMixes(cases);
  addTables(cases);
}

} // namespace cria::emulator
