// Pools of memory. Memory of a pool is memory of the device; a pool counts it
// and keeps none that was freed.
#include "tools/emulator/driver/memory/Memory.h"

using namespace cria::emulator;

namespace {

CUmemoryPool defaultPool(Driver &driver, CUdevice device) {
  CUmemoryPool &pool = driver.defaultPools[device];
  if (!pool) {
    pool = driver.pools.make();
    pool->device = device;
  }
  return pool;
}

CUmemoryPool poolOf(Driver &driver, CUdevice device) {
  auto set = driver.currentPools.find(device);
  return set == driver.currentPools.end() ? defaultPool(driver, device)
                                          : set->second;
}

uint64_t usedOf(Driver &driver, CUmemoryPool pool) {
  uint64_t used = 0;
  for (uint64_t address : pool->allocations)
    if (const Allocation *found = driver.memory->find(address, 1))
      used += found->bytes;
  return used;
}

constexpr int kFirstFlag = 1, kLastFlag = 3; ///< reuse policies, which are ints

} // namespace

CUmemoryPool Driver::poolOf(uint64_t address) {
  CUmemoryPool found = nullptr;
  pools.forEach([&](CUmemPoolHandle_st &pool) {
    if (pool.allocations.count(address))
      found = &pool;
  });
  return found;
}

CUresult cria::emulator::allocateFrom(CUmemoryPool pool, CUdeviceptr *pointer,
                                      size_t bytes) {
  Driver &driver = Driver::get();
  if (!pool)
    pool = ::poolOf(driver, currentContext()->device);
  if (pool->most && usedOf(driver, pool) + bytes > pool->most)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult result = allocate(driver, pointer, bytes, Allocation::Device))
    return result;
  pool->allocations.insert(*pointer);
  pool->high = std::max(pool->high, usedOf(driver, pool));
  return CUDA_SUCCESS;
}

extern "C" {

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  ENTER(Initialized);
  if (!pool || !properties ||
      properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      !driver.isDevice(properties->location.id))
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes) {
    driver.reportMisuse("memory of pools cannot be shared with processes");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *pool = driver.pools.make();
  (*pool)->device = properties->location.id;
  (*pool)->most = properties->maxSize;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  for (auto &[device, usual] : driver.defaultPools)
    if (usual == pool)
      return CUDA_ERROR_INVALID_VALUE;
  for (auto i = driver.currentPools.begin(); i != driver.currentPools.end();)
    i = i->second == pool ? driver.currentPools.erase(i) : std::next(i);
  driver.pools.erase(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  ENTER(Initialized);
  return driver.check(driver.pools, pool);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute >= kFirstFlag && attribute <= kLastFlag)
    pool->flags[attribute - kFirstFlag] = *static_cast<int *>(value);
  else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    pool->threshold = *static_cast<cuuint64_t *>(value);
  else if (*static_cast<cuuint64_t *>(value) == 0 &&
           (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
            attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH))
    pool->high = usedOf(driver, pool);
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute >= kFirstFlag && attribute <= kLastFlag) {
    *static_cast<int *>(value) = pool->flags[attribute - kFirstFlag];
    return CUDA_SUCCESS;
  }
  auto *number = static_cast<cuuint64_t *>(value);
  switch (attribute) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    *number = pool->threshold;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    *number = usedOf(driver, pool);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    *number = pool->high;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
                            size_t count) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  for (size_t i = 0; i < count; ++i)
    if (!map || !driver.isDevice(map[i].location.id))
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool,
                            CUmemLocation *location) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  if (!flags || !location || !driver.isDevice(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes,
                                 CUmemoryPool pool, CUstream stream) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  if (CUresult result = checkStream(stream))
    return result;
  if (captureOf(stream))
    return CUDA_ERROR_NOT_SUPPORTED;
  return allocateFrom(pool, pointer, bytes);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  return give(pool, defaultPool(driver, device));
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  return give(pool, poolOf(driver, device));
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (CUresult result = driver.check(driver.pools, pool))
    return result;
  if (pool->device != device)
    return CUDA_ERROR_INVALID_VALUE;
  driver.currentPools[device] = pool;
  return CUDA_SUCCESS;
}

} // extern "C"
