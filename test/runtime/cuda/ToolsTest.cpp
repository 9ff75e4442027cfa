/// The tools and the C API on a device.
#include "runtime/base/files/File.h"
#include "runtime/cria.h"
#include "test/runtime/cuda/Fixtures.h"

#include <array>
#include <cstdio>

using namespace cria;
using namespace cria::test;
using testing::HasSubstr;

namespace {

class CudaToolsTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    path = folder.write("tool.cria", cudaArtifactOf(cudaManifest()));
  }
  /// What `tool` prints to both streams, and "exit N" where it fails.
  std::string run(const std::string &tool, const std::string &arguments) {
    std::string command = CRIA_TOOLS_FOLDER "/cria-" + tool + " '" + path +
                          "' " + arguments + " 2>&1";
    std::string output;
    FILE *pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    while (size_t size = fread(buffer.data(), 1, buffer.size(), pipe))
      output.append(buffer.data(), size);
    int code = pclose(pipe);
    return code ? output + "exit " + std::to_string(code >> 8) : output;
  }
  std::string generate(const std::string &options) {
    return run("run", "--weights='" + folder.path() +
                          "' --ids=1,0,4 --max-tokens=4 --temperature=0 "
                          "--print-ids " +
                          options);
  }

  std::string path;
};

} // namespace

TEST_F(CudaToolsTest, RunGeneratesWhatTheCpuGenerates) {
  std::string cpu = generate("--device=cpu");
  std::string ids = cpu.substr(0, cpu.find('\n') + 1);
  EXPECT_EQ(ids.size(), 8u) << cpu; // four ids
  std::string emulated = generate("--device=emulated");
  EXPECT_THAT(emulated, testing::StartsWith(ids + "device "));
  EXPECT_THAT(emulated, HasSubstr(", sm_80, CUDA driver 13.0; sm_80 PTX"));
  EXPECT_THAT(emulated, testing::Not(HasSubstr("warning")));
}

TEST_F(CudaToolsTest, RunFindsTheEmulatedDriverBesideItself) {
  unsetenv("CRIA_CUDA_DRIVER");
  EXPECT_THAT(generate("--device=emulated"), HasSubstr("\ndevice "));
}

TEST_F(CudaToolsTest, RunSaysWhyItTakesTheCpu) {
  environment.set("CRIA_CUDA_DRIVER", "libnothing.so.1");
  EXPECT_THAT(generate("--device=auto"),
              testing::StartsWith("cria-run: warning: runs on the CPU: CUDA "
                                  "driver library libnothing.so.1 is not "
                                  "available"));
  EXPECT_THAT(generate("--device=cuda"),
              testing::AllOf(
                  testing::StartsWith("cria-run: error: CUDA driver library"),
                  testing::EndsWith("\nexit 1")));
  EXPECT_THAT(
      generate("--device=abacus"),
      HasSubstr("error: --device: 'abacus' is no device, expected auto, cpu, "
                "cuda, cuda:1 or emulated\nexit 2"));
}

TEST_F(CudaToolsTest, RunWritesTheSameLogits) {
  std::string files[2] = {folder.path("cpu.npy"), folder.path("gpu.npy")};
  generate("--device=cpu --logits='" + files[0] + "'");
  generate("--device=emulated --logits='" + files[1] + "'");
  auto size = [](const std::string &file) {
    auto text = readFile(file, 1 << 20);
    return text.ok() ? text->size() : 0;
  };
  EXPECT_EQ(size(files[0]), 128 + 3 * 5 * sizeof(float));
  EXPECT_EQ(size(files[1]), size(files[0]));
}

TEST_F(CudaToolsTest, BenchMeasuresTheDevice) {
  nlohmann::json manifest = cudaManifest();
  manifest["model"]["max_seq"] = manifest["rope"][0]["rows"] = 64;
  manifest["caches"][0]["shape"] = {2, 64};
  manifest["caches"][0]["bytes"] = 512;
  path = folder.write("long.cria", cudaArtifactOf(manifest));
  std::string text = run("bench", "--device=emulated --random-weights=1 "
                                  "--prompt-len=4 --gen-len=4 --depth=0,8");
  EXPECT_THAT(text, HasSubstr("\ndevice     "));
  EXPECT_THAT(text, HasSubstr("\ndecode at 8 "));
  EXPECT_THAT(text, HasSubstr("\nfirst token, prompt 16 "));
  EXPECT_THAT(text,
              testing::ContainsRegex("\nread +[0-9.e-]+ GB/s, a plain loop\n"
                                     "compute +[0-9.]+ GFLOP/s, f32 FMA"
                                     "\n"));
  text = run("bench", "--device=emulated --random-weights=1 --prompt-len=1 "
                      "--gen-len=1 --json");
  nlohmann::json code =
      nlohmann::json::parse(text.substr(text.find("{")))["code"];
  EXPECT_EQ(code["chip"], "sm_80");
  EXPECT_EQ(code["format"], "ptx");
  EXPECT_EQ(code["kernels"].size(), 5u);
  EXPECT_EQ(code["kernels"][0], nlohmann::json::parse(R"(
      {"kernel": "add_norm", "registers": 32, "local_bytes": 0,
       "shared_bytes": 0})"));
}

TEST_F(CudaToolsTest, InspectShowsTheCodeForCuda) {
  std::string text = run("inspect", "");
  EXPECT_THAT(text, HasSubstr("cuda       sm_80 PTX\n"));
  EXPECT_THAT(text, HasSubstr("decode     6 launches of kernels, replayed"));
  EXPECT_THAT(text, HasSubstr("prefill    fake_prefill\n"));
}

TEST_F(CudaToolsTest, TheApiChoosesADevice) {
  cria_error error;
  CRIA_INIT(&error);
  cria_artifact *opened = nullptr;
  cria_model *model = nullptr;
  ASSERT_EQ(cria_artifact_open(path.c_str(), &opened, &error), CRIA_OK);
  cria_model_options options;
  CRIA_INIT(&options);
  std::string weights = folder.path();
  options.weights = weights.c_str();
  options.device = CRIA_DEVICE_EMULATED;
  ASSERT_EQ(cria_model_load(opened, &options, &model, &error), CRIA_OK)
      << error.message;
  const char *text = nullptr;
  EXPECT_EQ(cria_model_device(model, &text, &error), CRIA_OK);
  EXPECT_THAT(text, HasSubstr("sm_80"));
  cria_session *session = nullptr;
  ASSERT_EQ(cria_session_create(model, nullptr, &session, &error), CRIA_OK);
  cria_model_free(&model);
  std::vector<float> logits(45);
  EXPECT_EQ(cria_session_feed(session, ids.data(), 9, CRIA_LOGITS_ALL,
                              logits.data(), 45, &error),
            CRIA_OK);
  expectNear(logits, fakeLogits(ids));
  cria_session_free(&session);
  options.device = 4;
  EXPECT_EQ(cria_model_load(opened, &options, &model, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "device is 4, no cria_device");
  EXPECT_EQ(cria_model_load(opened, nullptr, &model, &error),
            CRIA_INVALID_ARGUMENT);
  options.size = 4;
  EXPECT_EQ(cria_model_load(opened, &options, &model, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_model_device(nullptr, &text, &error), CRIA_INVALID_ARGUMENT);
  cria_artifact_free(&opened);
}
