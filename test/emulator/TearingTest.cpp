// No access of up to 8 bytes is ever seen in part, nor is an element of a wider
// vector. If LLVM splits a store in two, another core sees a part of it only if
// it reads between the two instructions, which is too rare for a test. So the
// kernel is executed one machine instruction at a time (the trap flag of x86),
// and the test reads or changes the memory after each instruction.
#include "test/emulator/Device.h"

#include <csignal>
#include <utility>

namespace cria::emulator {
namespace {

/// A number, and the same number as a float after it: whether a value is whole
/// can be told from the value.
struct Pair {
  uint32_t number;
  float same;

  static Pair of(uint32_t number) { return {number, float(number)}; }
  bool isWhole() const { return same == float(number); }
};

/// What happens after each machine instruction.
struct Stepping {
  volatile uint64_t *at = nullptr;
  bool changes = false; ///< writes another pair now and then; else looks
  uint32_t random = 1, number = 0;
  uint64_t steps = 0, torn = 0;
} stepping;

void step(int) {
  ++stepping.steps;
  stepping.random = stepping.random * 1664525 + 1013904223;
  if (!stepping.changes) {
    uint64_t value = *stepping.at;
    Pair pair;
    std::memcpy(&pair, &value, 8);
    stepping.torn += !pair.isWhole();
  } else if (stepping.random >> 30 == 0) {
    Pair pair = Pair::of(++stepping.number);
    uint64_t value;
    std::memcpy(&value, &pair, 8);
    stepping.at[0] = stepping.at[1] = value;
  }
}

/// Executes a kernel one machine instruction at a time.
KernelCode stepped = nullptr;
void runInSteps(Thread *thread, const char *parameters) {
  asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
  stepped(thread, parameters);
  asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
}

/// PTX that moves the pair %value, also as %low and %f, to or from [%at].
struct Way {
  const char *name, *code;
};

const Way kWriters[] = {
    {"Weak", "st.global.b64 [%at], %value;"},
    {"WeakGeneric", "st.b64 [%at], %value;"},
    {"WeakPair", "st.global.v2.b32 [%at], {%low, %f};"},
    {"WeakVector", "st.global.v2.b64 [%at], {%value, %value};"},
    {"Cached", "st.global.cg.b64 [%at], %value;"},
    {"Volatile", "st.volatile.global.b64 [%at], %value;"},
    {"VolatilePair", "st.volatile.global.v2.b32 [%at], {%low, %f};"},
    {"VolatileVector", "st.volatile.global.v2.b64 [%at], {%value, %value};"},
    {"Relaxed", "st.relaxed.gpu.global.b64 [%at], %value;"},
    {"Release", "st.release.gpu.global.b64 [%at], %value;"},
    {"Exchange", "atom.global.exch.b64 %old, [%at], %value;"},
    {"CompareAndSwap", "ld.volatile.global.b64 %old, [%at];"
                       " atom.global.cas.b64 %old, [%at], %old, %value;"},
    {"Max", "red.global.max.u64 [%at], %value;"},
};

const Way kReaders[] = {
    {"Weak", "ld.global.b64 %value, [%at]; mov.b64 {%low, %f}, %value;"},
    {"WeakGeneric", "ld.b64 %value, [%at]; mov.b64 {%low, %f}, %value;"},
    {"WeakPair", "ld.global.v2.b32 {%low, %f}, [%at];"},
    {"WeakHalves", "ld.global.v4.b16 {%h0, %h1, %h2, %h3}, [%at];"
                   " mov.b32 %low, {%h0, %h1}; mov.b32 %f, {%h2, %h3};"},
    {"WeakVector", "ld.global.v2.b64 {%old, %value}, [%at];"
                   " mov.b64 {%low, %f}, %value;"},
    {"Cached", "ld.global.cg.b64 %value, [%at]; mov.b64 {%low, %f}, %value;"},
    {"Volatile",
     "ld.volatile.global.b64 %value, [%at]; mov.b64 {%low, %f}, %value;"},
    {"VolatilePair", "ld.volatile.global.v2.b32 {%low, %f}, [%at];"},
    {"VolatileVector", "ld.volatile.global.v2.b64 {%old, %value}, [%at];"
                       " mov.b64 {%low, %f}, %value;"},
    {"Relaxed",
     "ld.relaxed.gpu.global.b64 %value, [%at]; mov.b64 {%low, %f}, %value;"},
    {"Acquire",
     "ld.acquire.gpu.global.b64 %value, [%at]; mov.b64 {%low, %f}, %value;"},
    {"Or", "atom.global.or.b64 %value, [%at], 0; mov.b64 {%low, %f}, %value;"},
};

/// One thread writes `count` pairs, or reads as many and counts those that are
/// not whole. The numbers are no plain counter, whose pair LLVM would make in a
/// way that it does not split.
std::string kernelOf(const Way &way, bool writes) {
  std::string code = R"(
  .reg .b16 %h0, %h1, %h2, %h3;
  .reg .b32 %low, %f, %i, %end, %key, %torn, %g;
  .reg .b64 %at, %value, %old, %out;
  .reg .f32 %x;
  .reg .pred %q;
  ld.param.u64 %at, [values];
  ld.param.u64 %out, [torn];
  ld.param.u32 %end, [count];
  ld.param.u32 %key, [key];
  mov.u32 %i, 0;
  mov.u32 %torn, 0;
again:
  add.u32 %i, %i, 1;
  ACCESS
  st.global.u32 [%out], %torn; // may be [%at], so that no load is moved out
  setp.lt.u32 %q, %i, %end;
  @%q bra again;
  ret;
)";
  std::string access = way.code;
  if (writes)
    access = "xor.b32 %low, %i, %key; cvt.rn.f32.u32 %x, %low;"
             " mov.b32 %f, %x; mov.b64 %value, {%low, %f}; " +
             access;
  else
    access += " cvt.rn.f32.u32 %x, %low; mov.b32 %g, %x;"
              " setp.ne.u32 %q, %g, %f; @%q add.u32 %torn, %torn, 1;";
  code.replace(code.find("ACCESS"), 6, access);
  return kernelPtx(".param .u64 values, .param .u64 torn, .param .u32 count,"
                   " .param .u32 key",
                   code);
}

/// How many values were seen in part while one thread wrote, or read, so.
uint64_t countTorn(const Way &way, bool writes, bool checks) {
  TestDevice device;
  device.options.checks = checks;
  // The notes of races would take most of the steps.
  device.options.global = false;
  device.checks = {checks, checks, false, false, checks};
  device.workers = 1; // the thread that takes the steps
  EXPECT_EQ(device.load(kernelOf(way, writes)), "") << way.name;
  auto values = device.upload(std::vector<Pair>(2, Pair::of(0)));
  auto torn = device.upload(std::vector<uint32_t>(1));
  const uint32_t count = checks ? 10 : 50; // a check is many instructions
  uint32_t key = 256;
  auto run = [&] { device.run("k", {1}, {1}, 0, values, torn, count, key); };
  run(); // translates and compiles
  stepping = {reinterpret_cast<volatile uint64_t *>(values), !writes};
  stepped = std::exchange(device.program->find("k")->code, runInSteps);
  struct sigaction action = {}, before;
  action.sa_handler = step;
  sigaction(SIGTRAP, &action, &before);
  run();
  sigaction(SIGTRAP, &before, nullptr);
  EXPECT_GT(stepping.steps, 5 * count);
  return stepping.torn + device.download<uint32_t>(torn, 1)[0];
}

class Tearing : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Checks, Tearing, testing::Bool(),
                         [](const auto &info) {
                           return std::string(info.param ? "On" : "Off");
                         });

TEST_P(Tearing, NoWriterIsSeenInPart) {
  for (const Way &way : kWriters)
    EXPECT_EQ(countTorn(way, true, GetParam()), 0u) << way.name;
}

TEST_P(Tearing, NoReaderSeesParts) {
  for (const Way &way : kReaders)
    EXPECT_EQ(countTorn(way, false, GetParam()), 0u) << way.name;
}

} // namespace
} // namespace cria::emulator
