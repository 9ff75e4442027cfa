#include "runtime/cuda/Code.h"

#include "test/runtime/cuda/Fixtures.h"

using namespace cria;
using namespace cria::cuda;
using namespace cria::test;
using testing::HasSubstr;

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
  /// Opens an artifact with a cubin beside the PTX.
  void openWithCubin(bool withPtx = true) {
    std::string ptx = cudaPtx(), cubin = "\177ELF" + ptx + std::string(1, '\0');
    nlohmann::json manifest = cudaManifest(), images;
    if (withPtx)
      images.push_back({{"chip", "sm_80"},
                        {"format", "ptx"},
                        {"symbol", "fake_ptx"},
                        {"unpacked", ptx.size()}});
    images.push_back({{"chip", "sm_80"},
                      {"format", "cubin"},
                      {"symbol", "fake_cubin"},
                      {"unpacked", cubin.size()}});
    manifest["cuda"]["images"] = images;
    std::string data = imageSource("fake_ptx", ptx) + "\nextern " +
                       imageSource("fake_cubin", cubin);
    auto opened =
        Artifact::open(folder.write("cubin.cria", artifactOf(manifest, data)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }
  void useTestDriver() {
    environment.set("CRIA_TEST_DRIVER", CRIA_EMULATOR_LIBRARY);
    environment.set("CRIA_CUDA_DRIVER", CRIA_TEST_DRIVER_LIBRARY);
  }
  std::string device() {
    auto model = bind();
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
}

TEST_F(CudaCodeTest, UnpacksAnImage) {
  nlohmann::json manifest = cudaManifest();
  nlohmann::json &image = manifest["cuda"]["images"][0];
  std::string ptx = cudaPtx(), data = imageSource("fake_ptx", ptx);
  auto load = [&](int64_t size) {
    image["unpacked"] = size;
    auto opened =
        Artifact::open(folder.write("x.cria", artifactOf(manifest, data)));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    return device();
  };
  auto size = static_cast<int64_t>(ptx.size());
  EXPECT_THAT(load(size), HasSubstr("; sm_80 PTX"));
  for (int64_t other : {size - 1, size + 1})
    EXPECT_THAT(load(other), HasSubstr("image 'fake_ptx': expected a frame of "
                                       "zstd that stands for " +
                                       std::to_string(other) + " bytes"));
}

TEST_F(CudaCodeTest, JoinsAnImageFromSpans) {
  std::string ptx = cudaPtx();
  size_t cut = ptx.find(".visible"), end = ptx.size();
  std::string text =
      ptx.substr(0, cut) + "not PTX" + ptx.substr(cut) + "not PTX";
  std::string data = imageSource("fake_ptx", text);
  nlohmann::json manifest = cudaManifest();
  manifest["cuda"]["images"][0]["unpacked"] = text.size();
  manifest["cuda"]["images"][0]["spans"] = {0, cut, cut + 7, end + 7};
  auto opened =
      Artifact::open(folder.write("x.cria", artifactOf(manifest, data)));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  EXPECT_THAT(device(), HasSubstr("; sm_80 PTX"));

  manifest["cuda"]["images"][0]["spans"] = {0, end + 16};
  EXPECT_THAT(
      Artifact::open(folder.write("x.cria", artifactOf(manifest, data)))
          .status(),
      fails(CRIA_INVALID_ARGUMENT, "image 'fake_ptx' ends before its spans"));
}

TEST_F(CudaCodeTest, PrefersACubin) {
  useTestDriver();
  openWithCubin();
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->device(), HasSubstr("; sm_80 cubin, loaded in "));
  EXPECT_THAT((*model)->warnings(), testing::IsEmpty());
}

TEST_F(CudaCodeTest, TakesThePtxWhereTheDriverRefusesTheCubin) {
  useTestDriver();
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
                testing::StartsWith("the sm_80 cubin is not used: "
                                    "cuModuleLoadDataEx: " +
                                    std::string(name) + " while loading "));
  }
  // The emulated driver by itself has no cubins either.
  environment.set("CRIA_CUDA_DRIVER", CRIA_EMULATOR_LIBRARY);
  expectWorks();
}

TEST_F(CudaCodeTest, FailsWithTheCubinWhereNothingElseHelps) {
  useTestDriver();
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

// An image that cannot be loaded gives way to the next one.
TEST_F(CudaCodeTest, TakesTheNextImageWhereTheDriverRefusesOne) {
  environment.set("CRIA_EMULATOR_DEVICE", "sm_90");
  for (const char *code : {"1", "209", "218", "801"}) {
    inject(std::string("cuModuleLoadDataEx:1:") + code);
    auto model = load({"sm_80", "sm_90a", "sm_90"});
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT((*model)->device(), HasSubstr("; sm_90 PTX, loaded in "));
    EXPECT_THAT((*model)->warnings(),
                testing::ElementsAre(testing::ContainsRegex(
                    "^the sm_90a PTX is not used: cuModuleLoadDataEx: "
                    "CUDA_ERROR_[A-Z_]+ while loading sm_90a code of ")));
  }
  inject("cuModuleLoadDataEx:1:218,cuModuleLoadDataEx:2:209");
  auto model = load({"sm_80", "sm_90a", "sm_90"});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->device(), HasSubstr("; sm_80 PTX, "));
  EXPECT_EQ((*model)->warnings().size(), 2u);
  expectWorks();
  inject("cuModuleLoadDataEx:1:218:sticky");
  Status status = load({"sm_80", "sm_90"}).status();
  for (const char *text :
       {"while loading sm_90 code of ",
        "; cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX while loading sm_80 code "
        "of ",
        "; recompile the artifact, or install a newer driver"})
    EXPECT_THAT(status, fails(CRIA_FAILED_PRECONDITION, text));
  // Other code helps neither against a lack of memory nor a broken context.
  for (auto [fault, code] : {std::pair("2", CRIA_RESOURCE_EXHAUSTED),
                             std::pair("719:sticky", CRIA_ABORTED)}) {
    inject(std::string("cuModuleLoadDataEx:1:") + fault);
    EXPECT_THAT(load({"sm_80", "sm_90"}).status(),
                fails(code, "sm_90 code of "));
  }
}

// The launch "clear" has a tensor map in the code for wgmma.
TEST_F(CudaCodeTest, TakesTheNextImageWhereTheDriverRefusesATensorMap) {
  environment.set("CRIA_EMULATOR_DEVICE", "sm_90");
  nlohmann::json manifest = cudaManifest();
  nlohmann::json &images = manifest["cuda"]["images"];
  images.push_back(images[0]);
  images[0]["chip"] = "sm_90a";
  images[0]["generation"] = 2;
  for (const char *name : {"prefill", "decode"}) {
    nlohmann::json &entry = manifest["cuda"]["entries"][name];
    nlohmann::json step = entry[0];
    entry[0]["generations"] = {0, 1};
    step["generations"] = nlohmann::json::array({2});
    step["args"][0]["map"] = {{"dtype", "bf16"},
                              {"sizes", {8}},
                              {"strides", nlohmann::json::array()},
                              {"box", {64}}};
    entry.insert(entry.begin(), step);
  }
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  EXPECT_THAT(device(), HasSubstr("; sm_90a PTX, "));
  for (const char *fault :
       {"cuTensorMapEncodeTiled:1:1", "cuTensorMapEncodeTiled:1:801:sticky"}) {
    inject(fault);
    auto model = bind();
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT((*model)->device(), HasSubstr("; sm_80 PTX, "));
    EXPECT_THAT((*model)->warnings(),
                testing::ElementsAre(testing::ContainsRegex(
                    "^the sm_90a PTX is not used: cuTensorMapEncodeTiled: "
                    "CUDA_ERROR_[A-Z_]+ while preparing kernel 'clear'$")));
    auto session = Session::create(*model, 0);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::vector<float> logits(5);
    EXPECT_TRUE(
        (*session)->feed(ids.data(), 6, CRIA_LOGITS_LAST, logits.data()).ok());
    EXPECT_NEAR(logits[4], fakeLogits(ids)[5 * 5 + 4], 1e-4);
  }
}

TEST_F(CudaCodeTest, WarnsOfSlowCode) {
  useTestDriver();
  environment.set(
      "CRIA_TEST_JIT_LOG",
      "ptxas info    : (C7504) 'setmaxnreg' ignored to maintain compatibility\n"
      "ptxas info    : Compiling entry function 'a'\n"
      "ptxas warning : (C7509) wgmma is serialized in the function 'a'\n"
      "ptxas info    : (C7504) 'setmaxnreg' ignored in 'b'\n");
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::string begin = "the driver compiles the sm_80 PTX to slower code: ";
  EXPECT_THAT((*model)->warnings(),
              testing::ElementsAre(
                  begin + "(C7504) 'setmaxnreg' ignored to maintain "
                          "compatibility (2 times)",
                  begin + "(C7509) wgmma is serialized in the function 'a'"));
}

TEST_F(CudaCodeTest, TheEnvironmentChoosesAnImage) {
  useTestDriver();
  openWithCubin();
  for (auto [choice, image] :
       {std::pair("", "sm_80 cubin"), std::pair("sm_80", "sm_80 cubin"),
        std::pair("sm_80.ptx", "sm_80 PTX"),
        std::pair("sm_80.cubin", "sm_80 cubin")}) {
    environment.set("CRIA_CUDA_IMAGE", choice);
    EXPECT_THAT(device(), HasSubstr(std::string("; ") + image));
  }
  environment.set("CRIA_TEST_CUBIN", "209"); // no other image is taken
  EXPECT_THAT(bind().status(),
              fails(CRIA_FAILED_PRECONDITION, "CUDA_ERROR_NO_BINARY_FOR_GPU"));
  environment.set("CRIA_CUDA_IMAGE", "sm_9");
  EXPECT_THAT(
      bind().status(),
      fails(CRIA_INCOMPATIBLE, " is sm_80, and CRIA_CUDA_IMAGE is 'sm_9'"));
}

TEST_F(CudaCodeTest, TheEnvironmentTurnsFeaturesOff) {
  environment.set("CRIA_CUDA_WITHOUT", "overlap,graphs,carveout,ahead");
  // Neither is called; only the shared memory of `logits` is an attribute.
  inject("cuStreamBeginCapture:1:1:sticky,cuFuncSetAttribute:2:719:sticky");
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto session = Session::create(*model, 0);
  std::vector<float> logits(5);
  EXPECT_TRUE(
      (*session)->feed(ids.data(), 1, CRIA_LOGITS_LAST, logits.data()).ok());
  environment.set("CRIA_CUDA_WITHOUT", "graphs,speed");
  EXPECT_THAT(bind().status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "CRIA_CUDA_WITHOUT has 'speed', expected some of "
                    "graphs,overlap,carveout,ahead"));
}

// Without it kernels share their multiprocessors less, but run.
TEST_F(CudaCodeTest, TheCarveoutIsAHint) {
  inject("cuFuncSetAttribute:1:1");
  expectWorks();
  inject("cuFuncSetAttribute:1:719:sticky");
  EXPECT_THAT(bind().status(), fails(CRIA_ABORTED, "cuFuncSetAttribute"));
}
