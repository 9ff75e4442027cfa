// A plain program of the driver API over the library, opened as a runtime
// opens it.
#include "runtime/cuda/DriverApi.h"

#include <cstring>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <regex>
#include <set>
#include <vector>

namespace {

const char *kVectorAdd = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .b64 %rd<9>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .pred %p;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
done:
  ret;
}
)";

/// The functions that the tests use, from the library.
struct Api {
#define USE(name) decltype(&::name) name
  USE(cuInit);
  USE(cuDeviceGet);
  USE(cuDeviceGetCount);
  USE(cuCtxGetDevice);
  USE(cuMemGetInfo_v2);
  USE(cuDevicePrimaryCtxRetain);
  USE(cuDevicePrimaryCtxRelease_v2);
  USE(cuDevicePrimaryCtxReset_v2);
  USE(cuCtxSetCurrent);
  USE(cuCtxSynchronize);
  USE(cuMemAlloc_v2);
  USE(cuMemFree_v2);
  USE(cuMemcpyHtoD_v2);
  USE(cuMemcpyDtoH_v2);
  USE(cuModuleLoadData);
  USE(cuModuleLoadDataEx);
  USE(cuModuleGetFunction);
  USE(cuFuncSetAttribute);
  USE(cuFuncGetAttribute);
  USE(cuLaunchKernel);
  USE(cuLaunchKernelEx);
  USE(cuGetProcAddress_v2);
  USE(cuStreamCreate);
  USE(cuStreamSynchronize);
  USE(cuStreamBeginCapture_v2);
  USE(cuStreamEndCapture);
  USE(cuStreamWaitEvent);
  USE(cuStreamDestroy_v2);
  USE(cuEventCreate);
  USE(cuEventRecord);
  USE(cuMemsetD32Async);
  USE(cuGraphInstantiateWithFlags);
  USE(cuGraphGetNodes);
  USE(cuGraphKernelNodeGetParams_v2);
  USE(cuGraphExecKernelNodeSetParams_v2);
  USE(cuGraphLaunch);
  USE(cuGraphDestroy);
  USE(cuGraphExecDestroy);
  USE(cuMemAllocHost_v2);
  USE(cuMemFreeHost);
  USE(cuMemHostRegister_v2);
  USE(cuMemHostUnregister);
  USE(cuMemcpy);
  USE(cuMemsetD8_v2);
  USE(cuModuleUnload);
  USE(cuEventDestroy_v2);
  USE(cuEventQuery);
#undef USE

  explicit Api(void *library) {
#define FIND(name) name = decltype(name)(dlsym(library, #name))
    FIND(cuInit), FIND(cuDeviceGet), FIND(cuDevicePrimaryCtxRetain);
    FIND(cuDeviceGetCount), FIND(cuCtxGetDevice), FIND(cuMemGetInfo_v2);
    FIND(cuDevicePrimaryCtxRelease_v2), FIND(cuDevicePrimaryCtxReset_v2);
    FIND(cuCtxSetCurrent), FIND(cuCtxSynchronize);
    FIND(cuMemAlloc_v2), FIND(cuMemFree_v2);
    FIND(cuMemcpyHtoD_v2), FIND(cuMemcpyDtoH_v2);
    FIND(cuModuleLoadData), FIND(cuModuleLoadDataEx);
    FIND(cuModuleGetFunction), FIND(cuFuncSetAttribute);
    FIND(cuFuncGetAttribute);
    FIND(cuLaunchKernel), FIND(cuLaunchKernelEx), FIND(cuGetProcAddress_v2);
    FIND(cuStreamCreate), FIND(cuStreamSynchronize);
    FIND(cuStreamBeginCapture_v2), FIND(cuStreamEndCapture);
    FIND(cuStreamWaitEvent), FIND(cuStreamDestroy_v2);
    FIND(cuEventCreate), FIND(cuEventRecord), FIND(cuMemsetD32Async);
    FIND(cuGraphInstantiateWithFlags), FIND(cuGraphGetNodes);
    FIND(cuGraphKernelNodeGetParams_v2);
    FIND(cuGraphExecKernelNodeSetParams_v2), FIND(cuGraphLaunch);
    FIND(cuGraphDestroy), FIND(cuGraphExecDestroy);
    FIND(cuMemAllocHost_v2), FIND(cuMemFreeHost);
    FIND(cuMemHostRegister_v2), FIND(cuMemHostUnregister);
    FIND(cuMemcpy), FIND(cuMemsetD8_v2), FIND(cuModuleUnload);
    FIND(cuEventDestroy_v2), FIND(cuEventQuery);
#undef FIND
  }
};

class Driver : public testing::Test {
protected:
  static Api &api() {
    static Api found(dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL));
    return found;
  }

  /// Starts afresh with the environment's settings.
  void open() {
    ASSERT_EQ(api().cuInit(0), CUDA_SUCCESS);
    CUdevice device;
    ASSERT_EQ(api().cuDeviceGet(&device, 0), CUDA_SUCCESS);
    ASSERT_EQ(api().cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    ASSERT_EQ(api().cuCtxSetCurrent(context), CUDA_SUCCESS);
  }

  void loadVectorAdd() {
    ASSERT_EQ(api().cuModuleLoadData(&module, kVectorAdd), CUDA_SUCCESS);
    ASSERT_EQ(api().cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
    std::vector<float> x(kCount), y(kCount, 0.5f);
    std::iota(x.begin(), x.end(), 1.0f);
    for (CUdeviceptr *pointer : {&a, &b, &c})
      ASSERT_EQ(api().cuMemAlloc_v2(pointer, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(api().cuMemcpyHtoD_v2(a, x.data(), kBytes), CUDA_SUCCESS);
    ASSERT_EQ(api().cuMemcpyHtoD_v2(b, y.data(), kBytes), CUDA_SUCCESS);
  }

  CUresult launch(unsigned blocks, unsigned n, CUstream stream = nullptr) {
    void *parameters[] = {&a, &b, &c, &n};
    return api().cuLaunchKernel(add, blocks, 1, 1, 256, 1, 1, 0, stream,
                                parameters, nullptr);
  }

  CUstream makeStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(api().cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    return stream;
  }
  CUevent makeEvent() {
    CUevent event = nullptr;
    EXPECT_EQ(api().cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    return event;
  }

  void expectSum() {
    std::vector<float> z(kCount);
    ASSERT_EQ(api().cuMemcpyDtoH_v2(z.data(), c, kBytes), CUDA_SUCCESS);
    for (unsigned i = 0; i < kCount; ++i)
      ASSERT_EQ(z[i], float(i + 1) + 0.5f) << i;
  }

  void SetUp() override { open(); }
  void TearDown() override {
    unsetenv("CRIA_EMULATOR_FAULTS");
    api().cuInit(0);
    api().cuDevicePrimaryCtxRelease_v2(0);
    api().cuCtxSetCurrent(nullptr);
  }

  static constexpr unsigned kCount = 1000;
  static constexpr size_t kBytes = kCount * sizeof(float);
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CUdeviceptr a = 0, b = 0, c = 0;
};

TEST_F(Driver, AddsVectors) {
  loadVectorAdd();
  EXPECT_EQ(launch(4, kCount), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_SUCCESS);
  expectSum();
}

TEST_F(Driver, PoisonsTheContextUntilItIsReset) {
  loadVectorAdd();
  EXPECT_EQ(launch(5, kCount + 100), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr pointer;
  EXPECT_EQ(api().cuMemAlloc_v2(&pointer, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch(4, kCount), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api().cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  loadVectorAdd();
  EXPECT_EQ(launch(4, kCount), CUDA_SUCCESS);
  expectSum();
}

TEST_F(Driver, ReturnsTheErrorFromEveryLaterCall) {
  loadVectorAdd();
  CUstream stream = makeStream();
  CUevent event = makeEvent();
  void *host = nullptr;
  ASSERT_EQ(api().cuMemAllocHost_v2(&host, 64), CUDA_SUCCESS);
  ASSERT_EQ(
      api().cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
      CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(api().cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(api().cuGraphInstantiateWithFlags(&executable, graph, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(launch(5, kCount + 100), CUDA_SUCCESS);
  const CUresult results[] = {api().cuMemFree_v2(a),
                              api().cuMemFreeHost(host),
                              api().cuMemcpyDtoH_v2(host, b, 4),
                              api().cuModuleUnload(module),
                              api().cuStreamSynchronize(stream),
                              api().cuStreamDestroy_v2(stream),
                              api().cuEventQuery(event),
                              api().cuEventDestroy_v2(event),
                              api().cuGraphDestroy(graph),
                              api().cuGraphExecDestroy(executable),
                              api().cuCtxSynchronize()};
  for (CUresult result : results)
    EXPECT_EQ(result, CUDA_ERROR_ILLEGAL_ADDRESS) << &result - results;
  EXPECT_EQ(api().cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(Driver, SaysWhatCannotBeFreed) {
  loadVectorAdd();
  auto expect = [&](CUresult got, CUresult result, const char *text,
                    const char *place) {
    EXPECT_EQ(got, result);
    std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_THAT(printed, testing::HasSubstr(text));
    EXPECT_THAT(printed, testing::HasSubstr(place));
    testing::internal::CaptureStderr();
  };
  testing::internal::CaptureStderr();
  void *host = nullptr;
  ASSERT_EQ(api().cuMemAllocHost_v2(&host, 64), CUDA_SUCCESS);
  int local = 0;
  expect(api().cuMemFree_v2(a + 512), CUDA_ERROR_INVALID_VALUE,
         "cuMemFree_v2: expected memory of cuMemAlloc, got 0x",
         "the address is 512 bytes into allocation");
  expect(api().cuMemFree_v2(CUdeviceptr(host)), CUDA_ERROR_INVALID_VALUE,
         "expected memory of cuMemAlloc", "0 bytes into allocation");
  EXPECT_EQ(api().cuMemFree_v2(a), CUDA_SUCCESS);
  expect(api().cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE,
         "cuMemFree_v2: double free of 0x", "of 4000 bytes, which was freed");
  expect(api().cuMemFreeHost(reinterpret_cast<void *>(b)),
         CUDA_ERROR_INVALID_VALUE, "expected memory of cuMemAllocHost", "");
  EXPECT_EQ(api().cuMemFreeHost(host), CUDA_SUCCESS);
  expect(api().cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE,
         "cuMemFreeHost: double free of 0x", "which was freed");
  EXPECT_EQ(api().cuMemHostRegister_v2(&local, 4, 0), CUDA_SUCCESS);
  EXPECT_EQ(api().cuMemHostUnregister(&local), CUDA_SUCCESS);
  expect(api().cuMemHostUnregister(&local),
         CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
         "expected memory of cuMemHostRegister", "");
  expect(api().cuMemcpyHtoD_v2(a, &local, 4), CUDA_ERROR_INVALID_VALUE,
         "cuMemcpyHtoD_v2: 4 bytes at 0x", "which was freed");
  expect(api().cuMemcpy(b, a, 4), CUDA_ERROR_INVALID_VALUE,
         "cuMemcpy: 4 bytes at 0x", "which was freed");
  expect(api().cuMemsetD8_v2(b, 0, kBytes + 1), CUDA_ERROR_INVALID_VALUE,
         "cuMemsetD8_v2: 4001 bytes at 0x", "0 bytes into allocation");
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_SUCCESS); // not poisoned
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Driver, SaysWhichHandlesAreGone) {
  loadVectorAdd();
  auto expect = [&](CUresult got, const char *text) {
    EXPECT_EQ(got, CUDA_ERROR_INVALID_HANDLE);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::HasSubstr(text));
    testing::internal::CaptureStderr();
  };
  testing::internal::CaptureStderr();
  CUstream stream = makeStream();
  CUevent event = makeEvent();
  EXPECT_EQ(api().cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(api().cuEventDestroy_v2(event), CUDA_SUCCESS);
  // A new handle must not have the old one's address.
  EXPECT_NE(makeStream(), stream);
  EXPECT_NE(makeEvent(), event);
  expect(api().cuStreamDestroy_v2(stream), "is a stream that was destroyed");
  expect(launch(4, kCount, stream), "is a stream that was destroyed");
  expect(api().cuEventDestroy_v2(event), "is an event that was destroyed");
  expect(api().cuEventRecord(event, nullptr), "is an event that was destroyed");
  expect(api().cuEventQuery(nullptr), "expected an event, got null");
  EXPECT_EQ(api().cuModuleUnload(module), CUDA_SUCCESS);
  expect(launch(4, kCount), "is a function that was destroyed");
  expect(api().cuModuleUnload(module), "is a module that was destroyed");
  expect(api().cuModuleUnload(reinterpret_cast<CUmodule>(&stream)),
         "is not a module");
  testing::internal::GetCapturedStderr();
}

TEST_F(Driver, ChecksTheMemoryOfGraphsWhenTheyRun) {
  loadVectorAdd();
  CUstream stream = makeStream();
  ASSERT_EQ(
      api().cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
      CUDA_SUCCESS);
  EXPECT_EQ(api().cuMemsetD32Async(c, 0, kCount, stream), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(api().cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(api().cuGraphInstantiateWithFlags(&executable, graph, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(api().cuGraphLaunch(executable, stream), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(api().cuMemFree_v2(c), CUDA_SUCCESS);
  EXPECT_EQ(api().cuGraphLaunch(executable, stream), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Driver, LoadsAModuleWithoutAKernelThatItDoesNotKnow) {
  const std::string text =
      std::string(kVectorAdd) + ".visible .entry odd()\n{\n  frob.b32 x;\n}\n";
  ASSERT_EQ(api().cuModuleLoadData(&module, text.c_str()), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  CUfunction odd = nullptr;
  EXPECT_EQ(api().cuModuleGetFunction(&odd, module, "odd"),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "cria-emulator: error: cuModuleGetFunction: kernel 'odd', PTX line "
            "34: unknown instruction: frob.b32\n");
  EXPECT_EQ(api().cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
}

TEST_F(Driver, ReadsThePtxOfItsVersion) {
  const char *newer = ".version 9.4\n.target sm_80\n.address_size 64\n";
  EXPECT_EQ(api().cuModuleLoadData(&module, newer), CUDA_SUCCESS);
  setenv("CRIA_EMULATOR_DRIVER_VERSION", "13000", 1);
  open();
  EXPECT_EQ(api().cuModuleLoadData(&module, newer),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  unsetenv("CRIA_EMULATOR_DRIVER_VERSION");
}

TEST_F(Driver, HasAThreadsOwnDefaultStream) {
  loadVectorAdd();
  void *library = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  auto *own =
      decltype(api().cuMemcpyHtoD_v2)(dlsym(library, "cuMemcpyHtoD_v2_ptds"));
  ASSERT_TRUE(own);
  CUstream stream = makeStream();
  CUgraph graph = nullptr;
  float value = 3;
  auto begin = [&] {
    return api().cuStreamBeginCapture_v2(stream,
                                         CU_STREAM_CAPTURE_MODE_RELAXED);
  };
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  EXPECT_EQ(own(a, &value, 4), CUDA_SUCCESS);
  EXPECT_EQ(api().cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  EXPECT_EQ(api().cuMemcpyHtoD_v2(a, &value, 4),
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(api().cuStreamEndCapture(stream, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(api().cuMemcpyDtoH_v2(&value, a, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 3);
}

// 0x1 and 010 would be other numbers to who reads them as C does.
TEST_F(Driver, ReadsDecimalNumbersAlone) {
  auto said = [&](const char *name, const char *value) {
    setenv(name, value, 1);
    testing::internal::CaptureStderr();
    open();
    unsetenv(name);
    return testing::internal::GetCapturedStderr();
  };
  for (const char *value : {"0x1", "01", "0b1", "+1", "1e0", "1 ", "-1", "3"})
    EXPECT_EQ(said("CRIA_EMULATOR_OPTIMIZATION", value),
              "cria-emulator: warning: CRIA_EMULATOR_OPTIMIZATION=" +
                  std::string(value) +
                  " is ignored, expected a decimal number from 0 to 2\n");
  EXPECT_EQ(said("CRIA_EMULATOR_OPTIMIZATION", "2"), "");
  EXPECT_EQ(said("CRIA_EMULATOR_MEMORY", "010G"),
            "cria-emulator: warning: CRIA_EMULATOR_MEMORY=010G is ignored, "
            "expected bytes such as 512M or 8G\n");
  EXPECT_EQ(said("CRIA_EMULATOR_FAULTS", "cuMemAlloc:01:2"),
            "cria-emulator: warning: CRIA_EMULATOR_FAULTS=cuMemAlloc:01:2 is "
            "ignored, expected function:call:result[:sticky]\n");
}

// Each has memory of its own; a context belongs to one of them.
TEST_F(Driver, HasAsManyDevicesAsAreAskedFor) {
  setenv("CRIA_EMULATOR_DEVICES", "2", 1);
  open();
  unsetenv("CRIA_EMULATOR_DEVICES");
  int count = 0;
  CUdevice device = -1;
  EXPECT_EQ(api().cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(api().cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(api().cuDeviceGet(&device, 1), CUDA_SUCCESS);
  CUcontext second = nullptr;
  EXPECT_EQ(api().cuDevicePrimaryCtxRetain(&second, device), CUDA_SUCCESS);
  auto freeIn = [&](CUcontext current) {
    size_t free = 0, total = 0;
    EXPECT_EQ(api().cuCtxSetCurrent(current), CUDA_SUCCESS);
    EXPECT_EQ(api().cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
    return free;
  };
  size_t first = freeIn(context), other = freeIn(second);
  EXPECT_EQ(api().cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  CUdeviceptr pointer = 0, refused = 0;
  EXPECT_EQ(api().cuMemAlloc_v2(&pointer, 1 << 19), CUDA_SUCCESS);
  EXPECT_EQ(freeIn(context), first);
  EXPECT_EQ(freeIn(second), other - (1 << 19));
  EXPECT_EQ(api().cuMemAlloc_v2(&refused, other), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api().cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSetCurrent(context), CUDA_SUCCESS);
}

TEST_F(Driver, InjectsAFaultOnce) {
  setenv("CRIA_EMULATOR_FAULTS", "cuMemAlloc:2:2,cuCtxSynchronize:1:719:sticky",
         1);
  open();
  CUdeviceptr pointer = 0;
  EXPECT_EQ(api().cuMemAlloc_v2(&pointer, 64), CUDA_SUCCESS);
  EXPECT_EQ(api().cuMemAlloc_v2(&pointer, 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api().cuMemAlloc_v2(&pointer, 64), CUDA_SUCCESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(Driver, RefusesWhatTheDeviceCannotDo) {
  loadVectorAdd();
  unsigned n = kCount;
  void *parameters[] = {&a, &b, &c, &n};
  auto launchShape = [&](unsigned grid, unsigned gridY, unsigned block,
                         unsigned shared) {
    return api().cuLaunchKernel(add, grid, gridY, 1, block, 1, 1, shared,
                                nullptr, parameters, nullptr);
  };
  EXPECT_EQ(launchShape(1, 1, 1025, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launchShape(1, 65536, 32, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launchShape(0, 1, 32, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launchShape(1, 1, 32, 49153), CUDA_ERROR_INVALID_VALUE);
  auto limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(api().cuFuncSetAttribute(add, limit, 163 << 10), CUDA_SUCCESS);
  EXPECT_EQ(launchShape(1, 1, 32, 163 << 10), CUDA_SUCCESS);
  EXPECT_EQ(api().cuFuncSetAttribute(add, limit, 164 << 10),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(Driver, TellsTheMemoryOfAKernel) {
  open();
  CUmodule module;
  CUfunction kernel;
  ASSERT_EQ(api().cuModuleLoadData(&module, R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry memory()
{
  .shared .b8 tile[64];
  .local .b8 array[16];
  .reg .b32 %r;
  .reg .b64 %rd;
  mov.u32 %r, tile;
  st.shared.u32 [%r], %r;
  mov.u64 %rd, array;
  st.local.u32 [%rd], %r;
  ret;
})"),
            CUDA_SUCCESS);
  ASSERT_EQ(api().cuModuleGetFunction(&kernel, module, "memory"), CUDA_SUCCESS);
  int shared = 0, local = 0;
  EXPECT_EQ(api().cuFuncGetAttribute(
                &shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel),
            CUDA_SUCCESS);
  EXPECT_EQ(api().cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                     kernel),
            CUDA_SUCCESS);
  EXPECT_EQ(shared, 64);
  EXPECT_EQ(local, 16);
}

TEST_F(Driver, RefusesClusters) {
  loadVectorAdd();
  unsigned n = kCount;
  void *parameters[] = {&a, &b, &c, &n};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, nullptr, &attribute, 1};
  EXPECT_EQ(api().cuLaunchKernelEx(&config, add, parameters, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  EXPECT_EQ(api().cuLaunchKernelEx(&config, add, parameters, nullptr),
            CUDA_SUCCESS);
  expectSum();
  config.gridDimX = 100000;
  EXPECT_EQ(api().cuLaunchKernelEx(&config, add, parameters, nullptr),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_F(Driver, WritesTheErrorLog) {
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  const char *bad = ".version 8.0\n.target sm_80\n.address_size 64\n"
                    ".entry k() {\nfrob;\n}\n";
  EXPECT_EQ(api().cuModuleLoadDataEx(&module, bad, 2, options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_STREQ(log, "ptxas application ptx input, line 5; error   : unknown "
                    "instruction: frob");
  EXPECT_EQ(api().cuModuleLoadData(&module, ".version 10.0\n.target sm_80\n"),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(api().cuModuleLoadData(&module, "\x7f"
                                            "ELF"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(Driver, FindsFunctionsByVersion) {
  void *found = nullptr;
  CUdriverProcAddressQueryResult status;
  EXPECT_EQ(api().cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status),
            CUDA_SUCCESS);
  EXPECT_EQ(found, reinterpret_cast<void *>(api().cuMemAlloc_v2));
  EXPECT_EQ(api().cuGetProcAddress_v2("cuNothing", &found, 12000, 0, &status),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(api().cuGetProcAddress_v2("cuTensorMapEncodeTiled", &found, 11000,
                                      0, &status),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  void *library = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  constexpr cuuint64_t kPerThread = 2;
  EXPECT_EQ(api().cuGetProcAddress_v2("cuMemcpyHtoD", &found, 12000, kPerThread,
                                      &status),
            CUDA_SUCCESS);
  EXPECT_EQ(found, dlsym(library, "cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(
      api().cuGetProcAddress_v2("cuArrayCreate", &found, 3000, 0, &status),
      CUDA_SUCCESS);
  EXPECT_EQ(found, dlsym(library, "cuArrayCreate"));
}

TEST_F(Driver, NamesTheFunctionsThatItLacks) {
  void *found = nullptr;
  ASSERT_EQ(api().cuGetProcAddress_v2("cuMipmappedArrayCreate", &found, 12000,
                                      0, nullptr),
            CUDA_SUCCESS);
  auto *create = reinterpret_cast<CUresult (*)(void *, void *)>(found);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(create(nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "cria-emulator: warning: cuMipmappedArrayCreate is not implemented: "
      "it returns CUDA_ERROR_NOT_SUPPORTED\n");
}

TEST_F(Driver, CapturesTwoStreamsAndReplaysThem) {
  loadVectorAdd();
  CUstream main = makeStream(), side = makeStream();
  CUevent fork = makeEvent(), join = makeEvent();
  ASSERT_EQ(api().cuStreamBeginCapture_v2(main, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(api().cuEventRecord(fork, main), CUDA_SUCCESS);
  EXPECT_EQ(api().cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
  EXPECT_EQ(api().cuMemsetD32Async(c, 0, kCount, side), CUDA_SUCCESS);
  EXPECT_EQ(api().cuEventRecord(join, side), CUDA_SUCCESS);
  EXPECT_EQ(api().cuStreamWaitEvent(main, join, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(4, kCount, main), CUDA_SUCCESS);
  CUgraph graph;
  ASSERT_EQ(api().cuStreamEndCapture(main, &graph), CUDA_SUCCESS);
  std::vector<float> z(kCount, 9);
  ASSERT_EQ(api().cuMemcpyHtoD_v2(c, z.data(), kBytes), CUDA_SUCCESS);
  CUgraphExec executable;
  ASSERT_EQ(api().cuGraphInstantiateWithFlags(&executable, graph, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(api().cuGraphLaunch(executable, main), CUDA_SUCCESS);
  ASSERT_EQ(api().cuStreamSynchronize(main), CUDA_SUCCESS);
  expectSum();
  // The kernel again, for the first ten values alone.
  CUgraphNode nodes[2];
  size_t count = 2;
  ASSERT_EQ(api().cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  CUDA_KERNEL_NODE_PARAMS params;
  ASSERT_EQ(api().cuGraphKernelNodeGetParams_v2(nodes[1], &params),
            CUDA_SUCCESS);
  unsigned ten = 10;
  void *changed[] = {&a, &b, &c, &ten};
  params.kernelParams = changed;
  ASSERT_EQ(
      api().cuGraphExecKernelNodeSetParams_v2(executable, nodes[1], &params),
      CUDA_SUCCESS);
  ASSERT_EQ(api().cuGraphLaunch(executable, main), CUDA_SUCCESS);
  ASSERT_EQ(api().cuMemcpyDtoH_v2(z.data(), c, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(z[9], 10.5f);
  EXPECT_EQ(z[10], 0.0f);
}

TEST_F(Driver, SaysWhenACaptureIsWrong) {
  loadVectorAdd();
  CUstream main = makeStream(), side = makeStream();
  CUevent fork = makeEvent();
  auto begin = [&] {
    return api().cuStreamBeginCapture_v2(main, CU_STREAM_CAPTURE_MODE_GLOBAL);
  };
  CUgraph graph;
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  EXPECT_EQ(api().cuEventRecord(fork, main), CUDA_SUCCESS);
  EXPECT_EQ(api().cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(4, kCount, side), CUDA_SUCCESS);
  EXPECT_EQ(api().cuStreamEndCapture(main, &graph),
            CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  EXPECT_EQ(api().cuStreamSynchronize(main),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(api().cuStreamEndCapture(main, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  EXPECT_EQ(launch(4, kCount, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(api().cuStreamEndCapture(main, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(api().cuStreamEndCapture(main, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

/// The names of functions in cuda.h, the versioned ones too; empty without a
/// toolkit.
std::set<std::string> namesOfHeader() {
  const char *home = getenv("CUDA_HOME");
  std::string command = "echo '#include <cuda.h>' | cc -E -x c "
                        "-D__CUDA_API_VERSION_INTERNAL -I";
  command += home ? home + std::string("/include") : "/usr/local/cuda/include";
  std::string text;
  if (FILE *pipe = popen((command + " - 2>/dev/null").c_str(), "r")) {
    char part[4096];
    while (size_t read = fread(part, 1, sizeof part, pipe))
      text.append(part, read);
    pclose(pipe);
  }
  std::set<std::string> names;
  std::regex declaration("CUresult +(cu[A-Z]\\w+) *\\(");
  for (std::sregex_iterator i(text.begin(), text.end(), declaration), end;
       i != end; ++i)
    names.insert((*i)[1]);
  return names;
}

TEST_F(Driver, ExportsEveryFunctionOfTheHeader) {
  std::set<std::string> names = namesOfHeader();
  if (names.empty())
    GTEST_SKIP() << "cuda.h is not installed";
  EXPECT_GT(names.size(), 500u);
  void *library = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  for (const std::string &name : names)
    EXPECT_TRUE(dlsym(library, name.c_str())) << name;
}

} // namespace
