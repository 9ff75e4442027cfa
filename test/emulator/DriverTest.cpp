// A plain program of the driver API over the library, opened as a runtime
// opens it.
#include "runtime/cuda/DriverApi.h"

#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <numeric>
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
#undef USE

  explicit Api(void *library) {
#define FIND(name) name = decltype(name)(dlsym(library, #name))
    FIND(cuInit), FIND(cuDeviceGet), FIND(cuDevicePrimaryCtxRetain);
    FIND(cuDevicePrimaryCtxRelease_v2), FIND(cuDevicePrimaryCtxReset_v2);
    FIND(cuCtxSetCurrent), FIND(cuCtxSynchronize);
    FIND(cuMemAlloc_v2), FIND(cuMemFree_v2);
    FIND(cuMemcpyHtoD_v2), FIND(cuMemcpyDtoH_v2);
    FIND(cuModuleLoadData), FIND(cuModuleLoadDataEx);
    FIND(cuModuleGetFunction), FIND(cuFuncSetAttribute);
    FIND(cuLaunchKernel), FIND(cuLaunchKernelEx), FIND(cuGetProcAddress_v2);
    FIND(cuStreamCreate), FIND(cuStreamSynchronize);
    FIND(cuStreamBeginCapture_v2), FIND(cuStreamEndCapture);
    FIND(cuStreamWaitEvent), FIND(cuStreamDestroy_v2);
    FIND(cuEventCreate), FIND(cuEventRecord), FIND(cuMemsetD32Async);
    FIND(cuGraphInstantiateWithFlags), FIND(cuGraphGetNodes);
    FIND(cuGraphKernelNodeGetParams_v2);
    FIND(cuGraphExecKernelNodeSetParams_v2), FIND(cuGraphLaunch);
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
  EXPECT_EQ(api().cuModuleLoadData(&module, ".version 9.9\n.target sm_80\n"),
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

TEST_F(Driver, ExportsWhatItFindsByName) {
  void *library = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  for (const char *name : {
#define FUNCTION(name, exported, since) #exported,
#include "tools/emulator/driver/Functions.def"
       })
    EXPECT_TRUE(dlsym(library, name)) << name;
}

} // namespace
