// What contexts can be asked and told, and devices next to each other.
#include "tools/emulator/driver/Driver.h"

#include <cstdio>
#include <cstring>

using namespace cria::emulator;

namespace {

/// The defaults of a real device.
const std::map<int, size_t> &defaultLimits() {
  static const std::map<int, size_t> limits = {
      {CU_LIMIT_STACK_SIZE, 1024},
      {CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
      {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
      {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
      {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
  return limits;
}

CUresult preference(int config, int most, int &stored) {
  if (config < 0 || config > most)
    return CUDA_ERROR_INVALID_VALUE;
  stored = config;
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

/// The CUDA runtime of NVIDIA's static library asks for private tables, and for
/// a proof that the driver is NVIDIA's.
CUresult cuGetExportTable(const void **, const CUuuid *) {
  ENTER(Nothing);
  if (driver.missed.insert(driver.function).second)
    fprintf(stderr, "cria-emulator: warning: cuGetExportTable returns "
                    "CUDA_ERROR_NOT_SUPPORTED: NVIDIA's CUDA runtime does not "
                    "work on this driver; link with `nvcc -cudart shared` to "
                    "use the driver's own\n");
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuCtxGetFlags(unsigned *flags) {
  ENTER(Context);
  return give(flags, currentContext()->flags);
}

CUresult cuCtxSetFlags(unsigned flags) {
  ENTER(Context);
  currentContext()->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, int limit) {
  ENTER(Context);
  auto usual = defaultLimits().find(limit);
  if (usual == defaultLimits().end())
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  auto set = currentContext()->limits.find(limit);
  return give(value, set == currentContext()->limits.end() ? usual->second
                                                           : set->second);
}

CUresult cuCtxSetLimit(int limit, size_t value) {
  ENTER(Context);
  if (!defaultLimits().count(limit))
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  currentContext()->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(int *config) {
  ENTER(Context);
  return give(config, currentContext()->cacheConfig);
}

CUresult cuCtxSetCacheConfig(int config) {
  ENTER(Context);
  return preference(config, 3, currentContext()->cacheConfig);
}

CUresult cuCtxGetSharedMemConfig(int *config) {
  ENTER(Context);
  return give(config, currentContext()->bankConfig);
}

CUresult cuCtxSetSharedMemConfig(int config) {
  ENTER(Context);
  return preference(config, 2, currentContext()->bankConfig);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(Context);
  if (least)
    *least = kLeastPriority;
  if (greatest)
    *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  ENTER(Initialized);
  if (context)
    if (CUresult result = driver.checkContext(context))
      return result;
  return give(version, 3020u);
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  ENTER(Initialized);
  context = context ? context : currentContext();
  if (CUresult result = driver.checkContext(context))
    return result;
  return give(id, (unsigned long long)(uintptr_t(context)));
}

CUresult cuCtxResetPersistingL2Cache() {
  ENTER(Context);
  return CUDA_SUCCESS;
}

/// All devices share one range of addresses, and kernels may always access the
/// memory of other devices; but programs must not depend on it.
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  ENTER(Context);
  if (CUresult result = driver.checkContext(peer))
    return result;
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (peer->device == currentContext()->device)
    return CUDA_ERROR_INVALID_DEVICE;
  return currentContext()->peers.insert(peer).second
             ? CUDA_SUCCESS
             : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  ENTER(Context);
  if (CUresult result = driver.checkContext(peer))
    return result;
  return currentContext()->peers.erase(peer)
             ? CUDA_SUCCESS
             : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  ENTER(Initialized);
  if (!driver.isDevice(device) || !driver.isDevice(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  return give(can, int(device != peer));
}

CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice source,
                                 CUdevice destination) {
  ENTER(Initialized);
  if (!driver.isDevice(source) || !driver.isDevice(destination) ||
      source == destination)
    return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
  case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
  case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    return give(value, 1);
  case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
  case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    return give(value, 0);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!id || length < 13)
    return CUDA_ERROR_INVALID_VALUE;
  snprintf(id, size_t(length), "0000:00:%02x.0", unsigned(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  ENTER(Initialized);
  if (!device || !id)
    return CUDA_ERROR_INVALID_VALUE;
  for (CUdevice other = 0; driver.isDevice(other); ++other) {
    char own[32];
    snprintf(own, sizeof own, "0000:00:%02x.0", unsigned(other));
    if (!strcmp(own, id) || !strcmp(own + 5, id))
      return give(device, other);
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

/// There is no profiler.
CUresult cuProfilerStart() {
  ENTER(Context);
  return CUDA_SUCCESS;
}

CUresult cuProfilerStop() {
  ENTER(Context);
  return CUDA_SUCCESS;
}

} // extern "C"
