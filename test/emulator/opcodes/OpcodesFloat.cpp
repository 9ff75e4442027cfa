// Floating-point arithmetic.
#include "test/emulator/Floats.h"
#include "test/emulator/opcodes/Opcodes.h"

#include <cfenv>
#include <cfloat>

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;

float flushed(float v) {
  return std::abs(v) < FLT_MIN ? std::copysign(0.0f, v) : v;
}
float saturated(float v) { return v > 0 ? std::min(v, 1.0f) : 0.0f; }

/// Computes `meaning` in the rounding mode that PTX calls `mode`.
template <typename T, typename F> T rounded(const string &mode, F meaning) {
  fesetround(mode == "rz"   ? FE_TOWARDZERO
             : mode == "rm" ? FE_DOWNWARD
             : mode == "rp" ? FE_UPWARD
                            : FE_TONEAREST);
  volatile T result = meaning();
  fesetround(FE_TONEAREST);
  return result;
}

template <typename T> T operate(const string &op, T x, T y, T z) {
  volatile T a = x, b = y, c = z;
  if (op == "add")
    return a + b;
  if (op == "sub")
    return a - b;
  if (op == "mul")
    return a * b;
  if (op == "div")
    return a / b;
  if (op == "fma" || op == "mad")
    return std::fma(a, b, c);
  if (op == "sqrt")
    return std::sqrt(a);
  return T(1) / a; // rcp
}

int operands(const string &op) {
  return op == "fma" || op == "mad" ? 3 : op == "sqrt" || op == "rcp" ? 1 : 2;
}

string arguments(const string &x, int count) {
  string text;
  for (int i = 0; i < count; ++i)
    text += ", " + x + std::to_string(i);
  return text + ";";
}

/// Every rounding mode of the operations that have them.
void addRounded(Cases &c) {
  for (string op : {"add", "sub", "mul", "div", "fma", "mad", "sqrt", "rcp"})
    for (string mode : {"rn", "rz", "rm", "rp"}) {
      c.push_back(alone(
          op + "." + mode + ".f32 %r0" + arguments("%a", operands(op)),
          [=](const Inputs &i, Results &o) {
            o.f(rounded<float>(
                mode, [&] { return operate(op, i.f(0), i.f(1), i.f(2)); }));
          },
          Inputs64::Floats, Compare::Float));
      c.push_back(alone(
          op + "." + mode + ".f64 %y" + arguments("%x", operands(op)),
          [=](const Inputs &i, Results &o) {
            o.d(rounded<double>(
                mode, [&] { return operate(op, i.d(0), i.d(1), i.d(2)); }));
          },
          Inputs64::Doubles, Compare::Double));
    }
}

/// .ftz and .sat.
void addModified(Cases &c) {
  for (string op : {"add", "sub", "mul", "fma"})
    c.push_back(alone(
        op + ".rn.ftz.sat.f32 %r0" + arguments("%a", operands(op)),
        [=](const Inputs &i, Results &o) {
          o.f(flushed(saturated(
              operate(op, flushed(i.f(0)), flushed(i.f(1)), flushed(i.f(2))))));
        },
        Inputs64::Floats, Compare::Float));
  for (string op : {"div.rn", "sqrt.rn", "rcp.rn"}) {
    string name = op.substr(0, op.find('.'));
    c.push_back(alone(
        op + ".ftz.f32 %r0" + arguments("%a", operands(name)),
        [=](const Inputs &i, Results &o) {
          o.f(flushed(operate(name, flushed(i.f(0)), flushed(i.f(1)), 0.0f)));
        },
        Inputs64::Floats, Compare::Float));
  }
}

void addApprox(Cases &c) {
  struct Function {
    string op;
    double (*meaning)(double);
  };
  const Function functions[] = {
      {"ex2.approx.ftz.f32", [](double v) { return std::exp2(v); }},
      {"ex2.approx.f32", [](double v) { return std::exp2(v); }},
      {"lg2.approx.f32", [](double v) { return std::log2(v); }},
      {"sin.approx.f32", [](double v) { return std::sin(v); }},
      {"cos.approx.f32", [](double v) { return std::cos(v); }},
      {"tanh.approx.f32", [](double v) { return std::tanh(v); }},
      {"rcp.approx.f32", [](double v) { return 1 / v; }},
      {"sqrt.approx.f32", [](double v) { return std::sqrt(v); }},
      {"rsqrt.approx.f32", [](double v) { return 1 / std::sqrt(v); }},
  };
  for (const Function &f : functions)
    c.push_back(alone(
        f.op + " %r0, %a0;",
        [=](const Inputs &i, Results &o) { o.f(float(f.meaning(i.f(0)))); },
        Inputs64::Floats, Compare::Approx));
  c.push_back(alone(
      "rsqrt.approx.f64 %y, %x0;",
      [](const Inputs &i, Results &o) { o.d(1 / std::sqrt(i.d(0))); },
      Inputs64::Doubles, Compare::Double));
  // The high halves alone: 20 digits after the first, no subnormal numbers.
  for (bool root : {false, true})
    c.push_back(
        alone((root ? "rsqrt" : "rcp") + string(".approx.ftz.f64 %y, %x0;"),
              [=](const Inputs &i, Results &o) {
                auto flushed = [](double v) {
                  return std::abs(v) < DBL_MIN ? std::copysign(0.0, v) : v;
                };
                double v = flushed(Inputs::as<double>(i.x[0] >> 32 << 32));
                double result = flushed(1 / (root ? std::sqrt(v) : v));
                o.d(roundTo(result, "rna", 20, -1022, DBL_MAX));
              },
              Inputs64::Doubles, Compare::Double));
  for (string op : {"div.approx.f32", "div.full.f32"})
    c.push_back(alone(
        op + " %r0, %a0, %a1;",
        [](const Inputs &i, Results &o) { o.f(i.f(0) / i.f(1)); },
        Inputs64::Floats, Compare::Approx));
}

template <typename T> T lesser(T a, T b, bool nan) {
  if (std::isnan(a) || std::isnan(b))
    return nan ? T(NAN) : std::isnan(a) ? b : a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <typename T> T greater(T a, T b, bool nan) {
  return -lesser(T(-a), T(-b), nan);
}

void addMinMax(Cases &c) {
  for (bool isMin : {true, false}) {
    string op = isMin ? "min" : "max";
    for (bool nan : {false, true})
      c.push_back(alone(
          op + (nan ? ".NaN" : "") + ".f32 %r0, %a0, %a1;",
          [=](const Inputs &i, Results &o) {
            o.f(isMin ? lesser(i.f(0), i.f(1), nan)
                      : greater(i.f(0), i.f(1), nan));
          },
          Inputs64::Floats, Compare::Float));
    c.push_back(alone(
        op + ".f64 %y, %x0, %x1;",
        [=](const Inputs &i, Results &o) {
          o.d(isMin ? lesser(i.d(0), i.d(1), false)
                    : greater(i.d(0), i.d(1), false));
        },
        Inputs64::Doubles, Compare::Double));
  }
}

void addSigns(Cases &c) {
  c.push_back(alone(
      "abs.f32 %r0, %a0; neg.f32 %r1, %a1;",
      [](const Inputs &i, Results &o) {
        o.r[0] = i.a(0) & 0x7fffffff;
        o.r[1] = i.a(1) ^ 0x80000000;
      },
      Inputs64::Floats));
  c.push_back(alone(
      "neg.ftz.f32 %r0, %a0;",
      [](const Inputs &i, Results &o) { o.f(-flushed(i.f(0))); },
      Inputs64::Floats, Compare::Float));
  c.push_back(alone(
      "abs.f64 %y, %x0;",
      [](const Inputs &i, Results &o) { o.y = i.x[0] << 1 >> 1; },
      Inputs64::Doubles));
  c.push_back(alone(
      "neg.f64 %y, %x0;",
      [](const Inputs &i, Results &o) { o.y = i.x[0] ^ uint64_t(1) << 63; },
      Inputs64::Doubles));
  c.push_back(alone("abs.f16 %s, %h0; neg.bf16x2 %r0, %a0; abs.f16x2 %r1, %a1;",
                    [](const Inputs &i, Results &o) {
                      o.s = i.h(0) & 0x7fff;
                      o.r[0] = i.a(0) ^ 0x80008000;
                      o.r[1] = i.a(1) & 0x7fff7fff;
                    }));
}

void addProperties(Cases &c) {
  c.push_back(alone(
      "copysign.f32 %r0, %a0, %a1;",
      [](const Inputs &i, Results &o) {
        o.r[0] = (i.a(0) & 0x80000000) | (i.a(1) & 0x7fffffff);
      },
      Inputs64::Floats));
  struct Property {
    string name;
    bool (*has)(float);
  };
  const Property properties[] = {
      {"finite", [](float v) { return bool(std::isfinite(v)); }},
      {"infinite", [](float v) { return bool(std::isinf(v)); }},
      {"number", [](float v) { return !std::isnan(v); }},
      {"notanumber", [](float v) { return bool(std::isnan(v)); }},
      {"normal", [](float v) { return bool(std::isnormal(v)); }},
      {"subnormal",
       [](float v) { return std::fpclassify(v) == FP_SUBNORMAL; }}};
  for (const Property &p : properties)
    c.push_back(alone(
        "testp." + p.name + ".f32 %q0, %a0;",
        [=](const Inputs &i, Results &o) { o.q[0] = p.has(i.f(0)); },
        Inputs64::Floats));
}

} // namespace

void addFloatCases(Cases &cases) {
  addRounded(cases);
  addModified(cases);
  addApprox(cases);
  addMinMax(cases);
  addSigns(cases);
  addProperties(cases);
}

namespace {

/// A 16-bit format: how to read and round it.
struct Narrow {
  string name;
  Inputs64 inputs;
  Compare one, pair;
  float (*read)(uint16_t);
  float (*round)(double);
  uint16_t (*bits)(float);
};

double compute(const string &op, double a, double b, double c) {
  if (op == "add")
    return a + b;
  if (op == "sub")
    return a - b;
  if (op == "mul")
    return a * b;
  if (op == "fma")
    return std::fma(a, b, c);
  if (op == "ex2")
    return std::exp2(a);
  if (op == "tanh")
    return std::tanh(a);
  return op == "min" ? lesser(a, b, false) : greater(a, b, false);
}

void addNarrow(Cases &c, const Narrow &format) {
  struct Op {
    string name, before, after;
    int count;
    bool needs90; // for bf16
  };
  const Op ops[] = {{"add", "", "", 2, true},
                    {"sub", "", "", 2, true},
                    {"mul", "", "", 2, true},
                    {"fma", ".rn", "", 3, false},
                    {"min", "", "", 2, false},
                    {"max", "", "", 2, false},
                    {"add", "", ".ftz", 2, true},
                    {"sub", "", ".ftz", 2, true},
                    {"mul", "", ".ftz", 2, true},
                    {"fma", ".rn", ".ftz", 3, false},
                    {"min", "", ".ftz", 2, false},
                    {"max", "", ".ftz", 2, false},
                    {"ex2", ".approx", ".ftz", 1, true},
                    {"tanh", ".approx", "", 1, true}};
  bool isBFloat = format.name == "bf16";
  for (const Op &op : ops) {
    // .ftz is for f16 alone, except that ex2 has it for bf16 alone.
    bool ftz = !op.after.empty() && op.name != "ex2";
    if (ftz && isBFloat)
      continue;
    string after = ftz || isBFloat ? op.after : "";
    string name = op.name + op.before + after + "." + format.name;
    auto flushed = [=](float v) {
      return ftz && std::abs(v) < 0x1p-14f ? std::copysign(0.0f, v) : v;
    };
    unsigned capability = isBFloat && op.needs90 ? 90 : 80;
    auto meaning = [=](const uint16_t(&v)[3]) {
      float in[3];
      for (int k = 0; k < 3; ++k)
        in[k] = flushed(format.read(v[k]));
      return format.bits(
          flushed(format.round(compute(op.name, in[0], in[1], in[2]))));
    };
    c.push_back(alone(
        name + " %s" + arguments("%h", op.count),
        [=](const Inputs &i, Results &o) {
          o.s = meaning({i.h(0), i.h(1), i.h(2)});
        },
        format.inputs, format.one, capability));
    c.push_back(alone(
        name + "x2 %r0" + arguments("%a", op.count),
        [=](const Inputs &i, Results &o) {
          auto high = [&](int k) { return uint16_t(i.a(k) >> 16); };
          o.r[0] = meaning({i.h(0), i.h(1), i.h(2)}) |
                   uint32_t(meaning({high(0), high(1), high(2)})) << 16;
        },
        format.inputs, format.pair, capability));
  }
}

} // namespace

void addNarrowFloatCases(Cases &cases) {
  // The product is halfway between two bf16; a tiny addend says which.
  cases.push_back(alone(
      "mov.b16 %h0, 0x3fc0; mov.b16 %h1, 0x3f81; mov.b16 %h2, 0x8d80; "
      "fma.rn.bf16 %s, %h0, %h1, %h2;",
      [](const Inputs &, Results &o) { o.s = 0x3fc1; }, Inputs64::BFloats,
      Compare::BFloat));
  cases.push_back(alone(
      "neg.ftz.f16x2 %r0, %a0; abs.ftz.f16 %s, %h1; mov.b32 %t0, {%s, 0}; "
      "prmt.b32 %r0, %r0, %t0, 0x5432; mov.b16 %s, 0;",
      [](const Inputs &i, Results &o) {
        auto flushed = [](uint32_t bits) {
          return bits & 0x7c00 ? bits : bits & 0x8000;
        };
        uint32_t negated = flushed(i.a(0) >> 16) ^ 0x8000;
        o.r[0] = (flushed(i.h(1)) & 0x7fff) << 16 | negated;
      },
      Inputs64::Halves, Compare::HalfPair));
  addNarrow(cases, {"f16", Inputs64::Halves, Compare::Half, Compare::HalfPair,
                    fromHalf, roundToHalf, halfBits});
  addNarrow(cases, {"bf16", Inputs64::BFloats, Compare::BFloat,
                    Compare::BFloatPair, fromBFloat, roundToBFloat, toBFloat});
}

} // namespace cria::emulator
