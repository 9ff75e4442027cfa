#include "runtime/cuda/Code.h"

#include "runtime/cuda/CodeCache.h"
#include "test/runtime/cuda/Fixtures.h"

#include <filesystem>
#include <fstream>
#include <thread>

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
  std::string code(3000, 'x');
  for (int i = 0; i < 5; ++i) {
    CodeKey key = CodeKey::of("ptx", 80, i);
    cache.store(key, code);
    EXPECT_TRUE(cache.find(key)) << i;
    auto past = fs::file_time_type::clock::now() - std::chrono::hours(10 - i);
    fs::last_write_time(folder.path("cache/" + key.text() + ".cubin"), past);
  }
  EXPECT_EQ(filesInCache(), 3u);
  EXPECT_FALSE(cache.find(CodeKey::of("ptx", 80, 1)));
  EXPECT_EQ(cache.find(CodeKey::of("ptx", 80, 4)), code);
  EXPECT_FALSE(cache.find(CodeKey::of("ptx", 90, 4)));
  EXPECT_FALSE(cache.find(CodeKey::of("ptX", 80, 4)));
}

TEST_F(CudaCodeTest, ManyMayUseTheCacheAtOnce) {
  CodeCache cache(20000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache] {
      for (int i = 0; i < 50; ++i) {
        CodeKey key = CodeKey::of("ptx", 80, i % 8);
        std::string code(3000, static_cast<char>('a' + i % 8));
        EXPECT_EQ(cache.find(key).value_or(code), code);
        cache.store(key, code);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LE(filesInCache(), 7u);
}
