// The functions of modules: what they are and need.
#include "tools/emulator/driver/Driver.h"
#include "tools/emulator/driver/Limits.h"

using namespace cria::emulator;

namespace cria::emulator {

std::optional<int> attribute(const Driver &driver, const CUfunc_st &function,
                             CUfunction_attribute which) {
  const Kernel &kernel = *function.kernel;
  unsigned threads = kMaxThreads;
  if (kernel.function->maxThreads[0])
    threads = kernel.function->maxThreads[0] * kernel.function->maxThreads[1] *
              kernel.function->maxThreads[2];
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return int(threads);
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return int(kernel.sharedBytes);
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    return int(kernel.localBytes);
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    return 0;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return 32;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    return int(driver.settings.capability);
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return int(std::max<uint64_t>(
        function.maxDynamicShared,
        kSharedAlways - std::min<uint64_t>(kernel.sharedBytes, kSharedAlways)));
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return -1;
  default:
    return std::nullopt;
  }
}

CUresult setAttribute(CUfunction function, CUfunction_attribute which,
                      int value) {
  if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return value >= -1 && value <= 100 ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_VALUE;
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t limit = limitsOf(Driver::get().settings.capability).sharedPerBlock;
  if (value < 0 || uint64_t(value) + function->kernel->sharedBytes > limit)
    return CUDA_ERROR_INVALID_VALUE;
  function->maxDynamicShared = uint32_t(value);
  return CUDA_SUCCESS;
}

CUresult parameterInfo(const Kernel &kernel, size_t index, size_t *offset,
                       size_t *bytes) {
  const auto &parameters = kernel.function->parameters;
  if (!offset || index >= parameters.size())
    return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset;
  if (bytes)
    *bytes = parameters[index].size;
  return CUDA_SUCCESS;
}

} // namespace cria::emulator

extern "C" {

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which,
                            CUfunction function) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  auto known = attribute(driver, *function, which);
  if (!value || !known)
    return CUDA_ERROR_INVALID_VALUE;
  *value = *known;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which,
                            int value) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  return setAttribute(function, which, value);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  return give(module, function->module);
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
  ENTER(Healthy);
  if (CUresult result = driver.resolve(function))
    return result;
  return give(name, function->name.c_str());
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                            size_t *bytes) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  return parameterInfo(*function->kernel, index, offset, bytes);
}

/// A function is compiled when its handle is made.
CUresult cuFuncIsLoaded(int *state, CUfunction function) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  return give(state, 1);
}

CUresult cuFuncLoad(CUfunction function) {
  ENTER(Context);
  return driver.resolve(function);
}

/// The division between shared memory and cache is not modelled.
CUresult cuFuncSetCacheConfig(CUfunction function, int config) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  return config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Has no effect on devices with banks of 4 bytes.
CUresult cuFuncSetSharedMemConfig(CUfunction function, int config) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  return config >= 0 && config <= 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // extern "C"
