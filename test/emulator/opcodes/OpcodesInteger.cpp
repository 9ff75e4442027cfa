// Integer arithmetic.
#include "test/emulator/opcodes/OpcodeHelpers.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace cria::emulator {
namespace {

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

/// Additions after subtractions and the other way round. The one carry flag is
/// the carry of x + y or of x + ~y + 1, which is 1 where nothing was borrowed.
void addMixedCarries(Cases &c) {
  auto notBorrowed = [](u32 x, u32 y) { return u32(x >= y); };
  auto carried = [](u32 x, u32 y) { return u32((u64(x) + y) >> 32); };
  c.push_back(alone("sub.cc.u32 %r0, %a0, %a1; addc.u32 %r1, %a2, %a3;",
                    [=](const Inputs &i, Results &o) {
                      o.r[0] = i.a(0) - i.a(1);
                      o.r[1] = i.a(2) + i.a(3) + notBorrowed(i.a(0), i.a(1));
                    }));
  c.push_back(alone("add.cc.u32 %r0, %a0, %a1; subc.u32 %r1, %a2, %a3;",
                    [=](const Inputs &i, Results &o) {
                      o.r[0] = i.a(0) + i.a(1);
                      o.r[1] = i.a(2) - i.a(3) - 1 + carried(i.a(0), i.a(1));
                    }));
  c.push_back(alone("sub.cc.u32 %r0, %a0, %a1; subc.cc.u32 %r1, %a2, %a3; "
                    "madc.lo.u32 %t0, %a0, %a1, %a2; mov.b64 %y, {%t0, 0};",
                    [=](const Inputs &i, Results &o) {
                      u64 x = u64(i.a(2)) << 32 | i.a(0);
                      u64 y = u64(i.a(3)) << 32 | i.a(1);
                      o.r[0] = u32(x - y);
                      o.r[1] = u32((x - y) >> 32);
                      o.y = u32(i.a(0) * i.a(1) + i.a(2) + u32(x >= y));
                    }));
  c.push_back(alone("sub.cc.u64 %y, %x0, %x1; addc.cc.u32 %r0, %a2, %a3; "
                    "subc.u32 %r1, %a0, %a1;",
                    [](const Inputs &i, Results &o) {
                      u64 sum = u64(i.a(2)) + i.a(3) + (i.x[0] >= i.x[1]);
                      o.y = i.x[0] - i.x[1];
                      o.r[0] = u32(sum);
                      o.r[1] = i.a(0) - i.a(1) - 1 + u32(sum >> 32);
                    }));
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
  addMixedCarries(c);
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
}

void addDotProducts(Cases &c) {
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
  addDotProducts(cases);
}

} // namespace cria::emulator
