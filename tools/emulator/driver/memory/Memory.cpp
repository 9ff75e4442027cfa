// Memory of the device and memory of the host that the device may use.
#include "tools/emulator/driver/memory/Memory.h"

using namespace cria::emulator;

namespace {

CUresult allocateHost(Driver &driver, void **pointer, size_t bytes) {
  if (!pointer || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = forbidCapture())
    return result;
  uint64_t address = driver.memory->allocate(bytes, Allocation::PinnedHost);
  if (!address)
    return CUDA_ERROR_OUT_OF_MEMORY;
  currentContext()->hostAllocations.insert(address);
  *pointer = reinterpret_cast<void *>(address);
  return CUDA_SUCCESS;
}

/// Reports why `address` cannot be freed. `source` allocates memory that can.
void reportBadFree(Driver &driver, uint64_t address, const char *source) {
  bool twice = driver.memory->wasFreed(address);
  driver.reportMisuse(twice ? "double free of " + hexOf(address)
                            : "expected memory of " + std::string(source) +
                                  ", got " + hexOf(address),
                      "  the address is " + driver.memory->describe(address) +
                          "\n");
}

CUresult freeDevice(Driver &driver, CUdeviceptr pointer) {
  if (pointer && !driver.memory->free(pointer, Allocation::Device) &&
      !driver.memory->free(pointer, Allocation::Managed)) {
    reportBadFree(driver, pointer, "cuMemAlloc");
    return CUDA_ERROR_INVALID_VALUE;
  }
  currentContext()->allocations.erase(pointer);
  driver.pools.forEach(
      [&](CUmemPoolHandle_st &pool) { pool.allocations.erase(pointer); });
  return CUDA_SUCCESS;
}

} // namespace

CUresult cria::emulator::allocate(Driver &driver, CUdeviceptr *pointer,
                                  size_t bytes, Allocation::Kind kind) {
  if (!pointer || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes > driver.freeOn(currentContext()->device))
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t address = driver.memory->allocate(bytes, kind);
  if (!address)
    return CUDA_ERROR_OUT_OF_MEMORY;
  currentContext()->allocations.insert(address);
  *pointer = address;
  return CUDA_SUCCESS;
}

extern "C" {

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(Context);
  if (!free || !total)
    return CUDA_ERROR_INVALID_VALUE;
  *total = driver.capacity();
  *free = driver.freeOn(currentContext()->device);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  ENTER(Context);
  if (CUresult result = forbidCapture())
    return result;
  return allocate(driver, pointer, bytes, Allocation::Device);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
  ENTER(Context);
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = forbidCapture())
    return result;
  return allocate(driver, pointer, bytes, Allocation::Managed);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width,
                            size_t height, unsigned elementBytes) {
  ENTER(Context);
  constexpr size_t kPitch = 512;
  if (!pitch || !width || !height ||
      (elementBytes != 4 && elementBytes != 8 && elementBytes != 16))
    return CUDA_ERROR_INVALID_VALUE;
  size_t row = (width + kPitch - 1) / kPitch * kPitch;
  if (row < width || height > SIZE_MAX / row)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = forbidCapture())
    return result;
  if (CUresult result =
          allocate(driver, pointer, row * height, Allocation::Device))
    return result;
  *pitch = row;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  ENTER(Context);
  if (CUresult result = forbidCapture())
    return result;
  return freeDevice(driver, pointer);
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (captureOf(stream))
    return CUDA_ERROR_NOT_SUPPORTED;
  return allocateFrom(nullptr, pointer, bytes);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (captureOf(stream))
    return CUDA_ERROR_NOT_SUPPORTED;
  return freeDevice(driver, pointer);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
  ENTER(Context);
  return allocateHost(driver, pointer, bytes);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  ENTER(Context);
  return allocateHost(driver, pointer, bytes);
}

CUresult cuMemFreeHost(void *pointer) {
  ENTER(Context);
  auto address = uint64_t(pointer);
  if (!driver.memory->free(address, Allocation::PinnedHost)) {
    reportBadFree(driver, address, "cuMemAllocHost");
    return CUDA_ERROR_INVALID_VALUE;
  }
  currentContext()->hostAllocations.erase(address);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned) {
  ENTER(Context);
  if (!pointer || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver.memory->registerHost(uint64_t(pointer), bytes))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  currentContext()->hostAllocations.insert(uint64_t(pointer));
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *pointer) {
  ENTER(Context);
  if (!driver.memory->unregisterHost(uint64_t(pointer))) {
    reportBadFree(driver, uint64_t(pointer), "cuMemHostRegister");
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  currentContext()->hostAllocations.erase(uint64_t(pointer));
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host,
                                      unsigned) {
  ENTER(Context);
  const Allocation *found = driver.memory->find(uint64_t(host), 1);
  if (!pointer || !found || found->kind == Allocation::Device)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = CUdeviceptr(host);
  return CUDA_SUCCESS;
}

} // extern "C"
