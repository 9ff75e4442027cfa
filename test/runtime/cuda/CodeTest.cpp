#include "runtime/cuda/Code.h"

#include "runtime/cuda/CodeCache.h"
#include "test/runtime/cuda/Fixtures.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace cria;
using namespace cria::cuda;
using namespace cria::test;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(CudaCode, RunsOnTheChipsItIsFor) {
  EXPECT_TRUE(runsOn({"sm_80", true, ""}, 80));
  EXPECT_TRUE(runsOn({"sm_80", true, ""}, 90));
  EXPECT_TRUE(runsOn({"sm_80", true, ""}, 120));
  EXPECT_FALSE(runsOn({"sm_80", true, ""}, 75));
  EXPECT_TRUE(runsOn({"sm_80", false, ""}, 86));
  EXPECT_FALSE(runsOn({"sm_80", false, ""}, 90));
  EXPECT_TRUE(runsOn({"sm_90a", true, ""}, 90));
  EXPECT_FALSE(runsOn({"sm_90a", true, ""}, 100));
}

TEST(CudaCode, KnowsWhichDriverAPtxNeeds) {
  EXPECT_EQ(driverForPtx("// made by hand\n.version 7.0\n"), 11000);
  EXPECT_EQ(driverForPtx(".version 7.8"), 11080);
  EXPECT_EQ(driverForPtx(".version\t8.0"), 12000);
  EXPECT_EQ(driverForPtx(".version 8.5\n"), 12050);
  EXPECT_EQ(driverForPtx(".version 8.8\n"), 12090);
  EXPECT_EQ(driverForPtx(".version 9.0\n"), 13000);
  EXPECT_EQ(driverForPtx(".version 6.5"), 10000);
  for (const char *text : {"", ".version", ".version ", ".version x.y"})
    EXPECT_EQ(driverForPtx(text), 0) << text;
}

namespace {

class CudaCodeTest : public CudaTest {
protected:
  /// Loads the fake model with images for `chips`.
  Result<std::shared_ptr<const Model>>
  load(const std::vector<std::string> &chips) {
    nlohmann::json manifest = cudaManifest(), images;
    for (const std::string &chip : chips)
      images.push_back(
          {{"chip", chip}, {"format", "ptx"}, {"symbol", "fake_ptx"}});
    manifest["cuda"]["images"] = images;
    auto opened = open(manifest);
    if (!opened.ok())
      return opened.status();
    artifact = *opened;
    return bind();
  }
  size_t filesInCache() {
    size_t count = 0;
    std::error_code none;
    for (auto &entry : fs::directory_iterator(folder.path("cache"), none))
      count += entry.is_regular_file();
    return count;
  }
  /// Opens an artifact with a cubin beside the PTX, 1 byte behind an address
  /// that is aligned.
  void openWithCubin(bool withPtx = true) {
    nlohmann::json manifest = cudaManifest(), images;
    if (withPtx)
      images.push_back(
          {{"chip", "sm_80"}, {"format", "ptx"}, {"symbol", "fake_ptx"}});
    images.push_back(
        {{"chip", "sm_80"}, {"format", "cubin"}, {"symbol", "fake_cubin"}});
    manifest["cuda"]["images"] = images;
    std::string ptx = "R\"(" + cudaPtx() + ")\"";
    std::string data =
        "const char fake_ptx[] = " + ptx +
        ";\n__asm__(\".section .rodata\\n.balign 64\\n.byte 0\\n"
        ".globl fake_cubin\\n.type fake_cubin, @object\\n"
        "fake_cubin:\\n.incbin \\\"" +
        folder.write("cubin", "\177ELF" + cudaPtx() + std::string(1, '\0')) +
        "\\\"\\n.size fake_cubin, .-fake_cubin\\n.text\");";
    auto opened =
        Artifact::open(folder.write("cubin.cria", artifactOf(manifest, data)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }
  void useLinker() {
    environment.set("CRIA_TEST_DRIVER", CRIA_EMULATOR_LIBRARY);
    environment.set("CRIA_CUDA_DRIVER", CRIA_LINKING_DRIVER);
  }
  std::string device(bool cache = true) {
    auto model = Model::load(artifact, {folder.path(), 0},
                             {DeviceKind::Emulated, cache});
    return model.ok() ? (*model)->device() : model.status().message();
  }
};

} // namespace

TEST_F(CudaCodeTest, TakesTheImageForTheLatestChip) {
  auto model = load({"sm_75", "sm_80", "sm_70", "sm_90"});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->device(), HasSubstr("; sm_80 PTX"));
  EXPECT_THAT(load({"sm_90", "sm_90a"}).status(),
              fails(CRIA_INCOMPATIBLE, "compiled for sm_90, sm_90a; "));
  environment.set("CRIA_EMULATOR_DEVICE", "sm_90");
  model = load({"sm_80", "sm_90a", "sm_90"});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->device(), HasSubstr("; sm_90a PTX"));
}

TEST_F(CudaCodeTest, ChecksTheImages) {
  nlohmann::json manifest = cudaManifest();
  manifest["cuda"]["images"][0]["symbol"] = "nothing";
  EXPECT_THAT(
      open(manifest).status(),
      fails(CRIA_INVALID_ARGUMENT, "image 'nothing' is not in the code"));
  manifest["cuda"]["images"][0]["symbol"] = "open_end";
  std::string data = "const char open_end[4] = {'.', 'v', 'e', 'r'};";
  EXPECT_THAT(
      Artifact::open(folder.write("x.cria", artifactOf(manifest, data)))
          .status(),
      fails(CRIA_INVALID_ARGUMENT, "image 'open_end' has no NUL at its end"));
}

TEST_F(CudaCodeTest, KeepsWhatTheDriverCompiled) {
  useLinker();
  EXPECT_THAT(device(), HasSubstr("compiled in "));
  EXPECT_EQ(filesInCache(), 1u);
  EXPECT_THAT(device(), HasSubstr("from the cache"));
  EXPECT_THAT(device(false), HasSubstr("compiled in "));
  expectWorks();
  environment.set("CRIA_EMULATOR_DRIVER_VERSION", "12080");
  EXPECT_THAT(device(), HasSubstr("compiled in "));
  EXPECT_EQ(filesInCache(), 2u);
}

TEST_F(CudaCodeTest, CompilesWhereTheCacheIsDamagedOrCannotBe) {
  useLinker();
  device();
  for (auto &entry : fs::directory_iterator(folder.path("cache"))) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out);
    file.seekp(100);
    file.put('?');
  }
  EXPECT_THAT(device(), HasSubstr("compiled in "));
  EXPECT_THAT(device(), HasSubstr("from the cache"));
  environment.set("CRIA_CACHE_DIR", "/proc/nowhere");
  EXPECT_THAT(device(), HasSubstr("compiled in "));
}

// The folder chooses code that runs: it is the user's alone, or not used.
TEST_F(CudaCodeTest, MakesACacheForTheUserAlone) {
  useLinker();
  mode_t before = umask(0);
  device();
  umask(before);
  struct stat info;
  ASSERT_EQ(stat(folder.path("cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_THAT(device(), HasSubstr("from the cache"));
}

TEST_F(CudaCodeTest, TrustsNoCacheThatOthersMayWrite) {
  useLinker();
  std::string cache = folder.path("cache");
  device();
  fs::path file = fs::directory_iterator(cache)->path();
  auto refuses = [&](const std::string &why) {
    auto model = bind();
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT((*model)->device(), HasSubstr("compiled in ")) << why;
    EXPECT_THAT(
        (*model)->warnings(),
        testing::ElementsAre("the cache of compiled code is not used: " + why));
  };
  for (mode_t mode : {0720, 0702}) {
    chmod(cache.c_str(), mode);
    refuses(cache + ": others than its owner may write to it");
  }
  chmod(cache.c_str(), 0700);
  EXPECT_THAT(device(), HasSubstr("from the cache"));
  chmod(file.c_str(), 0620);
  refuses(file.string() + ": others than its owner may write to it");
  EXPECT_THAT(device(), HasSubstr("from the cache")); // replaced by the user's
  fs::rename(file, folder.path("elsewhere"));
  fs::create_symlink(folder.path("elsewhere"), file);
  refuses(file.string() + ": is a symbolic link");
  EXPECT_FALSE(fs::is_symlink(file));
  fs::rename(cache, folder.path("moved"));
  fs::create_directory_symlink(folder.path("moved"), cache);
  refuses(cache + ": is no folder, or a symbolic link to one");
}

TEST_F(CudaCodeTest, TrustsNoCacheOfAnotherUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to give files away";
  useLinker();
  std::string cache = folder.path("cache");
  device();
  fs::path file = fs::directory_iterator(cache)->path();
  for (const std::string &path : {file.string(), cache}) {
    ASSERT_EQ(chown(path.c_str(), 12345, 0), 0);
    auto model = bind();
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT((*model)->device(), HasSubstr("compiled in "));
    EXPECT_THAT(
        (*model)->warnings(),
        testing::ElementsAre("the cache of compiled code is not used: " + path +
                             ": belongs to user 12345, "
                             "expected 0"));
  }
}

// Also one that lies at an odd address, as in artifacts of earlier compilers.
TEST_F(CudaCodeTest, PrefersACubin) {
  useLinker();
  openWithCubin();
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->device(), HasSubstr("; sm_80 cubin, as compiled"));
  EXPECT_THAT((*model)->warnings(), testing::IsEmpty());
}

TEST_F(CudaCodeTest, TakesThePtxWhereTheDriverRefusesTheCubin) {
  useLinker();
  openWithCubin();
  for (auto [code, name] :
       {std::make_pair("200", "CUDA_ERROR_INVALID_IMAGE"),
        std::make_pair("209", "CUDA_ERROR_NO_BINARY_FOR_GPU"),
        std::make_pair("1", "CUDA_ERROR_INVALID_VALUE")}) {
    environment.set("CRIA_TEST_CUBIN", code);
    auto model = bind();
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT((*model)->device(), HasSubstr("; sm_80 PTX, "));
    ASSERT_EQ((*model)->warnings().size(), 1u);
    EXPECT_THAT((*model)->warnings()[0],
                testing::StartsWith("the cubin for sm_80 is not used: "
                                    "cuModuleLoadDataEx: " +
                                    std::string(name) + " while loading "));
  }
  // The emulated driver by itself has no cubins either.
  environment.set("CRIA_CUDA_DRIVER", CRIA_EMULATOR_LIBRARY);
  expectWorks();
}

TEST_F(CudaCodeTest, FailsWithTheCubinWhereNothingElseHelps) {
  useLinker();
  openWithCubin();
  environment.set("CRIA_TEST_CUBIN", "2");
  EXPECT_THAT(bind().status(),
              fails(CRIA_RESOURCE_EXHAUSTED, "CUDA_ERROR_OUT_OF_MEMORY"));
  environment.set("CRIA_TEST_CUBIN", "719");
  EXPECT_THAT(bind().status(), fails(CRIA_ABORTED, "CUDA_ERROR_LAUNCH_FAILED"));
  openWithCubin(/*withPtx=*/false);
  environment.set("CRIA_TEST_CUBIN", "209");
  EXPECT_THAT(bind().status(),
              fails(CRIA_FAILED_PRECONDITION, "CUDA_ERROR_NO_BINARY_FOR_GPU"));
}

TEST_F(CudaCodeTest, SaysWhyTheLinkerFailed) {
  useLinker();
  environment.set("CRIA_TEST_LINKER_FAILS", "1");
  EXPECT_THAT(bind().status(),
              fails(CRIA_FAILED_PRECONDITION,
                    "cuLinkComplete: CUDA_ERROR_INVALID_PTX while loading "
                    "sm_80 code of "));
}

TEST_F(CudaCodeTest, TheCacheIsBoundedAndForgetsTheOldest) {
  CodeCache cache(10000);
  std::vector<std::string> warnings;
  std::string code(3000, 'x');
  for (int i = 0; i < 5; ++i) {
    CodeKey key = CodeKey::of("ptx", 80, i);
    cache.store(key, code);
    EXPECT_TRUE(cache.find(key, warnings)) << i;
    auto past = fs::file_time_type::clock::now() - std::chrono::hours(10 - i);
    fs::last_write_time(folder.path("cache/" + key.text() + ".cubin"), past);
  }
  EXPECT_EQ(filesInCache(), 3u);
  EXPECT_FALSE(cache.find(CodeKey::of("ptx", 80, 1), warnings));
  EXPECT_EQ(cache.find(CodeKey::of("ptx", 80, 4), warnings), code);
  EXPECT_FALSE(cache.find(CodeKey::of("ptx", 90, 4), warnings));
  EXPECT_FALSE(cache.find(CodeKey::of("ptX", 80, 4), warnings));
  EXPECT_THAT(warnings, testing::IsEmpty());
}

TEST_F(CudaCodeTest, ManyMayUseTheCacheAtOnce) {
  CodeCache cache(20000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache] {
      std::vector<std::string> warnings;
      for (int i = 0; i < 50; ++i) {
        CodeKey key = CodeKey::of("ptx", 80, i % 8);
        std::string code(3000, static_cast<char>('a' + i % 8));
        EXPECT_EQ(cache.find(key, warnings).value_or(code), code);
        cache.store(key, code);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LE(filesInCache(), 7u);
}
