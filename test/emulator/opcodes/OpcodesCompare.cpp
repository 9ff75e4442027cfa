// Comparisons and selections.
#include "test/emulator/Floats.h"
#include "test/emulator/opcodes/Opcodes.h"

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;

template <typename T>
bool compare(const string &name, T a, T b, bool unordered) {
  string base =
      name.size() == 3 && name.back() == 'u' ? name.substr(0, 2) : name;
  if (name == "num")
    return !unordered;
  if (name == "nan")
    return unordered;
  if (unordered)
    return base != name;
  if (base == "eq")
    return a == b;
  if (base == "ne")
    return a != b;
  if (base == "lt" || base == "lo")
    return a < b;
  if (base == "le" || base == "ls")
    return a <= b;
  return base == "gt" || base == "hi" ? a > b : a >= b;
}

void addPredicates(Cases &c) {
  for (string op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    c.push_back(alone("setp." + op + ".s32 %q0, %a0, %a1; setp." + op +
                          ".u64 %q1, %x2, %x3;",
                      [=](const Inputs &i, Results &o) {
                        o.q[0] = compare(op, i.sa(0), i.sa(1), false);
                        o.q[1] = compare(op, i.x[2], i.x[3], false);
                      }));
    c.push_back(alone(
        "set." + op + ".u32.s16 %r0, %h0, %h1; set." + op +
            ".f32.f32 %r1, %a2, %a3;",
        [=](const Inputs &i, Results &o) {
          o.r[0] =
              compare(op, int16_t(i.h(0)), int16_t(i.h(1)), false) ? ~0u : 0;
          bool nan = std::isnan(i.f(2)) || std::isnan(i.f(3));
          o.f(compare(op, i.f(2), i.f(3), nan), 1);
        },
        Inputs64::Floats));
  }
  for (string op : {"lo", "ls", "hi", "hs"})
    c.push_back(alone("setp." + op + ".u32 %q0|%q1, %a0, %a1;",
                      [=](const Inputs &i, Results &o) {
                        o.q[0] = compare(op, i.a(0), i.a(1), false);
                        o.q[1] = !o.q[0];
                      }));
}

void addFloatPredicates(Cases &c) {
  for (string op : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu",
                    "leu", "gtu", "geu", "num", "nan"})
    for (string how : {"and", "or", "xor"})
      c.push_back(alone(
          "setp." + op + "." + how + ".f32 %q0|%q1, %a0, %a1, !%p2;",
          [=](const Inputs &i, Results &o) {
            bool nan = std::isnan(i.f(0)) || std::isnan(i.f(1));
            bool v = compare(op, i.f(0), i.f(1), nan);
            auto join = [&](bool x) {
              return how == "and"  ? x && !i.p(2)
                     : how == "or" ? x || !i.p(2)
                                   : x == i.p(2);
            };
            o.q[0] = join(v);
            o.q[1] = join(!v);
          },
          Inputs64::Floats));
}

/// set with a source or a result of 16 bits: all ones or 1.0, of each half.
void addNarrowSets(Cases &c) {
  struct Format {
    string name;
    Inputs64 inputs;
    float (*read)(uint16_t);
    uint32_t one;
    unsigned capability;
  };
  for (const Format &f :
       {Format{"f16", Inputs64::Halves, fromHalf, 0x3c00, 80},
        Format{"bf16", Inputs64::BFloats, fromBFloat, 0x3f80, 90}}) {
    for (string to : {f.name, string("u16"), string("s32")})
      c.push_back(alone(
          "set.ltu." + to + "." + f.name + (to == "s32" ? " %r0" : " %s") +
              ", %h0, %h1;",
          [=](const Inputs &i, Results &o) {
            bool is = !(f.read(i.h(0)) >= f.read(i.h(1)));
            if (to == "s32")
              o.r[0] = is ? ~0u : 0;
            else
              o.s = !is ? 0 : to == "u16" ? 0xffff : f.one;
          },
          f.inputs, Compare::Bits, f.capability));
    for (string to : {f.name + "x2", string("u32")})
      c.push_back(alone(
          "set.ge.or." + to + "." + f.name + "x2 %r0, %a0, %a1, %p2;",
          [=](const Inputs &i, Results &o) {
            for (int at : {0, 16}) {
              auto part = [&](int k) { return f.read(uint16_t(i.a(k) >> at)); };
              bool is = part(0) >= part(1) || i.p(2);
              o.r[0] |= !is ? 0 : (to == "u32" ? 0xffff : f.one) << at;
            }
          },
          f.inputs, Compare::Bits, f.capability));
    c.push_back(alone(
        "set.gt." + f.name + ".f32 %s, %a0, %a1;",
        [=](const Inputs &i, Results &o) { o.s = i.f(0) > i.f(1) ? f.one : 0; },
        Inputs64::Floats, Compare::Bits, f.capability));
  }
  c.push_back(alone(
      "set.eq.ftz.u32.f16 %r0, %h0, %h1;",
      [](const Inputs &i, Results &o) {
        auto flushed = [](float v) {
          return std::abs(v) < 0x1p-14f ? 0.0f : v;
        };
        o.r[0] =
            flushed(fromHalf(i.h(0))) == flushed(fromHalf(i.h(1))) ? ~0u : 0;
      },
      Inputs64::Halves));
}

void addNarrowPredicates(Cases &c) {
  auto less = [](float a, float b) { return a < b; };
  c.push_back(alone(
      "setp.lt.bf16 %q0, %h0, %h1;",
      [=](const Inputs &i, Results &o) {
        o.q[0] = less(fromBFloat(i.h(0)), fromBFloat(i.h(1)));
      },
      Inputs64::BFloats, Compare::Bits, 90));
  c.push_back(alone(
      "setp.lt.f16x2 %q0|%q1, %a0, %a1;",
      [=](const Inputs &i, Results &o) {
        o.q[0] = less(fromHalf(i.h(0)), fromHalf(i.h(1)));
        o.q[1] = less(fromHalf(uint16_t(i.a(0) >> 16)),
                      fromHalf(uint16_t(i.a(1) >> 16)));
      },
      Inputs64::Halves));
  c.push_back(alone(
      "setp.lt.bf16x2 %q0|%q1, %a0, %a1;",
      [=](const Inputs &i, Results &o) {
        o.q[0] = less(fromBFloat(i.h(0)), fromBFloat(i.h(1)));
        o.q[1] = less(fromBFloat(uint16_t(i.a(0) >> 16)),
                      fromBFloat(uint16_t(i.a(1) >> 16)));
      },
      Inputs64::BFloats, Compare::Bits, 90));
  c.push_back(alone(
      "selp.b32 %r0, %a0, %a1, %p2; slct.b32.s32 %r1, %a0, %a1, "
      "%a3; slct.b64.f32 %y, %x0, %x1, %a2;",
      [](const Inputs &i, Results &o) {
        o.r[0] = i.p(2) ? i.a(0) : i.a(1);
        o.r[1] = i.sa(3) >= 0 ? i.a(0) : i.a(1);
        o.y = i.f(2) >= 0 ? i.x[0] : i.x[1];
      },
      Inputs64::Floats));
}

} // namespace

void addCompareCases(Cases &cases) {
  addPredicates(cases);
  addFloatPredicates(cases);
  addNarrowPredicates(cases);
  addNarrowSets(cases);
}

} // namespace cria::emulator
