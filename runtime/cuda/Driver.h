/// The CUDA driver, opened at run time: neither headers nor a toolkit of CUDA
/// are needed to build, and a machine without a driver runs everything else.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/cuda/DriverApi.h"
#include "runtime/device/Device.h"

#include <memory>
#include <string>
#include <string_view>

namespace cria::cuda {

/// X(name, symbol the library exports, CUDA version that brought this
/// signature): what the runtime cannot do without.
#define CRIA_CUDA_REQUIRED(X)                                                  \
  X(cuInit, cuInit, 2000)                                                      \
  X(cuDriverGetVersion, cuDriverGetVersion, 2020)                              \
  X(cuGetErrorName, cuGetErrorName, 6000)                                      \
  X(cuDeviceGet, cuDeviceGet, 2000)                                            \
  X(cuDeviceGetCount, cuDeviceGetCount, 2000)                                  \
  X(cuDeviceGetName, cuDeviceGetName, 2000)                                    \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000)                          \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                  \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000)            \
  X(cuCtxCreate, cuCtxCreate_v2, 3020)                                         \
  X(cuCtxDestroy, cuCtxDestroy_v2, 4000)                                       \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000)                               \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000)                                 \
  X(cuMemGetInfo, cuMemGetInfo_v2, 3020)                                       \
  X(cuMemAlloc, cuMemAlloc_v2, 3020)                                           \
  X(cuMemFree, cuMemFree_v2, 3020)                                             \
  X(cuMemHostAlloc, cuMemHostAlloc, 2020)                                      \
  X(cuMemFreeHost, cuMemFreeHost, 2000)                                        \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020)                             \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020)                             \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020)                             \
  X(cuMemsetD8Async, cuMemsetD8Async, 3020)                                    \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010)                              \
  X(cuModuleUnload, cuModuleUnload, 2000)                                      \
  X(cuModuleGetFunction, cuModuleGetFunction, 2000)                            \
  X(cuFuncGetAttribute, cuFuncGetAttribute, 2020)                              \
  X(cuFuncSetAttribute, cuFuncSetAttribute, 9000)                              \
  X(cuLaunchKernel, cuLaunchKernel, 4000)                                      \
  X(cuLaunchKernelEx, cuLaunchKernelEx, 11060)                                 \
  X(cuStreamCreate, cuStreamCreate, 2000)                                      \
  X(cuStreamDestroy, cuStreamDestroy_v2, 4000)                                 \
  X(cuStreamQuery, cuStreamQuery, 2000)                                        \
  X(cuEventCreate, cuEventCreate, 2000)                                        \
  X(cuEventDestroy, cuEventDestroy_v2, 4000)                                   \
  X(cuEventRecord, cuEventRecord, 2000)                                        \
  X(cuEventQuery, cuEventQuery, 2000)

/// What it has another way for: decoding without a graph, code that copies no
/// boxes; or what only measuring needs.
#define CRIA_CUDA_OPTIONAL(X)                                                  \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010)                      \
  X(cuStreamEndCapture, cuStreamEndCapture, 10000)                             \
  X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040)           \
  X(cuGraphLaunch, cuGraphLaunch, 10000)                                       \
  X(cuGraphDestroy, cuGraphDestroy, 10000)                                     \
  X(cuGraphExecDestroy, cuGraphExecDestroy, 10000)                             \
  X(cuEventElapsedTime, cuEventElapsedTime, 2000)                              \
  X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000)                     \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020)

/// The functions of a driver; an optional one is null where it is missing.
struct Functions {
#define CRIA_CUDA_MEMBER(name, symbol, version) decltype(&::symbol) name;
  CRIA_CUDA_REQUIRED(CRIA_CUDA_MEMBER)
  CRIA_CUDA_OPTIONAL(CRIA_CUDA_MEMBER)
#undef CRIA_CUDA_MEMBER
};

/// An initialized driver. Immutable; share it between threads.
class Driver {
public:
  /// Opens the library that `kind` stands for, or the one that
  /// CRIA_CUDA_DRIVER names. UNAVAILABLE where there is none,
  /// FAILED_PRECONDITION where it has no device or is too old.
  static Result<std::shared_ptr<const Driver>> open(DeviceKind kind);

  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;
  ~Driver();

  const Functions *operator->() const { return &functions; }
  const Functions &calls() const { return functions; }

  /// The CUDA version it supports: 12040 is 12.4.
  int version() const { return cudaVersion; }
  /// "12.4".
  std::string versionText() const;
  bool hasGraphs() const { return functions.cuGraphExecDestroy; }
  /// Whether launches that a graph has may overlap: drivers before CUDA 12.3
  /// record no such edges.
  bool hasOverlap() const { return cudaVersion >= 12030; }
  bool hasTimes() const { return functions.cuEventElapsedTime; }
  bool hasTensorMaps() const { return functions.cuTensorMapEncodeTiled; }

  Result<int> deviceCount() const;
  /// Name, memory and capability of a device; 0 where the driver does not say.
  Result<DeviceInfo> deviceInfo(int index) const;

  /// OK, or "CALL: CUDA_ERROR_NAME while DOING".
  Status status(CUresult result, const char *call,
                std::string_view doing) const;

private:
  Driver() = default;
  Status load(const std::string &library);
  Status resolve();
  Status start();
  void *find(const char *name, const char *symbol, int version) const;

  std::string path;
  void *library = nullptr;
  Functions functions = {};
  int cudaVersion = 0;
};

/// The status code that says best what `result` means.
cria_status codeOf(CUresult result);

/// Whether after `result` every call in its context fails, for good.
bool isSticky(CUresult result);

} // namespace cria::cuda
