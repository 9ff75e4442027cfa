// What an address belongs to; and managed memory, which is memory of the device
// like any other, as host and device share their addresses.
#include "tools/emulator/driver/Driver.h"

#include <cstring>

using namespace cria::emulator;

namespace {

CUcontext ownerOf(Driver &driver, const Allocation &allocation) {
  CUcontext owner = nullptr;
  auto look = [&](CUctx_st &context) {
    if (context.allocations.count(allocation.address) ||
        context.hostAllocations.count(allocation.address))
      owner = &context;
  };
  driver.contexts.forEach(look);
  for (auto &[device, primary] : driver.primaries)
    if (primary.context)
      look(*primary.context);
  return owner ? owner : currentContext();
}

template <typename T> CUresult give(void *data, T value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

bool isHost(const Allocation &found) {
  return found.kind == Allocation::PinnedHost ||
         found.kind == Allocation::RegisteredHost;
}

/// The value of an attribute of an address that is allocated.
CUresult known(Driver &driver, void *data, CUpointer_attribute attribute,
               CUdeviceptr pointer, const Allocation &found) {
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return give(data, ownerOf(driver, found));
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return give(data, unsigned(isHost(found) ? CU_MEMORYTYPE_HOST
                                             : CU_MEMORYTYPE_DEVICE));
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return give(data, pointer);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!isHost(found) && found.kind != Allocation::Managed)
      return CUDA_ERROR_INVALID_VALUE;
    return give(data, pointer);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    return give(data, (unsigned long long)(found.serial));
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return give(data, found.kind == Allocation::Managed);
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return give(data, ownerOf(driver, found)->device);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    return give(data, CUdeviceptr(found.address));
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    return give(data, size_t(found.bytes));
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return give(data, true);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    return give(data, false);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return give(data, (unsigned long long)(0));
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return give(data, int(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return give(data, driver.poolOf(found.address));
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult checkManaged(Driver &driver, CUdeviceptr pointer, size_t bytes) {
  const Allocation *found = driver.memory->find(pointer, bytes);
  bool isManaged = found && (found->kind == Allocation::Managed ||
                             found->kind == Allocation::Variable);
  if (bytes && isManaged)
    return CUDA_SUCCESS;
  driver.reportMisuse("expected managed memory, got " + hexOf(pointer),
                      "  the address is " + driver.memory->describe(pointer) +
                          "\n");
  return CUDA_ERROR_INVALID_VALUE;
}

bool isPlace(Driver &driver, CUdevice device) {
  constexpr CUdevice kCpu = -1;
  return device == kCpu || driver.isDevice(device);
}

} // namespace

extern "C" {

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
                                 CUdeviceptr pointer) {
  ENTER(Context);
  const Allocation *found = driver.memory->find(pointer, 1);
  if (!found || isHost(*found))
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = found->address;
  if (bytes)
    *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
  ENTER(Context);
  constexpr unsigned kMapped = 2;
  const Allocation *found = driver.memory->find(uint64_t(pointer), 1);
  if (!flags || !found || !isHost(*found))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = kMapped;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  ENTER(Context);
  const Allocation *found = driver.memory->find(pointer, 1);
  if (!data || !found)
    return CUDA_ERROR_INVALID_VALUE;
  return known(driver, data, attribute, pointer, *found);
}

/// All attributes of an unknown address, such as one of the host, are zero.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr pointer) {
  ENTER(Context);
  if (!attributes || !data)
    return CUDA_ERROR_INVALID_VALUE;
  const Allocation *found = driver.memory->find(pointer, 1);
  for (unsigned i = 0; i < count; ++i) {
    if (found) {
      CUresult result = known(driver, data[i], attributes[i], pointer, *found);
      if (result == CUDA_SUCCESS)
        continue;
      if (result != CUDA_ERROR_INVALID_VALUE)
        return result;
    }
    switch (attributes[i]) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      give(data[i], 0);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      give(data[i], -2);
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      give(data[i], false);
      break;
    default:
      give(data[i], uint64_t(0));
    }
  }
  return CUDA_SUCCESS;
}

/// Copies are always synchronous with the host.
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  ENTER(Context);
  bool isKnown = driver.memory->find(pointer, 1);
  return value && isKnown && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, int advice,
                     CUdevice device) {
  ENTER(Context);
  if (advice < 1 || advice > 6)
    return CUDA_ERROR_INVALID_VALUE;
  if (advice > 2 && !isPlace(driver, device))
    return CUDA_ERROR_INVALID_DEVICE;
  return checkManaged(driver, pointer, bytes);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, int advice,
                        CUmemLocation location) {
  return cuMemAdvise(pointer, bytes, advice,
                     location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id
                                                                  : -1);
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device,
                            CUstream stream) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!isPlace(driver, device))
    return CUDA_ERROR_INVALID_DEVICE;
  return checkManaged(driver, pointer, bytes);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes,
                               CUmemLocation location, unsigned flags,
                               CUstream stream) {
  bool isDevice = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return flags ? CUDA_ERROR_INVALID_VALUE
               : cuMemPrefetchAsync(pointer, bytes, isDevice ? location.id : -1,
                                    stream);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr pointer, size_t,
                                unsigned flags) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
      flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  return checkManaged(driver, pointer, 1);
}

} // extern "C"
