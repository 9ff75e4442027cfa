/* A plain program of the driver API: doubles numbers, then reads beyond them.
 */
#include "runtime/cuda/DriverApi.h"

#include <stdio.h>

static const char ptx[] = ".version 8.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry twice(.param .u64 x)\n"
                          "{\n"
                          ".reg .b32 %t, %v;\n"
                          ".reg .b64 %p;\n"
                          "ld.param.u64 %p, [x];\n"
                          "mov.u32 %t, %tid.x;\n"
                          "mad.wide.u32 %p, %t, 4, %p;\n"
                          "ld.global.u32 %v, [%p];\n"
                          "add.u32 %v, %v, %v;\n"
                          "st.global.u32 [%p], %v;\n"
                          "ret;\n"
                          "}\n";

int main(void) {
  int numbers[4] = {1, 2, 3, 4};
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction twice;
  CUdeviceptr x;
  void *parameters[] = {&x};
  if (cuInit(0) || cuDeviceGet(&device, 0) ||
      cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context) ||
      cuModuleLoadData(&module, ptx) ||
      cuModuleGetFunction(&twice, module, "twice") ||
      cuMemAlloc_v2(&x, sizeof numbers) ||
      cuMemcpyHtoD_v2(x, numbers, sizeof numbers))
    return 1;
  cuLaunchKernel(twice, 1, 1, 1, 4, 1, 1, 0, 0, parameters, 0);
  cuMemcpyDtoH_v2(numbers, x, sizeof numbers);
  printf("%d %d %d %d\n", numbers[0], numbers[1], numbers[2], numbers[3]);
  cuLaunchKernel(twice, 1, 1, 1, 5, 1, 1, 0, 0, parameters, 0);
  printf("%d\n", cuCtxSynchronize());
  return 0;
}
