// Launches, and what kernels are and need.
#include "tools/emulator/cudart/Runtime.h"

#include <cstdint>
#include <vector>

using namespace cria::cudart;

namespace {

struct Configuration {
  Dim3 grid, block;
  size_t shared;
  CUstream stream;
};

/// What <<<...>>> pushed and the stub of the kernel pops.
std::vector<Configuration> &configurations() {
  static thread_local std::vector<Configuration> stack;
  return stack;
}

/// The launch of a kernel that the limits forbid has an error of its own.
Error launched(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE ? kInvalidConfiguration : result;
}

Error launch(CUfunction function, Dim3 grid, Dim3 block, void **arguments,
             size_t shared, CUstream stream) {
  return launched(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x,
                                 block.y, block.z, unsigned(shared), stream,
                                 arguments, nullptr));
}

struct FuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
  int maxDynamicSharedSizeBytes, preferredShmemCarveout, clusterDimMustBeSet;
  int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
  int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
  int reserved[16];
};

struct LaunchConfig {
  Dim3 grid, block;
  size_t shared;
  CUstream stream;
  CUlaunchAttribute *attributes;
  unsigned attributeCount;
};

} // namespace

extern "C" __attribute__((visibility("default"))) unsigned
__cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared,
                            CUstream stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

API(__cudaPopCallConfiguration)
(Dim3 *grid, Dim3 *block, size_t *shared, void *stream) {
  if (configurations().empty())
    RETURN(kInvalidConfiguration);
  Configuration top = configurations().back();
  configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<CUstream *>(stream) = top.stream;
  return 0;
}

/// `kernel` is what __cudaGetKernel gave: the stub asks once, in whatever
/// context.
API(__cudaLaunchKernel)
(CUkernel kernel, Dim3 grid, Dim3 block, void **arguments, size_t shared,
 CUstream stream) {
  ENTER();
  RETURN(launch(reinterpret_cast<CUfunction>(kernel), grid, block, arguments,
                shared, stream));
}

API(cudaLaunchKernel)
(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared,
 CUstream stream) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  RETURN(launch(function, grid, block, arguments, shared, stream));
}

API(cudaLaunchCooperativeKernel)
(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared,
 CUstream stream) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  RETURN(launched(cuLaunchCooperativeKernel(
      function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
      unsigned(shared), stream, arguments)));
}

API(cudaLaunchKernelExC)
(const LaunchConfig *config, const void *host, void **arguments) {
  ENTER();
  CUfunction function;
  if (!config)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  TRY(functionOf(host, &function));
  CUlaunchConfig same = {};
  same.gridDimX = config->grid.x;
  same.gridDimY = config->grid.y;
  same.gridDimZ = config->grid.z;
  same.blockDimX = config->block.x;
  same.blockDimY = config->block.y;
  same.blockDimZ = config->block.z;
  same.sharedMemBytes = unsigned(config->shared);
  same.hStream = config->stream;
  same.attrs = config->attributes;
  same.numAttrs = config->attributeCount;
  RETURN(launched(cuLaunchKernelEx(&same, function, arguments, nullptr)));
}

API(cudaLaunchHostFunc)(CUstream stream, CUhostFn function, void *userData) {
  ENTER();
  RETURN(cuLaunchHostFunc(stream, function, userData));
}

API(cudaFuncGetAttributes)(FuncAttributes *attributes, const void *host) {
  ENTER();
  CUfunction function;
  if (!attributes)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  TRY(functionOf(host, &function));
  *attributes = {};
  auto ask = [&](int which, auto &to) {
    int value = 0;
    CUresult result =
        cuFuncGetAttribute(&value, CUfunction_attribute(which), function);
    to = value;
    return result;
  };
  TRY(ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, attributes->sharedSizeBytes));
  TRY(ask(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, attributes->constSizeBytes));
  TRY(ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, attributes->localSizeBytes));
  TRY(ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
          attributes->maxThreadsPerBlock));
  TRY(ask(CU_FUNC_ATTRIBUTE_NUM_REGS, attributes->numRegs));
  TRY(ask(CU_FUNC_ATTRIBUTE_PTX_VERSION, attributes->ptxVersion));
  TRY(ask(CU_FUNC_ATTRIBUTE_BINARY_VERSION, attributes->binaryVersion));
  TRY(ask(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, attributes->cacheModeCA));
  TRY(ask(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
          attributes->maxDynamicSharedSizeBytes));
  TRY(ask(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
          attributes->preferredShmemCarveout));
  return 0;
}

/// The attributes have the driver's numbers.
API(cudaFuncSetAttribute)(const void *host, int which, int value) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  CUkernel kernel;
  TRY(kernelOf(host, &kernel));
  CUdevice device;
  TRY(cuCtxGetDevice(&device));
  RETURN(
      cuKernelSetAttribute(CUfunction_attribute(which), value, kernel, device));
}

API(cudaFuncSetCacheConfig)(const void *host, int config) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  RETURN(cuFuncSetCacheConfig(function, config));
}

API(cudaFuncGetName)(const char **name, const void *host) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  RETURN(cuFuncGetName(name, function));
}

API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int *blocks, const void *host, int blockSize, size_t shared, unsigned flags) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  RETURN(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, function, blockSize, shared, flags));
}

API(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
(int *blocks, const void *host, int blockSize, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, host, blockSize, shared, 0);
}

API(cudaOccupancyAvailableDynamicSMemPerBlock)
(size_t *bytes, const void *host, int blocks, int blockSize) {
  ENTER();
  CUfunction function;
  TRY(functionOf(host, &function));
  RETURN(cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks,
                                                 blockSize));
}
