// Calls: by address, of a function by itself, and of functions that every
// device has.
#include "test/emulator/Device.h"

#include <gmock/gmock.h>

namespace cria::emulator {
namespace {

/// A module with functions of one integer, a table of them, and the kernel k.
std::string withFunctions(const std::string &parameters,
                          const std::string &body) {
  std::string text = kernelPtx(parameters, body);
  return text.insert(text.find(".visible"), R"(
.func (.param .b32 r) twice(.param .b32 a);
.global .align 8 .u64 table[2] = {twice, square};
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.global .align 1 .b8 format[21] = {37, 53, 100, 32, 37, 115, 32, 37, 108, 108, 120, 32, 37, 46, 49, 102, 32, 37, 37, 10};
.global .align 1 .b8 word[3] = {104, 105};
.func (.param .b32 r) twice(.param .b32 a)
{
  .reg .b32 %v;
  ld.param.b32 %v, [a];
  shl.b32 %v, %v, 1;
  st.param.b32 [r], %v;
  ret;
}
.func (.param .b32 r) square(.param .b32 a)
{
  .reg .b32 %v;
  ld.param.b32 %v, [a];
  mul.lo.u32 %v, %v, %v;
  st.param.b32 [r], %v;
  ret;
}
.func (.param .b32 r) sum(.param .b32 a)
{
  .reg .b32 %v, %w;
  .reg .pred %q;
  ld.param.b32 %v, [a];
  setp.eq.u32 %q, %v, 0;
  @%q bra done;
  sub.u32 %w, %v, 1;
  {
    .param .b32 x;
    .param .b32 y;
    st.param.b32 [x], %w;
    call (y), sum, (x);
    ld.param.b32 %w, [y];
  }
  add.u32 %v, %v, %w;
done:
  st.param.b32 [r], %v;
  ret;
}
)");
}

/// Calls the function at %f with %v; the result is in %v.
const char kCallByAddress[] = R"({
  .param .b32 x;
  .param .b32 y;
  st.param.b32 [x], %v;
  type: .callprototype (.param .b32 _) _ (.param .b32 _);
  call (y), %f, (x), type;
  ld.param.b32 %v, [y];
})";

const char kRegisters[] = R"(
  .reg .b32 %v, %n;
  .reg .b64 %out, %f, %p, %q;
  ld.param.u64 %out, [out];
  mov.u32 %n, %tid.x;
  mad.wide.u32 %out, %n, 4, %out;
)";

TEST(Calls, ByAddressFindTheFunction) {
  TestDevice device;
  std::string body = std::string(kRegisters) + R"(
  and.b32 %v, %n, 1;
  mad.wide.u32 %f, %v, 8, table;
  ld.global.u64 %f, [%f];
  add.u32 %v, %n, 5;
)" + kCallByAddress + " st.global.u32 [%out], %v; ret;";
  ASSERT_EQ(device.load(withFunctions(".param .u64 out", body)), "");
  auto out = device.allocate(32 * 4);
  device.run("k", {1}, {32}, 0, out);
  auto values = device.download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(values[i], i % 2 ? (i + 5) * (i + 5) : (i + 5) * 2);
}

TEST(Calls, ByAddressOfNoFunctionAreFound) {
  TestDevice device;
  std::string body = std::string(kRegisters) +
                     "mov.u64 %f, table; mov.b32 %v, 1;" + kCallByAddress +
                     " st.global.u32 [%out], %v; ret;";
  ASSERT_EQ(device.load(withFunctions(".param .u64 out", body)), "");
  LaunchResult result = device.launch("k", {1}, {1}, 0, device.allocate(4));
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline, testing::HasSubstr("no function"));
  EXPECT_THAT(result.finding->details, testing::HasSubstr("variable 'table'"));
}

const char kRecursion[] = R"(
  .param .b32 x;
  .param .b32 y;
  ld.param.u32 %v, [n];
  st.param.b32 [x], %v;
  call (y), sum, (x);
  ld.param.b32 %v, [y];
  st.global.u32 [%out], %v;
  ret;
)";

TEST(Calls, OfAFunctionByItselfEnd) {
  TestDevice device;
  ASSERT_EQ(device.load(withFunctions(".param .u64 out, .param .u32 n",
                                      std::string(kRegisters) + kRecursion)),
            "");
  auto out = device.allocate(4);
  device.run("k", {1}, {1}, 0, out, 100u);
  EXPECT_EQ(device.download<uint32_t>(out, 1)[0], 5050u);
  LaunchResult result = device.launch("k", {1}, {1}, 0, out, 1u << 30);
  ASSERT_TRUE(result.finding);
  EXPECT_THAT(result.finding->headline,
              testing::HasSubstr("a recursion is too deep"));
}

TEST(Calls, OfPrintfKeepTheOrderOfBlocks) {
  TestDevice device;
  std::string body = std::string(kRegisters) + R"(
  .local .align 8 .b8 list[32];
  .param .b64 x;
  .param .b64 y;
  .param .b32 z;
  mov.u64 %p, list;
  mov.u32 %v, %ctaid.x;
  st.local.u32 [%p], %v;
  mov.u64 %q, word;
  st.local.u64 [%p+8], %q;
  st.local.u64 [%p+16], 0x123456789abc;
  st.local.f64 [%p+24], 0d3FF8000000000000;
  mov.u64 %q, format;
  st.param.b64 [x], %q;
  st.param.b64 [y], %p;
  call (z), vprintf, (x, y);
  ld.param.b32 %v, [z];
  st.global.u32 [%out], %v;
  ret;
)";
  ASSERT_EQ(device.load(withFunctions(".param .u64 out", body)), "");
  auto out = device.allocate(4);
  device.checks.global = false; // all blocks store to one place
  for (uint64_t seed = 0; seed < 3; ++seed) {
    device.seed = seed;
    LaunchResult result = device.launch("k", {3}, {1}, 0, out);
    EXPECT_FALSE(result.finding) << result.finding->headline;
    EXPECT_EQ(result.printed, "    0 hi 123456789abc 1.5 %\n"
                              "    1 hi 123456789abc 1.5 %\n"
                              "    2 hi 123456789abc 1.5 %\n");
    EXPECT_EQ(device.download<uint32_t>(out, 1)[0], 4u);
  }
}

/// Allocates 16 bytes at %p; `body` may free them.
LaunchResult launchWithHeap(const std::string &body) {
  TestDevice device;
  EXPECT_EQ(
      device.load(withFunctions(".param .u64 out", std::string(kRegisters) + R"(
  .param .b64 x;
  .param .b64 y;
  st.param.b64 [x], 16;
  call (y), malloc, (x);
  ld.param.b64 %p, [y];
  st.param.b64 [x], %p;
)" + body + " ret;")),
      "");
  return device.launch("k", {4}, {64}, 0, device.allocate(64 * 4));
}

TEST(Calls, OfMallocGiveMemoryThatIsChecked) {
  EXPECT_FALSE(launchWithHeap("st.u32 [%p+12], %n; ld.u32 %v, [%p+12]; "
                              "call free, (x);")
                   .finding);
  const std::pair<std::string, std::string> wrong[] = {
      {"st.u32 [%p+16], 1;", "out of bounds"},
      {"call free, (x); ld.u32 %v, [%p];", "use after free"},
      {"call free, (x); call free, (x);", "double free"}};
  for (auto &[body, message] : wrong) {
    LaunchResult result = launchWithHeap(body);
    ASSERT_TRUE(result.finding) << body;
    EXPECT_THAT(result.finding->headline, testing::HasSubstr(message));
  }
}

} // namespace
} // namespace cria::emulator
