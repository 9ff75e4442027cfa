// What a module is loaded from: linked PTX, fat binaries, files; and libraries,
// which each context loads when it first needs them.
#include "tools/emulator/driver/Api.h"
#include "tools/emulator/driver/Fatbin.h"

#include "llvm/Support/Compression.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cria::emulator {
namespace {

const std::string kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Stores `value` to the address of its parameter.
std::string storePtx(const std::string &name, int value) {
  return kHead + ".visible .entry " + name + "(.param .u64 p)\n{\n" +
         ".reg .b64 %a;\n.reg .b32 %v;\nld.param.u64 %a, [p];\nmov.u32 %v, " +
         std::to_string(value) + ";\nst.global.u32 [%a], %v;\nret;\n}\n";
}

/// Calls `twice` of another text, and reads its variable `bias`; adds a
/// variable of its own that has the same name in both texts.
const std::string kCaller = kHead + R"(
.extern .global .u32 bias;
.extern .func (.param .b32 r) twice(.param .b32 x);
.global .u32 own = 100;
.visible .entry k(.param .u64 p, .param .u32 x)
{
  .reg .b64 %a;
  .reg .b32 %v, %w;
  ld.param.u64 %a, [p];
  ld.param.u32 %v, [x];
  {
  .param .b32 in;
  .param .b32 out;
  st.param.b32 [in], %v;
  call.uni (out), twice, (in);
  ld.param.b32 %v, [out];
  }
  ld.global.u32 %w, [bias];
  add.u32 %v, %v, %w;
  ld.global.u32 %w, [own];
  add.u32 %v, %v, %w;
  st.global.u32 [%a], %v;
  ret;
}
)";
const std::string kCallee = kHead + R"(
.visible .global .u32 bias = 7;
.global .u32 own = 1000;
.visible .func (.param .b32 r) twice(.param .b32 x)
{
  .reg .b32 %v, %w;
  ld.param.u32 %v, [x];
  add.u32 %v, %v, %v;
  ld.global.u32 %w, [own];
  add.u32 %v, %v, %w;
  st.param.b32 [r], %v;
  ret;
}
)";

class Images : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&result, 4), CUDA_SUCCESS);
  }
  void TearDown() override {
    cuDevicePrimaryCtxReset_v2(0);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  /// What `function` stores; its second parameter is `x`.
  int run(CUfunction function, int x = 0) {
    void *parameters[] = {&result, &x};
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                             nullptr),
              CUDA_SUCCESS);
    int value = 0;
    EXPECT_EQ(cuMemcpyDtoH_v2(&value, result, 4), CUDA_SUCCESS);
    return value;
  }

  int runModule(CUmodule module, const char *name, int x = 0) {
    CUfunction function;
    EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return run(function, x);
  }

  CUresult add(CUlinkState link, const std::string &text,
               int type = CU_JIT_INPUT_PTX) {
    return cuLinkAddData_v2(link, CUjitInputType(type),
                            const_cast<char *>(text.c_str()), text.size() + 1,
                            "input", 0, nullptr, nullptr);
  }

  CUcontext context = nullptr;
  CUdeviceptr result = 0;
};

/// An entry of a fat binary.
struct Entry {
  unsigned kind, capability;
  std::string data;
  uint64_t flags = 0, unpacked = 0;
};

template <typename T> void append(std::string &to, T value) {
  to.append(reinterpret_cast<const char *>(&value), sizeof value);
}

std::string fatbinOf(const std::vector<Entry> &entries) {
  std::string body;
  for (const Entry &entry : entries) {
    std::string data = entry.data;
    data.resize((data.size() + 8) / 8 * 8);
    append(body, uint16_t(entry.kind));
    append(body, uint16_t(0x101));
    append(body, uint32_t(64));
    append(body, uint64_t(data.size()));
    append(body, uint32_t(entry.data.size()));
    append(body, uint32_t(0));
    append(body, uint16_t(0));
    append(body, uint16_t(8));
    append(body, uint32_t(entry.capability));
    append(body, uint64_t(0));
    append(body, entry.flags);
    append(body, uint64_t(0));
    append(body, entry.unpacked);
    body += data;
  }
  std::string fatbin = "P\xedU\xba";
  append(fatbin, uint16_t(1));
  append(fatbin, uint16_t(16));
  append(fatbin, uint64_t(body.size()));
  return fatbin + body;
}

TEST_F(Images, linkResolvesExternNamesAndKeepsPrivateNamesApart) {
  CUlinkState link;
  ASSERT_EQ(cuLinkCreate_v2(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  ASSERT_EQ(add(link, kCaller), CUDA_SUCCESS);
  ASSERT_EQ(add(link, kCallee), CUDA_SUCCESS);
  void *image;
  size_t bytes;
  ASSERT_EQ(cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
  std::string copy(static_cast<char *>(image), bytes);
  ASSERT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, copy.data()), CUDA_SUCCESS);
  EXPECT_EQ(runModule(module, "k", 5), 5 * 2 + 1000 + 7 + 100);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
}

// The text that takes the address does not know the body, and the other text
// does not know of the address.
TEST_F(Images, linkedFunctionIsCalledByAddress) {
  std::string caller = kCaller;
  auto replace = [&](const std::string &from, const std::string &to) {
    caller.replace(caller.find(from), from.size(), to);
  };
  replace(".reg .b32 %v, %w;", ".reg .b32 %v, %w;\n  .reg .b64 %f;\n"
                               "  mov.u64 %f, twice;");
  replace("call.uni (out), twice, (in);",
          "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
          "  call (out), %f, (in), proto;");
  CUlinkState link;
  ASSERT_EQ(cuLinkCreate_v2(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  ASSERT_EQ(add(link, caller), CUDA_SUCCESS);
  ASSERT_EQ(add(link, kCallee), CUDA_SUCCESS);
  void *image;
  ASSERT_EQ(cuLinkComplete(link, &image, nullptr), CUDA_SUCCESS);
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(runModule(module, "k", 5), 5 * 2 + 1000 + 7 + 100);
}

TEST_F(Images, linkRefusesWhatIsDefinedTwiceAndObjectFiles) {
  CUlinkState link;
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  ASSERT_EQ(cuLinkCreate_v2(2, options, values, &link), CUDA_SUCCESS);
  ASSERT_EQ(add(link, storePtx("k", 1)), CUDA_SUCCESS);
  ASSERT_EQ(add(link, storePtx("k", 2)), CUDA_SUCCESS);
  void *image;
  EXPECT_EQ(cuLinkComplete(link, &image, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(log, testing::HasSubstr("line 16; error   : 'k' is defined "
                                      "twice"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(add(link, "x", CU_JIT_INPUT_OBJECT), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("expected PTX or a fat binary, got an object "
                                 "file"));
}

TEST_F(Images, fatBinaryGivesTheNewestPtxThatRuns) {
  std::string fatbin = fatbinOf({{1, 70, storePtx("k", 70)},
                                 {1, 80, storePtx("k", 80)},
                                 {1, 90, storePtx("k", 90)},
                                 {2, 80, "machine code"}});
  CUmodule module;
  ASSERT_EQ(cuModuleLoadFatBinary(&module, fatbin.data()), CUDA_SUCCESS);
  EXPECT_EQ(runModule(module, "k"), 80);
}

TEST_F(Images, fatBinaryWithoutPtxIsRefusedAndSaysWhatIsThere) {
  std::string fatbin = fatbinOf({{2, 80, "code"}, {1, 90, storePtx("k", 90)}});
  CUmodule module;
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuModuleLoadData(&module, fatbin.data()),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("expected PTX for sm_80 or older, got machine "
                                 "code for sm_80, PTX for sm_90"));
}

TEST_F(Images, fatBinaryIsUnpacked) {
  std::string text = storePtx("k", 5);
  llvm::SmallVector<uint8_t> packed;
  llvm::compression::zstd::compress(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(text.data()),
                     text.size()),
      packed);
  std::string zstd(packed.begin(), packed.end());
  std::string fatbin = fatbinOf({{1, 80, zstd, 0x8000, text.size()}});
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, fatbin.data()), CUDA_SUCCESS);
  EXPECT_EQ(runModule(module, "k"), 5);
}

// "abcabcabcabcabcabcabcabcabcabc" + "!": three literals, a match of 27 bytes
// at distance 3, and a last literal.
TEST(Lz4, copiesLiteralsAndOverlappingMatches) {
  const char block[] = "\x3f"
                       "abc"
                       "\x03\x00"
                       "\x08"
                       "\x10!";
  auto text = unpackLz4(block, sizeof block - 1, 100);
  std::string expected;
  for (int i = 0; i < 10; ++i)
    expected += "abc";
  EXPECT_EQ(std::get<std::string>(text), expected + "!");
}

TEST(Lz4, refusesBrokenBlocks) {
  for (const char *block : {"\x3f"
                            "abc"
                            "\x04\x00"
                            "\x08"
                            "\x10!", // distance
                            "\x3f"
                            "ab",
                            "\xff\xff",
                            "\x3f"
                            "abc"
                            "\x03"})
    EXPECT_TRUE(std::holds_alternative<ImageError>(
        unpackLz4(block, strlen(block), 100)))
        << block;
  const char most[] = "\x3f"
                      "abc"
                      "\x03\x00"
                      "\x08"
                      "\x10!";
  EXPECT_TRUE(
      std::holds_alternative<ImageError>(unpackLz4(most, sizeof most - 1, 30)));
}

TEST_F(Images, moduleIsLoadedFromAFile) {
  auto path = std::filesystem::temp_directory_path() /
              ("cria-" + std::to_string(getpid()) + ".ptx");
  std::ofstream(path) << storePtx("k", 3);
  CUmodule module;
  EXPECT_EQ(cuModuleLoad(&module, path.c_str()), CUDA_SUCCESS);
  EXPECT_EQ(runModule(module, "k"), 3);
  std::filesystem::remove(path);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuModuleLoad(&module, path.c_str()), CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("cuModuleLoad: cannot read"));
}

TEST_F(Images, kernelOfALibraryRunsInEveryContext) {
  CUlibrary library;
  CUkernel kernel;
  std::string text = storePtx("k", 4);
  ASSERT_EQ(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0,
                              nullptr, nullptr, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "k"), CUDA_SUCCESS);
  EXPECT_EQ(run(reinterpret_cast<CUfunction>(kernel)), 4);
  CUfunction here, there;
  ASSERT_EQ(cuKernelGetFunction(&here, kernel), CUDA_SUCCESS);
  CUcontext other;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&there, kernel), CUDA_SUCCESS);
  EXPECT_NE(here, there);
  EXPECT_EQ(run(reinterpret_cast<CUfunction>(kernel)), 4);
  EXPECT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  CUfunction gone;
  EXPECT_EQ(cuKernelGetFunction(&gone, kernel), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Images, libraryThatDoesNotLoadSaysWhy) {
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  std::string text = kHead + ".visible .entry k()\n{\nno.such;\nret;\n}\n";
  ASSERT_EQ(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0,
                              nullptr, nullptr, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "k"), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuKernelGetFunction(&function, kernel), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("the library does not load: ptxas application "
                                 "ptx input, line 6"));
}

TEST_F(Images, libraryGivesItsVariables) {
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kCallee.c_str(), nullptr, nullptr, 0,
                              nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUdeviceptr bias;
  size_t bytes;
  ASSERT_EQ(cuLibraryGetGlobal(&bias, &bytes, library, "bias"), CUDA_SUCCESS);
  int value = 0;
  ASSERT_EQ(cuMemcpyDtoH_v2(&value, bias, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(cuLibraryGetGlobal(&bias, &bytes, library, "nothing"),
            CUDA_ERROR_NOT_FOUND);
}

} // namespace
} // namespace cria::emulator
