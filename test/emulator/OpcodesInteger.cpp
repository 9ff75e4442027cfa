// Integer arithmetic and bit operations.
#include "test/emulator/Opcodes.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

/// The registers of operands as wide as T: inputs, and the result.
template <typename T> std::string in(int i) {
  return (sizeof(T) == 8   ? "%x"
          : sizeof(T) == 4 ? "%a"
                           : "%h") +
         std::to_string(i);
}
template <typename T> std::string out() {
  return sizeof(T) == 8 ? "%y" : sizeof(T) == 4 ? "%r0" : "%s";
}
template <typename T> T read(const Inputs &inputs, int i) {
  return T(inputs.x[i]);
}
template <typename T> void write(Results &results, T value) {
  if (sizeof(T) == 8)
    results.y = u64(value);
  else if (sizeof(T) == 4)
    results.r[0] = u32(value);
  else
    results.s = uint16_t(value);
}

/// op d, a, b as `meaning(a, b)`.
template <typename T, typename F>
void add2(Cases &cases, std::string op, F meaning) {
  cases.push_back(
      alone(op + " " + out<T>() + ", " + in<T>(0) + ", " + in<T>(1) + ";",
            [meaning](const Inputs &i, Results &o) {
              write<T>(o, T(meaning(read<T>(i, 0), read<T>(i, 1))));
            }));
}
template <typename T, typename F>
void add1(Cases &cases, std::string op, F meaning) {
  cases.push_back(alone(op + " " + out<T>() + ", " + in<T>(0) + ";",
                        [meaning](const Inputs &i, Results &o) {
                          write<T>(o, T(meaning(read<T>(i, 0))));
                        }));
}

/// The product of two numbers in twice their bits.
template <typename T> __int128 product(T a, T b) {
  return std::is_signed<T>::value
             ? __int128(i64(a)) * i64(b)
             : __int128((unsigned __int128)u64(a) * u64(b));
}

template <typename T> using Unsigned = std::make_unsigned_t<T>;

template <typename T> T quotient(T a, T b) {
  if (b == 0)
    return T(-1);
  if (std::is_signed<T>::value && b == T(-1))
    return T(Unsigned<T>(0) - Unsigned<T>(a));
  return T(a / b);
}
template <typename T> T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (std::is_signed<T>::value && b == T(-1))
    return 0;
  return T(a % b);
}

template <typename T> void addForType(Cases &c, std::string type) {
  using U = Unsigned<T>;
  constexpr int bits = 8 * sizeof(T);
  add2<T>(c, "add." + type, [](T a, T b) { return U(U(a) + U(b)); });
  add2<T>(c, "sub." + type, [](T a, T b) { return U(U(a) - U(b)); });
  add2<T>(c, "mul.lo." + type, [](T a, T b) { return T(product(a, b)); });
  add2<T>(c, "mul.hi." + type,
          [](T a, T b) { return T(product(a, b) >> bits); });
  add2<T>(c, "div." + type, quotient<T>);
  add2<T>(c, "rem." + type, remainder<T>);
  add2<T>(c, "min." + type, [](T a, T b) { return std::min(a, b); });
  add2<T>(c, "max." + type, [](T a, T b) { return std::max(a, b); });
  for (std::string part : {"lo", "hi"})
    c.push_back(alone("mad." + part + "." + type + " " + out<T>() + ", " +
                          in<T>(0) + ", " + in<T>(1) + ", " + in<T>(2) + ";",
                      [part](const Inputs &i, Results &o) {
                        __int128 p = product(read<T>(i, 0), read<T>(i, 1));
                        U half = U(part == "lo" ? p : p >> bits);
                        write<T>(o, T(U(half + U(read<T>(i, 2)))));
                      }));
  c.push_back(alone("sad." + type + " " + out<T>() + ", " + in<T>(0) + ", " +
                        in<T>(1) + ", " + in<T>(2) + ";",
                    [](const Inputs &i, Results &o) {
                      T a = read<T>(i, 0), b = read<T>(i, 1);
                      U distance = a > b ? U(U(a) - U(b)) : U(U(b) - U(a));
                      write<T>(o, T(U(distance + U(read<T>(i, 2)))));
                    }));
}

template <typename T> void addForSigned(Cases &c, std::string type) {
  using U = Unsigned<T>;
  add1<T>(c, "abs." + type, [](T a) { return a < 0 ? U(0) - U(a) : U(a); });
  add1<T>(c, "neg." + type, [](T a) { return U(U(0) - U(a)); });
}

/// Carry through two words: x1:x0 op x3:x2.
void addCarries(Cases &c) {
  c.push_back(alone("add.cc.u32 %r0, %a0, %a1; addc.u32 %r1, %a2, %a3;",
                    [](const Inputs &i, Results &o) {
                      u64 low = u64(i.a(0)) + i.a(1);
                      o.r[0] = u32(low);
                      o.r[1] = i.a(2) + i.a(3) + u32(low >> 32);
                    }));
  c.push_back(alone("sub.cc.u64 %y, %x0, %x1; subc.u32 %r0, %a2, %a3;",
                    [](const Inputs &i, Results &o) {
                      o.y = i.x[0] - i.x[1];
                      o.r[0] = i.a(2) - i.a(3) - u32(i.x[0] < i.x[1]);
                    }));
  c.push_back(alone("mad.lo.cc.u32 %r0, %a0, %a1, %a2; "
                    "madc.hi.u32 %r1, %a0, %a1, %a3;",
                    [](const Inputs &i, Results &o) {
                      u64 p = u64(i.a(0)) * i.a(1);
                      u64 low = u64(u32(p)) + i.a(2);
                      o.r[0] = u32(low);
                      o.r[1] = u32(p >> 32) + i.a(3) + u32(low >> 32);
                    }));
  auto clamp = [](i64 v) {
    return u32(std::clamp<i64>(v, INT32_MIN, INT32_MAX));
  };
  c.push_back(
      alone("add.sat.s32 %r0, %a0, %a1;", [clamp](const Inputs &i, Results &o) {
        o.r[0] = clamp(i64(i.sa(0)) + i.sa(1));
      }));
  c.push_back(
      alone("sub.sat.s32 %r0, %a0, %a1;", [clamp](const Inputs &i, Results &o) {
        o.r[0] = clamp(i64(i.sa(0)) - i.sa(1));
      }));
  c.push_back(alone("mad.hi.sat.s32 %r0, %a0, %a1, %a2;",
                    [clamp](const Inputs &i, Results &o) {
                      i64 high = i64(i.sa(0)) * i.sa(1) >> 32;
                      o.r[0] = clamp(high + i.sa(2));
                    }));
}

void addProducts(Cases &c) {
  c.push_back(
      alone("mul.wide.s32 %y, %a0, %a1;", [](const Inputs &i, Results &o) {
        o.y = u64(i64(i.sa(0)) * i.sa(1));
      }));
  c.push_back(
      alone("mul.wide.u16 %r0, %h0, %h1;", [](const Inputs &i, Results &o) {
        o.r[0] = u32(i.h(0)) * i.h(1);
      }));
  c.push_back(
      alone("mad.wide.u32 %y, %a0, %a1, %x2;", [](const Inputs &i, Results &o) {
        o.y = u64(i.a(0)) * i.a(1) + i.x[2];
      }));
  auto low24 = [](i32 v) { return i64(i32(u32(v) << 8) >> 8); };
  c.push_back(alone("mul24.lo.s32 %r0, %a0, %a1;",
                    [low24](const Inputs &i, Results &o) {
                      o.r[0] = u32(low24(i.sa(0)) * low24(i.sa(1)));
                    }));
  c.push_back(alone("mad24.hi.u32 %r0, %a0, %a1, %a2;",
                    [](const Inputs &i, Results &o) {
                      u64 p = u64(i.a(0) & 0xffffff) * (i.a(1) & 0xffffff);
                      o.r[0] = u32(p >> 16) + i.a(2);
                    }));
  c.push_back(alone(
      "dp4a.s32.u32 %r0, %a0, %a1, %a2;", [](const Inputs &i, Results &o) {
        u32 sum = i.a(2);
        for (int k = 0; k < 32; k += 8)
          sum += u32(int8_t(i.a(0) >> k) * int(uint8_t(i.a(1) >> k)));
        o.r[0] = sum;
      }));
  c.push_back(alone("dp2a.hi.u32.s32 %r0, %a0, %a1, %a2;", [](const Inputs &i,
                                                              Results &o) {
    u32 sum = i.a(2);
    for (int k = 0; k < 2; ++k)
      sum +=
          u32(int(uint16_t(i.a(0) >> 16 * k)) * int8_t(i.a(1) >> (16 + 8 * k)));
    o.r[0] = sum;
  }));
  for (std::string op : {"min", "max"})
    c.push_back(alone(
        op + ".relu.s32 %r0, %a0, %a1;",
        [op](const Inputs &i, Results &o) {
          i32 v = op == "min" ? std::min(i.sa(0), i.sa(1))
                              : std::max(i.sa(0), i.sa(1));
          o.r[0] = u32(std::max(v, 0));
        },
        Inputs64::Integers, Compare::Bits, 90));
}

} // namespace

void addIntegerCases(Cases &cases) {
  addForType<uint16_t>(cases, "u16");
  addForType<int16_t>(cases, "s16");
  addForType<u32>(cases, "u32");
  addForType<i32>(cases, "s32");
  addForType<u64>(cases, "u64");
  addForType<i64>(cases, "s64");
  addForSigned<int16_t>(cases, "s16");
  addForSigned<i32>(cases, "s32");
  addForSigned<i64>(cases, "s64");
  addCarries(cases);
  addProducts(cases);
}

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
  addMixes(cases);
}

} // namespace cria::emulator
