// Moves and conversions.
#include "test/emulator/Floats.h"
#include "test/emulator/Opcodes.h"

#include <algorithm>
#include <cfenv>
#include <limits>

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;

/// An integer type of PTX.
struct Integer {
  string name;
  int bits;
  bool isSigned;

  __int128 least() const { return isSigned ? -(__int128(1) << (bits - 1)) : 0; }
  __int128 most() const {
    return (__int128(1) << (isSigned ? bits - 1 : bits)) - 1;
  }
  /// The value of the low bits.
  __int128 of(uint64_t word) const {
    uint64_t low = bits == 64 ? word : word & ((uint64_t(1) << bits) - 1);
    bool negative = isSigned && (low >> (bits - 1) & 1);
    return negative ? __int128(low) - (__int128(1) << bits) : __int128(low);
  }
  /// The register that holds it: inputs and results.
  string in() const { return bits == 64 ? "%x0" : bits == 32 ? "%a0" : "%h0"; }
  string out() const { return bits == 64 ? "%y" : bits == 32 ? "%r0" : "%s"; }
  void write(Results &o, __int128 value) const {
    if (bits == 64)
      o.y = uint64_t(value);
    else if (bits == 32)
      o.r[0] = uint32_t(value);
    else if (bits == 16)
      o.s = uint16_t(value);
    else // an 8-bit result fills its register by its sign
      o.s = uint16_t(isSigned ? int8_t(value) : uint8_t(value));
  }
};

const Integer kIntegers[] = {{"u8", 8, false},   {"s8", 8, true},
                             {"u16", 16, false}, {"s16", 16, true},
                             {"u32", 32, false}, {"s32", 32, true},
                             {"u64", 64, false}, {"s64", 64, true}};

void addIntegerConversions(Cases &c) {
  for (const Integer &to : kIntegers)
    for (const Integer &from : kIntegers)
      for (bool sat : {false, true}) {
        // ptxas takes .sat only where there is something to clamp.
        if (sat && to.least() <= from.least() && to.most() >= from.most())
          continue;
        c.push_back(alone(string("cvt.") + (sat ? "sat." : "") + to.name + "." +
                              from.name + " " + to.out() + ", " + from.in() +
                              ";",
                          [=](const Inputs &i, Results &o) {
                            __int128 value = from.of(i.x[0]);
                            if (sat)
                              value = std::clamp(value, to.least(), to.most());
                            to.write(o, to.of(uint64_t(value)));
                          }));
      }
}

double integral(const string &mode, double v) {
  return mode == "rni"   ? std::nearbyint(v)
         : mode == "rzi" ? std::trunc(v)
         : mode == "rmi" ? std::floor(v)
                         : std::ceil(v);
}

__int128 toInteger(const Integer &to, double v, bool wide) {
  if (std::isnan(v))
    return wide ? to.of(uint64_t(1) << (to.bits - 1)) : 0;
  if (v <= double(to.least()))
    return to.least();
  return v >= double(to.most()) ? to.most() : __int128(v);
}

void addFloatToInteger(Cases &c) {
  for (const Integer &to : kIntegers)
    for (string mode : {"rni", "rzi", "rmi", "rpi"}) {
      c.push_back(alone(
          "cvt." + mode + "." + to.name + ".f32 " + to.out() + ", %a0;",
          [=](const Inputs &i, Results &o) {
            to.write(o, toInteger(to, integral(mode, i.f(0)), to.bits == 64));
          },
          Inputs64::Floats));
      c.push_back(alone(
          "cvt." + mode + "." + to.name + ".f64 " + to.out() + ", %x0;",
          [=](const Inputs &i, Results &o) {
            to.write(o, toInteger(to, integral(mode, i.d(0)), true));
          },
          Inputs64::Doubles));
    }
  c.push_back(alone(
      "cvt.rzi.s32.bf16 %r0, %h0;",
      [](const Inputs &i, Results &o) {
        o.r[0] = uint32_t(
            toInteger(kIntegers[5], std::trunc(fromBFloat(i.h(0))), false));
      },
      Inputs64::BFloats, Compare::Bits, 90));
}

void addIntegerToFloat(Cases &c) {
  for (const Integer &from : kIntegers) {
    auto add = [&](string type, string out, auto write, Compare compare,
                   unsigned capability) {
      c.push_back(alone(
          "cvt.rn." + type + "." + from.name + " " + out + ", " + from.in() +
              ";",
          [=](const Inputs &i, Results &o) { write(o, from.of(i.x[0])); },
          Inputs64::Integers, compare, capability));
    };
    add(
        "f32", "%r0", [](Results &o, __int128 v) { o.f(float(v)); },
        Compare::Float, 80);
    add(
        "f64", "%y", [](Results &o, __int128 v) { o.d(double(v)); },
        Compare::Double, 80);
    add(
        "f16", "%s",
        [](Results &o, __int128 v) {
          auto half = _Float16(roundToHalf(double(v)));
          uint16_t bits;
          std::memcpy(&bits, &half, 2);
          o.s = bits;
        },
        Compare::Half, 80);
    if (from.bits == 8)
      continue;
    add(
        "bf16", "%s",
        [](Results &o, __int128 v) {
          o.s = toBFloat(roundToBFloat(double(v)));
        },
        Compare::BFloat, 90);
  }
}

uint16_t halfBits(double v) {
  auto half = _Float16(float(v));
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}
float halfValue(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, 2);
  return float(half);
}

/// Toward zero to so many digits.
float cut(float v, int digits, int least, double most) {
  if (v == 0 || !std::isfinite(v))
    return v;
  double unit = std::ldexp(1.0, std::max(std::ilogb(v), least) - digits);
  return float(
      std::copysign(std::min(std::abs(std::trunc(v / unit) * unit), most), v));
}

void addFloatToFloat(Cases &c) {
  for (string mode : {"rn", "rz", "rm", "rp"})
    c.push_back(alone(
        "cvt." + mode + ".f32.f64 %r0, %x0;",
        [=](const Inputs &i, Results &o) {
          fesetround(mode == "rz"   ? FE_TOWARDZERO
                     : mode == "rm" ? FE_DOWNWARD
                     : mode == "rp" ? FE_UPWARD
                                    : FE_TONEAREST);
          volatile double v = i.d(0);
          volatile float r = float(v);
          fesetround(FE_TONEAREST);
          o.f(r);
        },
        Inputs64::Doubles, Compare::Float));
  for (string mode : {"rni", "rzi", "rmi", "rpi"}) {
    c.push_back(alone(
        "cvt." + mode + ".f32.f32 %r0, %a0;",
        [=](const Inputs &i, Results &o) {
          o.f(float(integral(mode, i.f(0))));
        },
        Inputs64::Floats, Compare::Float));
    c.push_back(alone(
        "cvt." + mode + ".f16.f16 %s, %h0;",
        [=](const Inputs &i, Results &o) {
          o.s = halfBits(integral(mode, halfValue(i.h(0))));
        },
        Inputs64::Halves, Compare::Half));
  }
}

void addWidening(Cases &c) {
  c.push_back(alone(
      "cvt.f64.f32 %y, %a0;", [](const Inputs &i, Results &o) { o.d(i.f(0)); },
      Inputs64::Floats, Compare::Double));
  c.push_back(alone(
      "cvt.sat.f32.f32 %r0, %a0;",
      [](const Inputs &i, Results &o) {
        float v = i.f(0);
        o.f(v > 0 ? std::min(v, 1.0f) : 0.0f);
      },
      Inputs64::Floats, Compare::Float));
  c.push_back(alone(
      "cvt.f32.f16 %r0, %h0; cvt.f32.bf16 %r1, %h1;",
      [](const Inputs &i, Results &o) {
        o.f(halfValue(i.h(0)));
        o.f(fromBFloat(i.h(1)), 1);
      },
      Inputs64::Halves, Compare::Float));
}

void addNarrowing(Cases &c) {
  c.push_back(alone(
      "cvt.rn.f16.f32 %s, %a0;",
      [](const Inputs &i, Results &o) { o.s = halfBits(roundToHalf(i.f(0))); },
      Inputs64::Floats, Compare::Half));
  c.push_back(alone(
      "cvt.rz.f16.f32 %s, %a0;",
      [](const Inputs &i, Results &o) {
        o.s = halfBits(cut(i.f(0), 10, -14, 65504));
      },
      Inputs64::Floats, Compare::Half));
  c.push_back(alone(
      "cvt.rn.bf16.f32 %s, %a0;",
      [](const Inputs &i, Results &o) { o.s = toBFloat(i.f(0)); },
      Inputs64::Floats, Compare::BFloat));
  c.push_back(alone(
      "cvt.rz.bf16.f32 %s, %a0;",
      [](const Inputs &i, Results &o) { o.s = i.a(0) >> 16; }, Inputs64::Floats,
      Compare::BFloat));
  c.push_back(alone(
      "cvt.rn.bf16x2.f32 %r0, %a0, %a1;",
      [](const Inputs &i, Results &o) {
        o.r[0] = uint32_t(toBFloat(i.f(0))) << 16 | toBFloat(i.f(1));
      },
      Inputs64::Floats, Compare::BFloatPair));
  c.push_back(alone(
      "cvt.rn.relu.f16x2.f32 %r0, %a0, %a1;",
      [](const Inputs &i, Results &o) {
        auto half = [&](int k) {
          float v = i.f(k);
          return uint32_t(halfBits(roundToHalf(v <= 0 ? 0.0f : v)));
        };
        o.r[0] = half(0) << 16 | half(1);
      },
      Inputs64::Floats, Compare::HalfPair));
}

void addMoves(Cases &c) {
  c.push_back(alone("mov.b64 %y, {%a0, %a1}; mov.b32 {%s, _}, %a2; "
                    "mov.b32 %r0, {%h3, %h0}; mov.pred %q0, %p1;",
                    [](const Inputs &i, Results &o) {
                      o.y = uint64_t(i.a(1)) << 32 | i.a(0);
                      o.s = i.h(2);
                      o.r[0] = uint32_t(i.h(0)) << 16 | i.h(3);
                      o.q[0] = i.p(1);
                    }));
  c.push_back(alone("mov.b32 %r0, -5; mov.u64 %y, 0xFFFFFFFFFFU; "
                    "mov.f32 %r1, 0f3F800000;",
                    [](const Inputs &, Results &o) {
                      o.r[0] = uint32_t(-5);
                      o.y = 0xFFFFFFFFFF;
                      o.f(1, 1);
                    }));
  c.push_back(alone(".reg .b128 %w; mov.b128 %w, {%x0, %x1}; "
                    "mov.b128 {_, %y}, %w;",
                    [](const Inputs &i, Results &o) { o.y = i.x[1]; }));
  c.push_back(alone("cvta.shared.u64 %z, %sh; st.u32 [%z], %a0; "
                    "ld.shared.u32 %r0, [%sh]; cvta.to.shared.u64 %z, %z; "
                    "sub.u64 %y, %z, %sh;",
                    [](const Inputs &i, Results &o) { o.r[0] = i.a(0); }));
}

} // namespace

void addConvertCases(Cases &cases) {
  addIntegerConversions(cases);
  addFloatToInteger(cases);
  addIntegerToFloat(cases);
  addFloatToFloat(cases);
  addWidening(cases);
  addNarrowing(cases);
  addMoves(cases);
}

} // namespace cria::emulator
