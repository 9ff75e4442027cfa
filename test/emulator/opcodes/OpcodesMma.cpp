// Products of matrices: wmma, and mma.sync of every type.
#include "test/emulator/Floats.h"
#include "test/emulator/opcodes/Opcodes.h"

namespace cria::emulator {
namespace {

using Cases = std::vector<OpcodeCase>;
using std::string;
using std::to_string;
using u32 = uint32_t;

/// How a type is made of a nibble, and its value.
struct Element {
  string name;
  int bits;
  bool isFloat, isUnsigned;

  /// The value of the nibble.
  double of(unsigned nibble) const {
    if (isUnsigned)
      return nibble;
    return isFloat ? int(nibble) - 7 : int(nibble ^ 8) - 8;
  }
  /// PTX that makes the value of nibble `i` of `from` in %e.
  string make(string from, int i) const {
    string code = "shr.u64 %w, " + from + ", " + to_string(4 * (i % 16)) +
                  "; cvt.u32.u64 %t0, %w; ";
    if (!isFloat)
      return code + "bfe." + (isUnsigned ? "u" : "s") +
             "32 %t0, %t0, 0, 4; mov.b32 %e, %t0; ";
    code += "and.b32 %t0, %t0, 15; sub.s32 %t0, %t0, 7; ";
    if (name == "f64")
      return code + "cvt.rn.f64.s32 %d, %t0; ";
    code += "cvt.rn.f32.s32 %t0, %t0; ";
    if (bits == 16)
      return code + "cvt.rn." + name +
             ".f32 %k0, %t0; mov.b32 %e, {%k0, %k0}; ";
    return code + "mov.b32 %e, %t0; ";
  }
};

const Element kHalf{"f16", 16, true, false}, kBFloat{"bf16", 16, true, false},
    kTFloat{"tf32", 32, true, false}, kFloat{"f32", 32, true, false},
    kDouble{"f64", 64, true, false}, kS8{"s8", 8, false, false},
    kU8{"u8", 8, false, true}, kS4{"s4", 4, false, false},
    kU4{"u4", 4, false, true}, kS32{"s32", 32, false, false},
    kBit{"b1", 1, false, true};

struct Dims {
  int m, n, k;
  string name() const {
    return "m" + to_string(m) + "n" + to_string(n) + "k" + to_string(k);
  }
};

/// One bit, nibble or value of a nibble: element `i` of a matrix of `count`
/// elements that the lanes hold in order, in their input `x`.
double elementAt(const Inputs *warp, int x, int count, const Element &type,
                 int i) {
  int each = count / 32;
  uint64_t bits = warp[i / each].x[x];
  if (type.bits == 1)
    return bits >> i % each & 1;
  return type.of(bits >> 4 * (i % each % 16) & 15);
}

/// Fills the warp's memory at %m + `at` with a matrix of `count` elements.
string fill(const Element &type, int x, int count, int at) {
  string from = "%x" + to_string(x), code;
  int each = count / 32, bytes = each * type.bits / 8;
  code = "mad.lo.u32 %p, %l, " + to_string(bytes) + ", %m; ";
  if (type.bits < 8) // 32 bits of each lane
    return code + "cvt.u32.u64 %t0, " + from + "; st.shared.b32 [%p+" +
           to_string(at) + "], %t0; ";
  for (int i = 0; i < each; ++i)
    code += type.make(from, i) + "st.shared.b" + to_string(type.bits) +
            " [%p+" + to_string(at + i * type.bits / 8) + "], " +
            (type.bits == 64   ? "%d"
             : type.bits == 16 ? "%k0"
                               : "%e") +
            "; ";
  return code;
}

string list(string stem, int from, int count) {
  string all = "{";
  for (int i = 0; i < count; ++i)
    all += (i ? ", " : "") + stem + to_string(from + i);
  return all + "}";
}

/// The registers of a fragment.
int registersOf(const Element &type, int elements, bool isC) {
  if (type.name == "f16" && !isC)
    return 8;
  return type.bits < 32 ? elements * type.bits / 1024 : elements / 32;
}

/// What the lanes see of D: two elements each.
void readBack(const Element &type, const Inputs *warp, unsigned lane,
              Results &out, const std::function<double(const Inputs *, int)> &d,
              int count) {
  for (int part = 0; part < 2; ++part) {
    int i = int(lane) + part * (count - 32);
    double value = d(warp, i);
    if (type.name == "f64")
      out.d(value);
    else if (type.name == "f16")
      out.r[part] = halfBits(value);
    else if (type.isFloat)
      out.f(float(value), part);
    else
      out.r[part] = u32(int(value));
  }
}

/// D = A * B + C with matrices in shared memory.
void addWmma(Cases &all, Dims dims, const Element &ab, const Element &c,
             const Element &d, string layoutA, string layoutB, string tail = "",
             string operation = "") {
  string letter = ab.bits == 64 ? "%f" : "%b";
  int a = dims.m * dims.k, b = dims.k * dims.n, cd = dims.m * dims.n;
  int regsA = registersOf(ab, a, false), regsB = registersOf(ab, b, false);
  int regsC = registersOf(c, cd, true), regsD = registersOf(d, cd, true);
  string shape = "." + dims.name();
  string types = ab.name == "f16" ? "." + d.name + "." + c.name
                                  : "." + d.name + "." + ab.name + "." +
                                        ab.name + "." + c.name;
  string fa = list(letter, 0, regsA), fb = list(letter, 8, regsB);
  string fc = list(letter, 16, regsC), fd = list(letter, 24, regsD);
  string code = ".reg .b32 %b<32>, %m, %p, %l, %e; .reg .b16 %k<2>; "
                ".reg .b64 %f<32>, %w, %d; and.b32 %l, %n, 31; "
                "shr.u32 %m, %n, 5; shl.b32 %m, %m, 11; mov.u32 %t1, pool; "
                "add.u32 %m, %m, %t1; ";
  auto move = [&](string what, string layout, const Element &type, string regs,
                  int at, int stride) {
    bool isStore = what.substr(0, 5) == "store";
    string memory = "[%m+" + to_string(at) + "]";
    code += "wmma." + what + ".sync.aligned." + layout + shape + ".shared." +
            type.name + " " + (isStore ? memory : regs) + ", " +
            (isStore ? regs : memory) + ", " + to_string(stride) + "; ";
  };
  code += fill(ab, 0, a, 0) + fill(ab, 1, b, 1024) + "bar.warp.sync -1; ";
  move("load.a", layoutA, ab, fa, 0, layoutA == "row" ? dims.k : dims.m);
  move("load.b", layoutB, ab, fb, 1024, layoutB == "row" ? dims.n : dims.k);
  code += "bar.warp.sync -1; " + fill(c, 2, cd, 0) + "bar.warp.sync -1; ";
  move("load.c", "row", c, fc, 0, dims.n);
  code += "wmma.mma" + operation + ".sync.aligned." + layoutA + "." + layoutB +
          shape + types + tail + " " + fd + ", " + fa + ", " + fb + ", " + fc +
          "; bar.warp.sync -1; ";
  move("store.d", "col", d, fd, 0, dims.m);
  code += "bar.warp.sync -1; mad.lo.u32 %p, %l, " + to_string(d.bits / 8) +
          ", %m; ";
  int last = (cd - 32) * d.bits / 8;
  if (d.bits == 64)
    code += "ld.shared.b64 %y, [%p+" + to_string(last) + "];";
  else
    for (int part = 0; part < 2; ++part)
      code += "ld.shared." + string(d.bits == 16 ? "u16" : "b32") + " %r" +
              to_string(part) + ", [%p+" + to_string(part * last) + "]; ";
  auto sum = [=](const Inputs *warp, int i) {
    int row = i % dims.m, column = i / dims.m; // D is stored by columns
    double total = elementAt(warp, 2, cd, c, row * dims.n + column);
    for (int k = 0; k < dims.k; ++k) {
      int at = layoutA == "row" ? row * dims.k + k : k * dims.m + row;
      int bt = layoutB == "row" ? k * dims.n + column : column * dims.k + k;
      double x = elementAt(warp, 0, a, ab, at),
             y = elementAt(warp, 1, b, ab, bt);
      total += operation == ".xor.popc" ? x != y : x * y;
    }
    return total;
  };
  all.push_back({code, [=](const Inputs *warp, unsigned lane, Results &out) {
                   readBack(d, warp, lane, out, sum, cd);
                 }});
}

/// Registers that mma.sync has for A, B and C, and who holds what.
struct Fragments {
  Dims dims;
  Element type;

  int each() const { return type.bits < 32 ? 32 / type.bits : 1; }
  int wordsA() const { return dims.m * dims.k / 32 / each(); }
  int wordsB() const { return dims.k * dims.n / 32 / each(); }
  int wordsC() const { return dims.m * dims.n / 32; }
  /// Element `i` of word `word` of A (x 0) or B (x 2).
  double element(const Inputs *warp, int x, int lane, int word, int i) const {
    uint64_t bits = warp[lane].x[x + (each() > 1 ? word / 2 : 0)];
    if (each() == 1)
      return type.of(bits >> 4 * word & 15);
    u32 all = u32(bits >> 32 * (word % 2)) >> (i * type.bits);
    if (type.name == "s8")
      return int8_t(all);
    return type.bits == 8   ? all & 255
           : type.bits == 1 ? all & 1
                            : type.of(all & 15);
  }
  double a(const Inputs *w, int row, int column) const {
    int word = row / 8 + column / (4 * each()) * (dims.m / 8);
    return element(w, 0, row % 8 * 4 + column / each() % 4, word,
                   column % each());
  }
  double b(const Inputs *w, int row, int column) const {
    return element(w, 2, column * 4 + row / each() % 4, row / (4 * each()),
                   row % each());
  }
};

void addMma(Cases &all, Dims dims, const Element &type, string tail = "",
            unsigned capability = 80) {
  Fragments f{dims, type};
  bool isDouble = type.bits == 64;
  string result = isDouble ? "f64" : type.isFloat ? "f32" : "s32";
  string letter = isDouble ? "%f" : "%b";
  string code = ".reg .b32 %b<24>, %e; .reg .b16 %k<2>; "
                ".reg .b64 %f<24>, %w, %d; ";
  auto make = [&](int to, int x, int count) {
    for (int i = 0; i < count; ++i) {
      string reg = letter + to_string(to + i);
      string half = "%x" + to_string(x + i / 2);
      if (f.each() > 1)
        code += "mov.b64 {" + string(i % 2 ? "_, " : "") + reg +
                (i % 2 ? "" : ", _") + "}, " + half + "; ";
      else // the device ignores the low bits of tf32
        code += type.make("%x" + to_string(x), i) + "mov.b" +
                to_string(type.bits) + " " + reg +
                (isDouble ? ", %d; "
                          : ", %e; or.b32 " + reg + ", " + reg + ", 8191; ");
    }
  };
  make(0, 0, f.wordsA());
  make(8, 2, f.wordsB());
  for (int i = 0; i < f.wordsC(); ++i)
    code += "mov.b" + to_string(isDouble ? 64 : 32) + " " + letter +
            to_string(16 + i) + ", 0; ";
  string c = list(letter, 16, f.wordsC());
  code += "mma.sync.aligned." + dims.name() + ".row.col." + result + "." +
          type.name + "." + type.name + "." + result + tail + " " + c + ", " +
          list(letter, 0, f.wordsA()) + ", " + list(letter, 8, f.wordsB()) +
          ", " + c + "; ";
  string last = letter + to_string(15 + f.wordsC());
  code += isDouble
              ? "mov.b64 %y, " + last + ";"
              : "mov.b32 %r0, " + letter + "16; mov.b32 %r1, " + last + ";";
  auto sum = [=](const Inputs *warp, unsigned lane, int part) {
    int row = int(lane) / 4 + part / 2 * 8,
        column = int(lane) % 4 * 2 + part % 2;
    double total = 0;
    for (int i = 0; i < dims.k; ++i) {
      double x = f.a(warp, row, i), y = f.b(warp, i, column);
      total += tail == ".xor.popc" ? x != y : x * y;
    }
    return total;
  };
  all.push_back({code,
                 [=](const Inputs *warp, unsigned lane, Results &out) {
                   for (int part : {0, f.wordsC() - 1})
                     if (isDouble)
                       out.d(sum(warp, lane, part));
                     else if (type.isFloat)
                       out.f(float(sum(warp, lane, part)), part != 0);
                     else
                       out.r[part != 0] = u32(int(sum(warp, lane, part)));
                 },
                 Inputs64::Integers, Compare::Bits, capability});
}

/// Small floats of 8 bits are exact products of what their bits mean.
void addNarrowMma(Cases &all, const string &type, u32 one, u32 two) {
  string code = ".reg .b32 %b<3>; mov.b32 %b0, " + to_string(one) +
                "; mov.b32 %b1, " + to_string(two) +
                "; mov.b32 %b2, 0; mma.sync.aligned.m16n8k32.row.col.f32." +
                type + "." + type +
                ".f32 {%r0, %t0, %t1, %r1}, {%b0, %b0, %b0, %b0}, {%b1, %b1}, "
                "{%b2, %b2, %b2, %b2};";
  all.push_back({code,
                 [](const Inputs *, unsigned, Results &out) {
                   out.f(-32 * 1.5f * 2);
                   out.f(-32 * 1.5f * 2, 1);
                 },
                 Inputs64::Integers, Compare::Bits, 90});
}

void addSaturating(Cases &all) {
  all.push_back(
      {".reg .b32 %b<2>; mov.b32 %b0, 0x7f7f7f7f; mov.b32 %b1, 0x7fffffff; "
       "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%r0, %r1}, "
       "{%b0}, {%b0}, {%b1, 5};",
       [](const Inputs *, unsigned, Results &out) {
         out.r[0] = INT32_MAX;
         out.r[1] = 16 * 127 * 127 + 5;
       }});
}

} // namespace

void addMmaCases(Cases &cases) {
  for (Dims dims : {Dims{16, 16, 16}, Dims{32, 8, 16}, Dims{8, 32, 16}}) {
    addWmma(cases, dims, kHalf, kFloat, kFloat, "row", "col");
    addWmma(cases, dims, kHalf, kHalf, kHalf, "col", "row");
    addWmma(cases, dims, kHalf, kHalf, kFloat, "row", "row");
    addWmma(cases, dims, kBFloat, kFloat, kFloat, "col", "col");
    addWmma(cases, dims, kS8, kS32, kS32, "row", "col");
    addWmma(cases, dims, kU8, kS32, kS32, "col", "row", ".satfinite");
  }
  addWmma(cases, {16, 16, 8}, kTFloat, kFloat, kFloat, "row", "col");
  addWmma(cases, {16, 16, 8}, kTFloat, kFloat, kFloat, "col", "row");
  addWmma(cases, {8, 8, 4}, kDouble, kDouble, kDouble, "row", "col", ".rn");
  addWmma(cases, {8, 8, 32}, kS4, kS32, kS32, "row", "col");
  addWmma(cases, {8, 8, 32}, kU4, kS32, kS32, "row", "col", ".satfinite");
  addWmma(cases, {8, 8, 128}, kBit, kS32, kS32, "row", "col", "", ".xor.popc");
  addWmma(cases, {8, 8, 128}, kBit, kS32, kS32, "row", "col", "", ".and.popc");
  for (int k : {4, 8})
    addMma(cases, {16, 8, k}, kTFloat);
  addMma(cases, {8, 8, 4}, kDouble);
  for (int k : {4, 8, 16})
    addMma(cases, {16, 8, k}, kDouble, "", 90);
  addMma(cases, {8, 8, 16}, kU8);
  addMma(cases, {8, 8, 16}, kS8);
  for (const Element &type : {kS4, kU4}) {
    addMma(cases, {8, 8, 32}, type);
    addMma(cases, {16, 8, 32}, type);
    addMma(cases, {16, 8, 64}, type);
  }
  for (string operation : {".xor.popc", ".and.popc"}) {
    addMma(cases, {8, 8, 128}, kBit, operation);
    addMma(cases, {16, 8, 128}, kBit, operation);
    addMma(cases, {16, 8, 256}, kBit, operation);
  }
  addNarrowMma(cases, "e4m3", 0xbcbcbcbc, 0x40404040);
  addNarrowMma(cases, "e5m2", 0xbebebebe, 0x40404040);
  addSaturating(cases);
}

} // namespace cria::emulator
