// No value of up to 8 bytes is ever seen in part, nor is an element of a
// vector, whatever the instructions that write and read it: two workers write
// and read the same values as fast as they can.
#include "test/emulator/Device.h"

namespace cria::emulator {
namespace {

/// How values are written or read: PTX that moves %value to or from [%at], with
/// its halves in %low and %f (a float) for writers.
struct Way {
  const char *name, *code;
};

const Way kWriters[] = {
    {"Weak", "mov.b64 %value, {%low, %f}; st.global.b64 [%at], %value;"},
    {"WeakGeneric", "mov.b64 %value, {%low, %f}; st.b64 [%at], %value;"},
    {"WeakVector", "mov.b64 %value, {%low, %f};"
                   " st.global.v2.b64 [%at], {%value, %value};"},
    {"Cached", "mov.b64 %value, {%low, %f}; st.global.cg.b64 [%at], %value;"},
    {"Volatile",
     "mov.b64 %value, {%low, %f}; st.volatile.global.b64 [%at], %value;"},
    {"VolatileVector", "mov.b64 %value, {%low, %f};"
                       " st.volatile.global.v2.b64 [%at], {%value, %value};"},
    {"VolatilePair", "st.volatile.global.v2.b32 [%at], {%low, %f};"},
    {"Relaxed",
     "mov.b64 %value, {%low, %f}; st.relaxed.gpu.global.b64 [%at], %value;"},
    {"Release",
     "mov.b64 %value, {%low, %f}; st.release.gpu.global.b64 [%at], %value;"},
    {"Exchange",
     "mov.b64 %value, {%low, %f}; atom.global.exch.b64 %old, [%at], %value;"},
    {"CompareAndSwap",
     "mov.b64 %value, {%low, %f}; ld.volatile.global.b64 %old, [%at];"
     " atom.global.cas.b64 %old, [%at], %old, %value;"},
    {"Max", "mov.b64 %value, {%low, %f}; red.global.max.u64 [%at], %value;"},
};

const Way kReaders[] = {
    {"Weak", "ld.global.b64 %value, [%at];"},
    {"WeakGeneric", "ld.b64 %value, [%at];"},
    {"WeakVector", "ld.global.v2.b64 {%value, %old}, [%at];"},
    {"Volatile", "ld.volatile.global.b64 %value, [%at];"},
    {"VolatileVector", "ld.volatile.global.v2.b64 {%value, %old}, [%at];"},
    {"VolatilePair", "ld.volatile.global.v2.b32 {%low, %high}, [%at];"
                     " mov.b64 %value, {%low, %high};"},
    {"Relaxed", "ld.relaxed.gpu.global.b64 %value, [%at];"},
    {"Acquire", "ld.acquire.gpu.global.b64 %value, [%at];"},
    {"Or", "atom.global.or.b64 %value, [%at], 0;"},
};

/// The first block writes pairs of a number and the same number as a float,
/// until it has written so many; the second reads and counts pairs that do not
/// match. A thread has a value of its own, in a line of the cache it shares.
std::string stressPtx(const Way &writer, const Way &reader) {
  std::string code = R"(
  .reg .b32 %low, %high, %i, %end, %torn, %f, %t, %g;
  .reg .b64 %at, %value, %old, %out, %step;
  .reg .f32 %x;
  .reg .pred %q, %reads;
  ld.param.u64 %at, [values];
  ld.param.u64 %out, [torn];
  ld.param.u32 %end, [rounds];
  mov.u32 %t, %tid.x;
  mad.wide.u32 %at, %t, 16, %at;
  mov.u32 %i, 0;
  mov.u32 %torn, 0;
  mov.u32 %g, %ctaid.x;
  setp.ne.u32 %reads, %g, 0;
  @%reads bra read;
write:
  add.u32 %i, %i, 1;
  mov.u32 %low, %i;
  cvt.rn.f32.u32 %x, %i;
  mov.b32 %f, %x;
  WRITER
  setp.lt.u32 %q, %i, %end;
  @%q bra write;
  ret;
read:
  READER
  mov.b64 {%low, %high}, %value;
  cvt.rn.f32.u32 %x, %low;
  mov.b32 %f, %x;
  setp.ne.u32 %q, %f, %high;
  @%q add.u32 %torn, %torn, 1;
  add.u32 %i, %i, 1;
  setp.lt.u32 %q, %i, %end;
  @%q bra read;
  mad.wide.u32 %out, %t, 4, %out;
  st.global.u32 [%out], %torn;
  ret;
)";
  code.replace(code.find("WRITER"), 6, writer.code);
  code.replace(code.find("READER"), 6, reader.code);
  return kernelPtx(".param .u64 values, .param .u64 torn, .param .u32 rounds",
                   code);
}

uint32_t countTorn(const Way &writer, const Way &reader, bool checks) {
  constexpr uint32_t kThreads = 4, kRounds = 300000;
  TestDevice device;
  device.options.checks = checks;
  // These are races, and the race in global memory is none of this test.
  device.options.global = false;
  device.checks = {checks, checks, checks, false, checks};
  EXPECT_EQ(device.load(stressPtx(writer, reader)), "")
      << writer.name << " " << reader.name;
  auto values = device.upload(std::vector<uint64_t>(2 * kThreads));
  auto torn = device.upload(std::vector<uint32_t>(kThreads));
  device.run("k", {2}, {kThreads}, 0, values, torn, kRounds);
  uint32_t sum = 0;
  for (uint32_t count : device.download<uint32_t>(torn, kThreads))
    sum += count;
  return sum;
}

class Tearing : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Checks, Tearing, testing::Bool(),
                         [](const auto &info) {
                           return std::string(info.param ? "On" : "Off");
                         });

TEST_P(Tearing, NoWriterIsSeenInPart) {
  for (const Way &writer : kWriters)
    EXPECT_EQ(countTorn(writer, kReaders[3], GetParam()), 0u) << writer.name;
}

TEST_P(Tearing, NoReaderSeesParts) {
  for (const Way &reader : kReaders)
    EXPECT_EQ(countTorn(kWriters[4], reader, GetParam()), 0u) << reader.name;
}

} // namespace
} // namespace cria::emulator
