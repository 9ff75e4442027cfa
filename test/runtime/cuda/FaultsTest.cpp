/// Faults of the CUDA driver, one in each test. After a fault the process goes
/// on: the next loaded model works.
#include "runtime/cuda/Context.h"
#include "test/runtime/cuda/Fixtures.h"

#include <fstream>

using namespace cria;
using namespace cria::test;

namespace {

class CudaFaultsTest : public CudaTest {
protected:
  Status load() { return bind().status(); }

  /// Loads a model under `faults` and feeds it until something fails.
  Status run(const std::string &faults) {
    inject(faults);
    auto model = bind();
    if (!model.ok())
      return model.status();
    auto session = Session::create(*model, 0);
    if (!session.ok())
      return session.status();
    std::vector<float> logits(45);
    Status status =
        (*session)->feed(ids.data(), 6, CRIA_LOGITS_ALL, logits.data());
    for (int i = 6; status.ok() && i < 9; ++i)
      status = (*session)->feed(&ids[i], 1, CRIA_LOGITS_LAST, logits.data());
    return status;
  }
};

} // namespace

TEST_F(CudaFaultsTest, NoDriver) {
  environment.set("CRIA_CUDA_DRIVER", "libnothing.so.1");
  for (DeviceKind kind : {DeviceKind::Cuda, DeviceKind::Emulated})
    EXPECT_THAT(bind(kind).status(),
                fails(CRIA_UNAVAILABLE, "CUDA driver library libnothing.so.1 "
                                        "is not available: "));
  EXPECT_TRUE(bind(DeviceKind::Cpu).ok());
}

TEST_F(CudaFaultsTest, NoSuchThingAsACudaDriver) {
  environment.set("CRIA_CUDA_DRIVER", "libm.so.6");
  EXPECT_THAT(load(), fails(CRIA_FAILED_PRECONDITION,
                            "the CUDA driver is too old or incomplete, it has "
                            "no cuInit, "));
  environment.set("CRIA_CUDA_DRIVER", CRIA_EMULATOR_LIBRARY);
  expectWorks();
}

TEST_F(CudaFaultsTest, AutoFallsBackToTheCpuAndSaysWhy) {
  environment.set("CRIA_CUDA_DRIVER", "libnothing.so.1");
  auto model = bind(DeviceKind::Auto);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE((*model)->onCpu());
  ASSERT_EQ((*model)->warnings().size(), 1u);
  EXPECT_THAT((*model)->warnings()[0],
              testing::StartsWith("runs on the CPU: CUDA driver library "));
  environment.set("CRIA_CUDA_DRIVER", CRIA_EMULATOR_LIBRARY);
  model = bind(DeviceKind::Auto);
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE((*model)->onCpu());
  EXPECT_TRUE((*model)->warnings().empty());
}

TEST_F(CudaFaultsTest, AutoHasNoCpuToFallBackTo) {
  nlohmann::json manifest = cudaManifest();
  manifest["target"]["kind"] = "cuda";
  manifest.erase("cpu");
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  expectWorks();
  EXPECT_THAT(bind(DeviceKind::Cpu).status(),
              fails(CRIA_INCOMPATIBLE, "has no code for the CPU"));
  environment.set("CRIA_CUDA_DRIVER", "libnothing.so.1");
  EXPECT_THAT(bind(DeviceKind::Auto).status(),
              fails(CRIA_UNAVAILABLE, "libnothing.so.1"));
}

TEST_F(CudaFaultsTest, AnArtifactWithoutCodeForCuda) {
  auto opened =
      Artifact::open(folder.write("cpu.cria", artifactOf(fakeManifest())));
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_FAILED_PRECONDITION, "has no code for CUDA"));
  EXPECT_TRUE(bind(DeviceKind::Auto).ok());
}

TEST_F(CudaFaultsTest, NoDevice) {
  {
    Environment hidden;
    hidden.set("CUDA_VISIBLE_DEVICES", "-1");
    EXPECT_THAT(load(), fails(CRIA_FAILED_PRECONDITION,
                              "CUDA_VISIBLE_DEVICES is '-1'"));
  }
  EXPECT_THAT(run("cuInit:2:100"),
              fails(CRIA_FAILED_PRECONDITION, "cuInit: CUDA_ERROR_NO_DEVICE"));
  EXPECT_THAT(run("cuInit:2:34"), fails(CRIA_FAILED_PRECONDITION,
                                        "cuInit: CUDA_ERROR_STUB_LIBRARY"));
  expectWorks();
}

TEST_F(CudaFaultsTest, ADriverTooOldForThePtx) {
  environment.set("CRIA_EMULATOR_DRIVER_VERSION", "11080");
  std::string ptx = cudaPtx();
  ptx.replace(ptx.find("7.0"), 3, "8.0");
  auto opened = open(cudaManifest(), ptx);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_FAILED_PRECONDITION,
                            "its code needs a driver for CUDA 12.0, this one "
                            "supports 11.8"));
  environment.set("CRIA_EMULATOR_DRIVER_VERSION", "12000");
  expectWorks();
}

/// Code that copies boxes is for drivers that encode tensor maps; others take
/// what there is beside it.
TEST_F(CudaFaultsTest, ADriverWithoutTensorMaps) {
  environment.set("CRIA_EMULATOR_DRIVER_VERSION", "11080");
  nlohmann::json manifest = cudaManifest();
  nlohmann::json &images = manifest["cuda"]["images"];
  images[0]["generation"] = 2;
  auto opened = open(manifest, cudaPtx());
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_FAILED_PRECONDITION,
                            "its code needs a driver for CUDA 12.0, this one "
                            "supports 11.8"));
  images.push_back(images[0]);
  images[1].erase("generation");
  opened = open(manifest, cudaPtx());
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  expectWorks();
}

TEST_F(CudaFaultsTest, TheDriverCannotCompile) {
  for (auto [code, name] :
       {std::make_pair("218", "CUDA_ERROR_INVALID_PTX"),
        std::make_pair("221", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
        std::make_pair("222", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
        std::make_pair("223", "CUDA_ERROR_JIT_COMPILATION_DISABLED"),
        std::make_pair("209", "CUDA_ERROR_NO_BINARY_FOR_GPU")}) {
    Status status =
        run(std::string("cuModuleLoadDataEx:1:") + code + ":sticky");
    EXPECT_THAT(status, fails(CRIA_FAILED_PRECONDITION, name));
    EXPECT_THAT(status, fails(CRIA_FAILED_PRECONDITION,
                              "while loading sm_80 code of "));
    EXPECT_THAT(status, fails(CRIA_FAILED_PRECONDITION, "recompile"));
  }
  expectWorks();
}

TEST_F(CudaFaultsTest, BadPtxComesWithTheCompilersLog) {
  std::string ptx = cudaPtx();
  ptx.replace(ptx.find(".address_size"), 13, ".tall_size");
  auto opened = open(cudaManifest(), ptx);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_FAILED_PRECONDITION, "tall"));
}

TEST_F(CudaFaultsTest, AKernelIsMissing) {
  nlohmann::json manifest = cudaManifest();
  manifest["cuda"]["entries"]["decode"][0]["launch"] = "clean";
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_INVALID_ARGUMENT,
                            "kernel 'clean' is not in its sm_80 code"));
}

TEST_F(CudaFaultsTest, ADriverWithoutGraphs) {
  // The functions are asked for one by one; those of graphs come after the
  // required ones.
  std::vector<std::string> names;
#define NAME(name, symbol, version) names.push_back(#name);
  CRIA_CUDA_REQUIRED(NAME)
#undef NAME
  inject("cuGetProcAddress:" + std::to_string(names.size() + 1) +
         ":500:sticky");
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto session = Session::create(*model, 0);
  std::vector<float> logits(5), all = fakeLogits(ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(
        (*session)->feed(&ids[i], 1, CRIA_LOGITS_LAST, logits.data()).ok());
    EXPECT_NEAR(logits[4], all[i * 5 + 4], 1e-4);
  }
  EXPECT_THAT(run("cuGetProcAddress:3:500"),
              fails(CRIA_FAILED_PRECONDITION, "it has no cuGetErrorName; "));
}

TEST_F(CudaFaultsTest, ADriverThatCannotCapture) {
  EXPECT_EQ(run("cuStreamBeginCapture:1:900").message(), "");
  EXPECT_THAT(run("cuStreamEndCapture:1:901"),
              fails(CRIA_INTERNAL, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "
                                   "while recording a decode step"));
  EXPECT_THAT(run("cuGraphInstantiateWithFlags:1:719"),
              fails(CRIA_ABORTED, "cuGraphInstantiate"));
  EXPECT_EQ(run("cuGraphInstantiateWithFlags:1:2").message(), "");
  expectWorks();
}

/// What a session logs whose first call of a function fails.
class CudaGraphFaultsTest : public CudaFaultsTest,
                            public testing::WithParamInterface<const char *> {};

TEST_P(CudaGraphFaultsTest, GoesOnWithoutGraphs) {
  inject(GetParam());
  std::vector<std::string> said;
  WeightSource source;
  source.checkpoint = folder.path();
  source.log.data = &said;
  source.log.write = [](void *data, int32_t, const char *text) {
    static_cast<std::vector<std::string> *>(data)->push_back(text);
  };
  auto model = Model::load(artifact, source, {DeviceKind::Emulated});
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto session = Session::create(*model, 0);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> logits(5);
  for (int32_t id : {1, 2})
    ASSERT_TRUE((*session)->feed(&id, 1, CRIA_LOGITS_LAST, logits.data()).ok());
  EXPECT_THAT(
      said, testing::ElementsAre(
                testing::HasSubstr("runs on Cria emulated sm_"),
                testing::HasSubstr("loaded in "),
                "the CUDA driver cannot record a decode step: its kernels are "
                "launched one by one"));
}
INSTANTIATE_TEST_SUITE_P(, CudaGraphFaultsTest,
                         testing::Values("cuStreamBeginCapture:1:801",
                                         "cuGraphInstantiateWithFlags:1:2"));

TEST_F(CudaFaultsTest, OutOfDeviceMemoryAtEveryAllocation) {
  Status status;
  int failures = 0;
  for (int call = 1;; ++call) {
    status = run("cuMemAlloc:" + std::to_string(call) + ":2");
    if (status.ok())
      break;
    ++failures;
    EXPECT_THAT(status, fails(CRIA_RESOURCE_EXHAUSTED,
                              "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY while "
                              "allocating "));
    EXPECT_THAT(status, fails(CRIA_RESOURCE_EXHAUSTED, " MiB free"));
  }
  EXPECT_GE(failures, 10); // weights, tables, cache, scratch, ids, logits
  EXPECT_THAT(run("cuMemHostAlloc:1:2"),
              fails(CRIA_RESOURCE_EXHAUSTED, "while pinning "));
  expectWorks();
}

TEST_F(CudaFaultsTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  nlohmann::json manifest = cudaManifest();
  manifest["cuda"]["arena"] = uint64_t(3) << 30;
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  Environment small;
  small.set("CRIA_EMULATOR_MEMORY", "1G");
  EXPECT_THAT(run(""), fails(CRIA_RESOURCE_EXHAUSTED,
                             "allocating 3072.0 MiB for scratch; "));
  opened = open();
  artifact = *opened;
  expectWorks();
}

// An error that a kernel's access causes ends the context: every session of
// the model, and nothing else.
TEST_F(CudaFaultsTest, AnIllegalAccessEndsItsModelAlone) {
  nlohmann::json manifest = cudaManifest();
  manifest["cuda"]["entries"]["decode"][0]["args"][0] = {{"arena", 508}};
  auto healthy = bind();
  ASSERT_TRUE(healthy.ok());
  auto other = Session::create(*healthy, 0);
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto first = Session::create(*model, 0), second = Session::create(*model, 0);
  std::vector<float> logits(5);
  Status status =
      (*first)->feed(ids.data(), 1, CRIA_LOGITS_LAST, logits.data());
  EXPECT_THAT(status, fails(CRIA_ABORTED, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  for (auto *dead : {&first, &second})
    EXPECT_THAT((**dead)->feed(ids.data(), 2, CRIA_LOGITS_NONE, nullptr),
                fails(CRIA_ABORTED, "the model's CUDA context has ended ("));
  EXPECT_THAT(Session::create(*model, 0).status(),
              fails(CRIA_ABORTED, "load the model again"));
  EXPECT_TRUE(
      (*other)->feed(ids.data(), 1, CRIA_LOGITS_LAST, logits.data()).ok());
  opened = open();
  artifact = *opened;
  expectWorks();
}

TEST_F(CudaFaultsTest, ErrorsOfTheHardware) {
  for (const char *code : {"700", "714", "715", "716", "717", "718", "719"})
    EXPECT_EQ(run(std::string("cuStreamQuery:3:") + code + ":sticky").code(),
              CRIA_ABORTED)
        << code;
  EXPECT_THAT(run("cuStreamQuery:3:214:sticky"),
              fails(CRIA_DATA_LOSS, "CUDA_ERROR_ECC_UNCORRECTABLE"));
  EXPECT_THAT(run("cuStreamQuery:3:702:sticky"),
              fails(CRIA_DEADLINE_EXCEEDED, "CUDA_ERROR_LAUNCH_TIMEOUT"));
  expectWorks();
}

TEST_F(CudaFaultsTest, AKernelThatHangs) {
  leaks = true; // what the kernel may still use is never freed
  environment.set("CRIA_CUDA_TIMEOUT", "0.2");
  EXPECT_THAT(run("cuStreamQuery:3:600:sticky"),
              fails(CRIA_DEADLINE_EXCEEDED, "a kernel or copy hangs"));
  expectWorks();
}

TEST_F(CudaFaultsTest, ABusyDevice) {
  EXPECT_THAT(run("cuCtxCreate:1:46"),
              fails(CRIA_UNAVAILABLE,
                    "cuCtxCreate: CUDA_ERROR_DEVICE_UNAVAILABLE while opening "
                    "device 0 ("));
  expectWorks();
}

TEST_F(CudaFaultsTest, ADeviceTooSmallForTheCode) {
  nlohmann::json manifest = cudaManifest();
  manifest["cuda"]["entries"]["prefill"][0]["shared"] = 1 << 20;
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_INCOMPATIBLE,
                            "kernel 'clear' needs 1048576 bytes of shared "
                            "memory, "));
  manifest = cudaManifest();
  manifest["cuda"]["entries"]["prefill"][0]["grid"][1] = 70000;
  opened = open(manifest);
  ASSERT_TRUE(opened.ok());
  artifact = *opened;
  EXPECT_THAT(load(), fails(CRIA_INCOMPATIBLE, "kernel 'clear' has 70000 "));
}

// Whatever call fails, with an error of that call or of the device, what comes
// back is an error and the next model works.
TEST_F(CudaFaultsTest, EveryCallMayFail) {
  std::vector<std::string> names;
#define NAME(name, symbol, version) names.push_back(#name);
  CRIA_CUDA_REQUIRED(NAME)
  CRIA_CUDA_OPTIONAL(NAME)
#undef NAME
  std::vector<const char *> faults = {":1:719:sticky", ":2:1"};
  if (triesAll())
    faults.insert(faults.end(),
                  {":1:1", ":5:1", ":2:719:sticky", ":5:719:sticky"});
  for (const std::string &name : names)
    for (const char *how : faults) {
      std::string fault = name + how;
      Status status = run(fault);
      EXPECT_EQ(status.message().find('\n'), std::string::npos) << fault;
      EXPECT_EQ(status.ok(), status.message().empty()) << fault;
    }
  expectWorks();
}

TEST_F(CudaFaultsTest, AFileThatShrinksWhileItIsRead) {
  auto checkpoint = folder.path("model.safetensors");
  auto bound = bind();
  ASSERT_TRUE(bound.ok());
  // Headers are checked first: a file that is short from the start is one.
  std::ofstream(checkpoint, std::ios::binary) << "short";
  EXPECT_FALSE(bind().ok());
  folder.write("model.safetensors", safetensorsOf(fakeTensors()));
  expectWorks();
}
