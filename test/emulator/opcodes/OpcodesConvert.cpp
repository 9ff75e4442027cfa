// Moves and conversions.
#include "test/emulator/Floats.h"
#include "test/emulator/opcodes/Opcodes.h"

#include <algorithm>
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

/// Subnormal f32 to zero.
double flushed(double v) {
  return std::abs(v) < 0x1p-126 ? std::copysign(0.0, v) : v;
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
  for (string mode : {"rni", "rpi"}) {
    c.push_back(alone(
        "cvt." + mode + ".ftz.sat.s32.f32 %r0, %a0;",
        [=](const Inputs &i, Results &o) {
          double v = integral(mode, flushed(i.f(0)));
          o.r[0] = uint32_t(toInteger(kIntegers[5], v, false));
        },
        Inputs64::Floats));
    c.push_back(alone(
        "cvt." + mode + ".s16.f16 %s, %h0;",
        [=](const Inputs &i, Results &o) {
          double v = integral(mode, fromHalf(i.h(0)));
          o.s = uint16_t(toInteger(kIntegers[3], v, false));
        },
        Inputs64::Halves));
  }
  c.push_back(alone(
      "cvt.rzi.s32.bf16 %r0, %h0;",
      [](const Inputs &i, Results &o) {
        o.r[0] = uint32_t(
            toInteger(kIntegers[5], std::trunc(fromBFloat(i.h(0))), false));
      },
      Inputs64::BFloats, Compare::Bits, 90));
}

/// A float type of PTX, and what it means apart from the emulator's code.
struct Float {
  string name;
  int digits, least; ///< digits behind the first; exponent of the least normal
  double most;
  Inputs64 inputs;
  Compare compare;

  bool isBFloat() const { return name == "bf16"; }
  string in() const {
    return name == "f64" ? "%x0" : name == "f32" ? "%a0" : "%h0";
  }
  string out() const {
    return name == "f64" ? "%y" : name == "f32" ? "%r0" : "%s";
  }
  double read(const Inputs &i) const {
    return name == "f64"   ? i.d(0)
           : name == "f32" ? i.f(0)
           : isBFloat()    ? fromBFloat(i.h(0))
                           : fromHalf(i.h(0));
  }
  void write(Results &o, double value) const {
    if (name == "f64")
      o.d(value);
    else if (name == "f32")
      o.f(float(value));
    else
      o.s = isBFloat() ? Inputs::as<uint32_t>(float(value)) >> 16
                       : halfBits(float(value));
  }
  double rounded(long double value, const string &mode) const {
    return roundTo(value, mode, digits, least, most);
  }
};

const Float kFloats[] = {
    {"f16", 10, -14, 65504, Inputs64::Halves, Compare::Half},
    {"bf16", 7, -126, 0x1.fep127, Inputs64::BFloats, Compare::BFloat},
    {"f32", 23, -126, 0x1.fffffep127, Inputs64::Floats, Compare::Float},
    {"f64", 52, -1022, 0x1.fffffffffffffp1023, Inputs64::Doubles,
     Compare::Double}};

double saturated(double v) { return v > 0 ? std::min(v, 1.0) : 0.0; }
double rectified(double v) { return v <= 0 ? 0.0 : v; }

const string kModes[] = {"rn", "rz", "rm", "rp"};

void addIntegerToFloat(Cases &c) {
  for (const Integer &from : kIntegers)
    for (const Float &to : kFloats)
      for (const string &mode : kModes)
        for (string sat : {"", ".sat"}) {
          if (to.isBFloat() && (!sat.empty() || from.bits == 8))
            continue;
          c.push_back(alone(
              "cvt." + mode + sat + "." + to.name + "." + from.name + " " +
                  to.out() + ", " + from.in() + ";",
              [=](const Inputs &i, Results &o) {
                double v = to.rounded((long double)from.of(i.x[0]), mode);
                to.write(o, sat.empty() ? v : saturated(v));
              },
              Inputs64::Integers, to.compare, to.isBFloat() ? 90 : 80));
        }
}

/// One conversion between floats: `mode` "" where nothing is rounded.
void addFloatCase(Cases &c, const Float &to, const Float &from,
                  const string &mode, bool ftz, bool sat, unsigned capability) {
  string code = "cvt" + (mode.empty() ? "" : "." + mode) + (ftz ? ".ftz" : "") +
                (sat ? ".sat" : "") + "." + to.name + "." + from.name + " " +
                to.out() + ", " + from.in() + ";";
  c.push_back(alone(
      code,
      [=](const Inputs &i, Results &o) {
        double v = from.read(i);
        if (ftz && from.name == "f32")
          v = flushed(v);
        if (mode.size() == 3) // rni and the like
          v = integral(mode, v);
        v = to.rounded(v, mode.size() == 2 ? mode : "rn");
        if (sat)
          v = saturated(v);
        to.write(o, ftz && to.name == "f32" ? flushed(v) : v);
      },
      from.inputs, to.compare, capability));
}

/// Every conversion between f16, bf16, f32 and f64 that ptxas takes.
void addFloatToFloat(Cases &c) {
  for (const Float &to : kFloats)
    for (const Float &from : kFloats) {
      bool same = to.name == from.name,
           f32 = to.name == "f32" || from.name == "f32";
      bool anyBFloat = to.isBFloat() || from.isBFloat();
      unsigned capability = anyBFloat && !f32 ? 90 : 80;
      bool narrows = to.digits < from.digits;
      std::vector<string> modes;
      if (same)
        modes = {"", "rni", "rzi", "rmi", "rpi"};
      else if (anyBFloat && (!narrows || (to.isBFloat() && from.name == "f16")))
        modes = {"", "rn", "rz", "rm", "rp"};
      else if (narrows)
        modes = {"rn", "rz", "rm", "rp"};
      else
        modes = {""};
      for (const string &mode : modes)
        for (bool ftz : {false, true})
          for (bool sat : {false, true}) {
            if ((ftz && !f32) || (sat && anyBFloat))
              continue;
            bool late = ftz && from.isBFloat();
            addFloatCase(c, to, from, mode, ftz, sat, late ? 90 : capability);
          }
    }
}

/// .relu and .satfinite, to 16 bits and to pairs of them.
void addClampedNarrowing(Cases &c) {
  for (const Float &to : {kFloats[0], kFloats[1]})
    for (string mode : {"rn", "rz"})
      for (string clamp : {"", ".relu", ".satfinite", ".relu.satfinite"}) {
        auto convert = [=](double v) {
          if (clamp.find("relu") != string::npos)
            v = rectified(v);
          v = to.rounded(v, mode);
          Results word;
          to.write(word,
                   clamp.find("finite") != string::npos
                       ? std::isnan(v) ? v : std::clamp(v, -to.most, to.most)
                       : v);
          return word.s;
        };
        if (!clamp.empty())
          c.push_back(alone(
              "cvt." + mode + clamp + "." + to.name + ".f32 %s, %a0;",
              [=](const Inputs &i, Results &o) { o.s = convert(i.f(0)); },
              Inputs64::Floats, to.compare));
        c.push_back(alone(
            "cvt." + mode + clamp + "." + to.name + "x2.f32 %r0, %a0, %a1;",
            [=](const Inputs &i, Results &o) {
              o.r[0] = convert(i.f(0)) << 16 | convert(i.f(1));
            },
            Inputs64::Floats,
            to.isBFloat() ? Compare::BFloatPair : Compare::HalfPair));
      }
}

void addTensorFloat(Cases &c) {
  auto add = [&](string how, string mode, unsigned capability) {
    c.push_back(alone(
        "cvt." + how + ".tf32.f32 %r0, %a0;",
        [=](const Inputs &i, Results &o) {
          double most = 0x1.ffcp127, v = i.f(0);
          if (how.find("relu") != string::npos)
            v = rectified(v);
          v = roundTo(v, mode, 10, -126, most);
          if (how.find("finite") != string::npos && !std::isnan(v))
            v = std::clamp(v, -most, most);
          o.f(float(v));
        },
        Inputs64::Floats, Compare::Float, capability));
  };
  add("rna", "rna", 80);
  add("rna.satfinite", "rna", 80);
  for (string mode : {"rn", "rz"})
    for (string relu : {"", ".relu"})
      add(mode + relu, mode, 90);
}

/// Floats of 8 bits.
struct Tiny {
  string name;
  int digits, bias;
  unsigned most; ///< the greatest number

  bool isNan(unsigned code) const {
    return (code & 0x7f) > (name == "e4m3x2" ? most : most + 1);
  }
  double valueOf(unsigned code) const {
    int exponent = int(code & 0x7f) >> digits,
        fraction = code & ((1 << digits) - 1);
    if (isNan(code))
      return NAN;
    double v = name == "e5m2x2" && exponent == 31 ? INFINITY
               : exponent ? std::ldexp(fraction + (1 << digits),
                                       exponent - bias - digits)
                          : std::ldexp(fraction, 1 - bias - digits);
    return code & 0x80 ? -v : v;
  }
  /// To nearest, at most the greatest number: the code that is nearest, the
  /// even one of two.
  unsigned codeOf(double v) const {
    if (std::isnan(v))
      return 0x7f;
    unsigned sign = std::signbit(v) ? 0x80 : 0, best = 0;
    if (std::abs(v) >= valueOf(most))
      return sign | most;
    for (unsigned code = 1; code <= most; ++code) {
      double here = std::abs(std::abs(v) - valueOf(code)),
             there = std::abs(std::abs(v) - valueOf(best));
      if (here < there || (here == there && code % 2 == 0))
        best = code;
    }
    return sign | best;
  }
};

void addTinyFloats(Cases &c) {
  for (const Tiny &tiny :
       {Tiny{"e4m3x2", 3, 7, 0x7e}, Tiny{"e5m2x2", 2, 15, 0x7b}})
    for (string relu : {"", ".relu"}) {
      auto clamped = [=](double v) { return relu.empty() ? v : rectified(v); };
      c.push_back(alone(
          "cvt.rn.satfinite" + relu + "." + tiny.name + ".f32 %s, %a0, %a1;",
          [=](const Inputs &i, Results &o) {
            o.s = tiny.codeOf(clamped(i.f(0))) << 8 |
                  tiny.codeOf(clamped(i.f(1)));
          },
          Inputs64::Floats, Compare::Bits, 90));
      c.push_back(alone(
          "cvt.rn.satfinite" + relu + "." + tiny.name + ".f16x2 %s, %a0;",
          [=](const Inputs &i, Results &o) {
            o.s = tiny.codeOf(clamped(fromHalf(uint16_t(i.a(0) >> 16)))) << 8 |
                  tiny.codeOf(clamped(fromHalf(i.h(0))));
          },
          Inputs64::Halves, Compare::Bits, 90));
      c.push_back(alone(
          "cvt.rn" + relu + ".f16x2." + tiny.name + " %r0, %h0;",
          [=](const Inputs &i, Results &o) {
            auto half = [&](unsigned code) {
              return uint32_t(halfBits(float(clamped(tiny.valueOf(code)))));
            };
            o.r[0] = half(i.h(0) >> 8) << 16 | half(i.h(0) & 255);
          },
          Inputs64::Integers, Compare::HalfPair, 90));
    }
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
  addClampedNarrowing(cases);
  addTensorFloat(cases);
  addTinyFloats(cases);
  addMoves(cases);
}

} // namespace cria::emulator
