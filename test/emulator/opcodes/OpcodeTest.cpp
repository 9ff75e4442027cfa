// Every row of the table of instructions against C++.
#include "test/emulator/Device.h"
#include "test/emulator/opcodes/Opcodes.h"
#include "tools/emulator/translate/Form.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

namespace cria::emulator {
namespace {

constexpr unsigned kBlocks = 16;

/// What stands before and after the code of a case.
const char kBefore[] = R"(
  .shared .align 128 .b8 pool[$poolBytes];
  .local .align 16 .b8 own[64];
  .reg .b64 %x<4>, %y, %z, %g, %in, %out, %i64;
  .reg .b32 %a<4>, %r<2>, %t<4>, %n, %sh32, %i, %o<2>;
  .reg .b64 %sh;
  .reg .b16 %h<4>, %s;
  .reg .pred %p<4>, %q<2>;
  ld.param.u64 %in, [in];
  ld.param.u64 %g, [scratch];
  ld.param.u64 %out, [out];
  mov.u32 %n, %tid.x;
  mov.u32 %i, %ctaid.x;
  mad.lo.u32 %i, %i, $threads, %n;
  mad.wide.u32 %g, %i, 64, %g;
  mad.wide.u32 %in, %i, 32, %in;
  mad.wide.u32 %out, %i, 32, %out;
  mov.u64 %sh, pool;
  mul.wide.u32 %i64, %n, 64;
  add.u64 %sh, %sh, %i64;
  mov.b64 %y, 0;
  mov.b64 %z, 0;
  mov.b32 %r0, 0;
  mov.b32 %r1, 0;
  mov.b16 %s, 0;
  setp.ne.u32 %q0, %n, %n;
  setp.ne.u32 %q1, %n, %n;
)";

const char kAfter[] = R"(
  st.global.u64 [%out], %y;
  st.global.v2.u32 [%out+8], {%r0, %r1};
  cvt.u32.u16 %o0, %s;
  st.global.u32 [%out+16], %o0;
  selp.b32 %o0, 1, 0, %q0;
  selp.b32 %o1, 1, 0, %q1;
  st.global.v2.u32 [%out+24], {%o0, %o1};
  ret;
)";

/// Functions that cases may call.
const char kCallees[] =
    R"(.func (.param .b32 result) twice(.param .b32 argument)
{
  .reg .b32 %v;
  ld.param.b32 %v, [argument];
  add.u32 %v, %v, %v;
  st.param.b32 [result], %v;
  ret;
}
.func (.param .align 8 .b8 result[16]) swap(.param .align 8 .b8 argument[16])
{
  .reg .b32 %v<2>;
  .reg .b64 %w;
  ld.param.v2.b32 {%v0, %v1}, [argument];
  ld.param.b64 %w, [argument+8];
  st.param.b64 [result], %w;
  st.param.v2.b32 [result+8], {%v1, %v0};
  ret;
}
)";

std::string ptxOf(const OpcodeCase &one) {
  std::string body = kBefore;
  for (int i = 0; i < 4; ++i) {
    std::string k = std::to_string(i), x = "%x" + k;
    body += "  ld.global.u64 " + x + ", [%in+" + std::to_string(8 * i) +
            "];\n  cvt.u32.u64 %a" + k + ", " + x + ";\n  cvt.u16.u64 %h" + k +
            ", " + x + ";\n  and.b32 %t0, %a" + k + ", 1;\n  setp.ne.u32 %p" +
            k + ", %t0, 0;\n";
  }
  body += "  " + one.code + kAfter;
  body.replace(body.find("$poolBytes"), 10, std::to_string(64 * one.threads));
  body.replace(body.find("$threads"), 8, std::to_string(one.threads));
  std::string target = one.capability == 90 ? "sm_90a" : "sm_80";
  std::string text = kernelPtx(
      ".param .u64 in, .param .u64 out, .param .u64 scratch", body, target);
  size_t at = text.find(".visible");
  text.replace(text.find("8.0"), 3, "8.4");
  return text.insert(at, kCallees);
}

const std::vector<OpcodeCase> &allCases() {
  static const auto cases = [] {
    std::vector<OpcodeCase> all;
    for (auto add :
         {addIntegerCases, addBitCases, addFloatCases, addNarrowFloatCases,
          addConvertCases, addCompareCases, addMemoryCases, addAtomicCases,
          addVideoCases, addWarpCases, addMatrixCases, addMmaCases,
          addAsyncCases, addWarpgroupCases})
      add(all);
    return all;
  }();
  return cases;
}

// Values at which instructions go wrong.
const std::vector<uint64_t> kIntegers = {
    0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7fff, 0x8000,
    0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
    0x100000000, 0x7fffffffffffffff, 0x8000000000000000, ~uint64_t(0),
    uint64_t(-2),
    // Halfway between two floats, and next
    // to it.
    0x101, 0x103, 0x801, 0x803, 0x1000001, 0x1000003, 0x20000000000001,
    0x20000000000003, 0x4040000000000000, 0x4040000000000001};
const std::vector<uint64_t> kSmall = {0,  1,   5,   8,   15,  16, 17,
                                      31, 32,  33,  40,  63,  64, 65,
                                      96, 127, 128, 255, 256, 300};
const std::vector<uint64_t> kFloats = {
    0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
    0x7fc00000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
    0xff7fffff, 0x3f000000, 0x3fc00000, 0x40200000, 0x477fe000, 0x477ff000,
    0x33000000, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000,
    0x38800000, 0x387fe000, 0x3f808000, 0x3f818000, 0x40490fdb, 0x3f801000,
    0x3f801001, 0x3f803000, 0xbf803000, 0x33000001, 0x477fefff, 0x43e80000,
    0x7f7ff000, 0x7f7fefff};
const std::vector<uint64_t> kDoubles = {
    0, uint64_t(1) << 63, 0x3ff0000000000000, 0xbff0000000000000,
    0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 1,
    0x0010000000000000, 0x7fefffffffffffff, 0x3fe0000000000000,
    0x4004000000000000, 0x41dfffffffc00000, 0x41e0000000000000,
    0x43e0000000000000, 0x47efffffe0000000, 0x47effffff0000000,
    0x3ff0000010000000, 0x36a0000000000000,
    // Halfway between two f16 or bf16, and
    // next to it.
    0x3ff0020000000000, 0x3ff0020000000001, 0xbff0060000000000,
    0x3ff0100000000000, 0x3ff0100000000001, 0x3e60000000000000,
    0x3e60000000000001, 0x40effdffffffffff, 0x40effe0000000000,
    0x47efefffffffffff, 0x3810000000000001};
const std::vector<uint64_t> kHalves = {
    0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 1,
    0x03ff, 0x0400, 0x7bff, 0x3800, 0x3555, 0x4000, 0x3c01, 0x1400};
const std::vector<uint64_t> kBfloats = {
    0,      0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 1,
    0x007f, 0x0080, 0x7f7f, 0x3f00, 0x3eaa, 0x4000, 0x3f81, 0x3b00};
const std::vector<uint64_t> &corners(Inputs64 kind) {
  switch (kind) {
  case Inputs64::Integers:
    return kIntegers;
  case Inputs64::Small:
    return kSmall;
  case Inputs64::Floats:
    return kFloats;
  case Inputs64::Doubles:
    return kDoubles;
  case Inputs64::Halves:
    return kHalves;
  case Inputs64::BFloats:
    break;
  }
  return kBfloats;
}

uint64_t pick(Inputs64 kind, std::mt19937_64 &random) {
  const auto &values = corners(kind);
  auto corner = [&] { return values[random() % values.size()]; };
  if (kind == Inputs64::Halves || kind == Inputs64::BFloats)
    return random() % 4 == 0 ? random() & 0xbfffbfff
                             : corner() | corner() << 16 | corner() << 32;
  if (kind == Inputs64::Small || random() % 2)
    return corner();
  if (kind == Inputs64::Floats && random() % 2) // in reach of small formats
    return (random() & 0x807fffff) | (100 + random() % 50) << 23;
  if (kind == Inputs64::Doubles && random() % 2)
    return (random() & 0x800fffffffffffff) | (980 + random() % 70) << 52;
  if (kind == Inputs64::Floats && random() % 2)
    return Inputs::as<uint32_t>(float(int(random() % 4001) - 2000) /
                                float(1 << random() % 12));
  if (kind == Inputs64::Doubles && random() % 2)
    return Inputs::as<uint64_t>(double(int64_t(random()) >> random() % 60) /
                                1024);
  return random();
}

bool sameFloat(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         (a == b && std::signbit(a) == std::signbit(b));
}

float floatOf(uint32_t bits) { return Inputs::as<float>(bits); }

/// Approximate functions: to 2^-21 of the result, or its neighbourhood.
bool isClose(float a, float b) {
  return sameFloat(a, b) || std::abs(a - b) <= std::abs(b) * 5e-7f + 2e-38f;
}

bool isNan(uint32_t bits, bool isBFloat) {
  return (bits & 0x7fff) > (isBFloat ? 0x7f80u : 0x7c00u);
}

bool sameNarrow(uint32_t a, uint32_t b, Compare how, bool isBFloat) {
  bool pair = how == Compare::HalfPair || how == Compare::BFloatPair;
  for (int half = 0; half <= int(pair); ++half) {
    uint32_t x = a >> (16 * half) & 0xffff, y = b >> (16 * half) & 0xffff;
    if (x != y && !(isNan(x, isBFloat) && isNan(y, isBFloat)))
      return false;
  }
  return true;
}

bool same(const Results &a, const Results &b, Compare how) {
  bool isBFloat = how == Compare::BFloat || how == Compare::BFloatPair;
  if (a.q[0] != b.q[0] || a.q[1] != b.q[1])
    return false;
  switch (how) {
  case Compare::Float:
    return sameFloat(floatOf(a.r[0]), floatOf(b.r[0])) &&
           sameFloat(floatOf(a.r[1]), floatOf(b.r[1]));
  case Compare::Approx:
    return isClose(floatOf(a.r[0]), floatOf(b.r[0]));
  case Compare::Double:
    return sameFloat(Inputs::as<double>(a.y), Inputs::as<double>(b.y));
  case Compare::Half:
  case Compare::BFloat:
    return sameNarrow(a.s, b.s, how, isBFloat);
  case Compare::HalfPair:
  case Compare::BFloatPair:
    return sameNarrow(a.r[0], b.r[0], how, isBFloat);
  case Compare::Bits:
    break;
  }
  return a.y == b.y && a.r[0] == b.r[0] && a.r[1] == b.r[1] && a.s == b.s;
}

std::string hex(const Inputs &inputs) {
  char text[96];
  snprintf(text, sizeof text, "%llx %llx %llx %llx",
           (unsigned long long)inputs.x[0], (unsigned long long)inputs.x[1],
           (unsigned long long)inputs.x[2], (unsigned long long)inputs.x[3]);
  return text;
}

std::string hex(const Results &results) {
  char text[96];
  snprintf(text, sizeof text, "y %llx r %x %x s %x q %u %u",
           (unsigned long long)results.y, results.r[0], results.r[1], results.s,
           results.q[0], results.q[1]);
  return text;
}

/// Runs one case on many inputs; adds the rows of the table that it used.
void runCase(const OpcodeCase &one, TestDevice &device,
             std::set<const Form *> &used) {
  ASSERT_EQ(device.load(ptxOf(one)), "") << one.code;
  used.insert(device.program->usedForms().begin(),
              device.program->usedForms().end());
  std::mt19937_64 random(1);
  std::vector<Inputs> inputs(one.threads * kBlocks);
  for (Inputs &thread : inputs)
    for (uint64_t &value : thread.x)
      value = pick(one.inputs, random);
  auto in = device.upload(inputs), out = device.allocate(inputs.size() * 32),
       scratch = device.allocate(inputs.size() * 64);
  device.run("k", {kBlocks}, {one.threads}, 0, in, out, scratch);
  auto words = device.download<uint64_t>(out, inputs.size() * 4);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Results expected, got;
    one.reference(&inputs[i / 32 * 32], unsigned(i % 32), expected);
    got.y = words[4 * i];
    std::memcpy(got.r, &words[4 * i + 1], 8);
    got.s = uint32_t(words[4 * i + 2]);
    std::memcpy(got.q, &words[4 * i + 3], 8);
    ASSERT_TRUE(same(got, expected, one.compare))
        << one.code << "\ninputs " << hex(inputs[i]) << "\ngot      "
        << hex(got) << "\nexpected " << hex(expected);
  }
  for (uint64_t address : {in, out, scratch})
    device.memory.free(address, Allocation::Device);
}

TEST(Opcodes, AgreeWithCpp) {
  TestDevice ampere(80), hopper(90);
  std::set<const Form *> used;
  for (const OpcodeCase &one : allCases())
    runCase(one, one.capability == 90 ? hopper : ampere, used);
  for (const Form &form : allForms())
    EXPECT_TRUE(used.count(&form))
        << "no test has " << form.opcode << " " << form.modifiers;
}

/// The instructions are PTX, not what we take for PTX.
TEST(Opcodes, ArePtx) {
  if (std::system("ptxas --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "ptxas is not installed";
  auto path = std::filesystem::temp_directory_path() /
              ("cria-opcodes-" + std::to_string(getpid()) + ".ptx");
  for (unsigned capability : {80u, 90u}) {
    std::string all;
    int number = 0;
    for (const OpcodeCase &one : allCases()) {
      if (one.capability != capability)
        continue;
      std::string text = ptxOf(one);
      size_t at = text.find(all.empty() ? ".version" : ".visible");
      text = text.substr(at);
      size_t name = text.find("entry k(");
      all += text.replace(name, 7, "entry k" + std::to_string(number++));
    }
    std::ofstream(path) << all;
    std::string command = std::string("ptxas -O0 -arch=") +
                          (capability == 90 ? "sm_90a" : "sm_80") +
                          " -o /dev/null " + path.string();
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::filesystem::remove(path);
}

} // namespace
} // namespace cria::emulator
