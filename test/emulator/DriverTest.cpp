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

} // namespace
