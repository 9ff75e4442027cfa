// Virtual memory: ranges of addresses, memory of its own (a file without a
// name), and mappings of one into the other. Kernels see a mapping as an
// allocation.
#include "tools/emulator/driver/Driver.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace cria::emulator;

namespace {

/// Memory without an address.
struct PhysicalMemory {
  CUmemAllocationProp properties = {};
  int file = -1;
  uint64_t bytes = 0;
  unsigned handles = 1; ///< calls of cuMemRelease that are still allowed
  unsigned mappings = 0;
};

constexpr uint64_t kGranularity = 2 << 20;

/// The ranges, the memory and the mappings. A handle is the address of its
/// memory.
struct Space {
  Handles<PhysicalMemory> physical{"memory of cuMemCreate"};
  std::map<uint64_t, uint64_t> reserved; ///< bytes, by address
  struct Mapping {
    uint64_t bytes;
    PhysicalMemory *memory;
    bool isAccessible;
  };
  std::map<uint64_t, Mapping> mappings; ///< by address

  static Space &get() {
    static Space space;
    return space;
  }

  /// Tells the device which memory is mapped and accessible. Neighbouring
  /// mappings are one allocation.
  void publish(DeviceMemory &memory) {
    std::map<uint64_t, uint64_t> runs;
    for (auto &[address, mapping] : mappings) {
      if (!mapping.isAccessible)
        continue;
      if (!runs.empty() &&
          runs.rbegin()->first + runs.rbegin()->second == address)
        runs.rbegin()->second += mapping.bytes;
      else
        runs[address] = mapping.bytes;
    }
    memory.setMapped(runs);
  }

  /// The mapping that contains the address, or null.
  Mapping *mappingAt(uint64_t address) {
    auto after = mappings.upper_bound(address);
    if (after == mappings.begin())
      return nullptr;
    auto &[start, mapping] = *std::prev(after);
    return address - start < mapping.bytes ? &mapping : nullptr;
  }

  /// Frees the memory if nothing uses it any more.
  void freeUnused(PhysicalMemory *memory) {
    if (memory->handles || memory->mappings)
      return;
    close(memory->file);
    physical.erase(memory);
  }
};

PhysicalMemory *memoryOf(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<PhysicalMemory *>(handle);
}

/// CUDA_SUCCESS if the handle exists and is not released; else reports what is
/// wrong with it.
CUresult check(Driver &driver, CUmemGenericAllocationHandle handle) {
  PhysicalMemory *memory = memoryOf(handle);
  if (CUresult result = driver.check(Space::get().physical, memory))
    return result;
  if (memory->handles)
    return CUDA_SUCCESS;
  driver.reportMisuse(hexOf(handle) +
                      " was released; only its mappings remain");
  return CUDA_ERROR_INVALID_HANDLE;
}

/// Whether [address, address + bytes) lies in a reserved range.
bool isReserved(uint64_t address, uint64_t bytes) {
  auto &reserved = Space::get().reserved;
  auto after = reserved.upper_bound(address);
  if (after == reserved.begin())
    return false;
  auto [start, size] = *std::prev(after);
  return bytes <= size && address - start <= size - bytes;
}

/// Whether [address, address + bytes) is one mapping of cuMemMap, or several
/// that follow each other; else reports that it is not.
bool checkMapped(Driver &driver, uint64_t address, uint64_t bytes) {
  auto &mappings = Space::get().mappings;
  uint64_t covered = 0;
  for (auto i = mappings.find(address);
       i != mappings.end() && i->first == address + covered && covered < bytes;
       ++i)
    covered += i->second.bytes;
  if (bytes && covered == bytes)
    return true;
  driver.reportMisuse(std::to_string(bytes) + " bytes at " + hexOf(address) +
                      " are no mappings of cuMemMap");
  return false;
}

bool isDeviceMemory(Driver &driver, const CUmemAllocationProp *properties) {
  return properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         driver.isDevice(properties->location.id);
}

} // namespace

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t align,
                             CUdeviceptr, unsigned long long flags) {
  ENTER(Initialized);
  if (!pointer || !bytes || bytes % kGranularity || flags ||
      (align & (align - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t address =
      driver.memory->reserve(bytes, std::max<uint64_t>(align, kGranularity));
  if (!address)
    return CUDA_ERROR_OUT_OF_MEMORY;
  Space::get().reserved[address] = bytes;
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  ENTER(Initialized);
  auto &space = Space::get();
  auto found = space.reserved.find(pointer);
  if (found == space.reserved.end() || found->second != bytes) {
    driver.reportMisuse(hexOf(pointer) + " is no range of " +
                        std::to_string(bytes) +
                        " bytes from cuMemAddressReserve");
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto mapped = space.mappings.lower_bound(pointer);
  if (mapped != space.mappings.end() && mapped->first < pointer + bytes) {
    driver.reportMisuse("memory is still mapped at " + hexOf(mapped->first));
    return CUDA_ERROR_INVALID_VALUE;
  }
  space.reserved.erase(found);
  driver.memory->release(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties,
                     unsigned long long flags) {
  ENTER(Initialized);
  if (!handle || !bytes || bytes % kGranularity || flags ||
      !isDeviceMemory(driver, properties))
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->requestedHandleTypes) {
    driver.reportMisuse("memory cannot be shared with processes");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  int file = memfd_create("cria-emulator", MFD_CLOEXEC);
  if (bytes > driver.freeOn(properties->location.id) || file < 0 ||
      ftruncate(file, off_t(bytes))) {
    if (file >= 0)
      close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  PhysicalMemory *made = Space::get().physical.make();
  made->properties = *properties;
  made->file = file;
  made->bytes = bytes;
  *handle = CUmemGenericAllocationHandle(uintptr_t(made));
  return CUDA_SUCCESS;
}

/// The memory lives as long as it is mapped.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(Initialized);
  if (CUresult result = check(driver, handle))
    return result;
  --memoryOf(handle)->handles;
  Space::get().freeUnused(memoryOf(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  ENTER(Initialized);
  auto &space = Space::get();
  if (CUresult result = check(driver, handle))
    return result;
  PhysicalMemory *memory = memoryOf(handle);
  bool fits = bytes && bytes % kGranularity == 0 && offset == 0 && !flags &&
              pointer % kGranularity == 0 && bytes <= memory->bytes &&
              isReserved(pointer, bytes);
  auto next = space.mappings.lower_bound(pointer);
  bool overlaps = next != space.mappings.end() && next->first < pointer + bytes;
  if (next != space.mappings.begin()) {
    auto &[start, mapping] = *std::prev(next);
    overlaps |= start + mapping.bytes > pointer;
  }
  if (!fits || overlaps)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver.memory->map(pointer, bytes, memory->file))
    return CUDA_ERROR_OUT_OF_MEMORY;
  space.mappings[pointer] = {bytes, memory, false};
  ++memory->mappings;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  ENTER(Initialized);
  auto &mappings = Space::get().mappings;
  if (!checkMapped(driver, pointer, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  for (auto i = mappings.find(pointer);
       i != mappings.end() && i->first < pointer + bytes;) {
    driver.memory->unmap(i->first, i->second.bytes);
    --i->second.memory->mappings;
    Space::get().freeUnused(i->second.memory);
    i = mappings.erase(i);
  }
  Space::get().publish(*driver.memory);
  return CUDA_SUCCESS;
}

/// Memory is no allocation for kernels and copies before a device may access
/// it.
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes,
                        const CUmemAccessDesc *access, size_t count) {
  ENTER(Initialized);
  if (!access || !count)
    return CUDA_ERROR_INVALID_VALUE;
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !driver.isDevice(access[i].location.id))
      return CUDA_ERROR_INVALID_DEVICE;
    any |= access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  if (!checkMapped(driver, pointer, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  auto &mappings = Space::get().mappings;
  for (auto i = mappings.find(pointer);
       i != mappings.end() && i->first < pointer + bytes; ++i)
    i->second.isAccessible = any;
  Space::get().publish(*driver.memory);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags,
                        const CUmemLocation *location, CUdeviceptr pointer) {
  ENTER(Initialized);
  auto *mapping = Space::get().mappingAt(pointer);
  if (!flags || !location || !mapping || !driver.isDevice(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->isAccessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes,
                                       const CUmemAllocationProp *properties,
                                       int option) {
  ENTER(Initialized);
  if (!bytes || !isDeviceMemory(driver, properties) || option < 0 || option > 1)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                       CUmemGenericAllocationHandle handle) {
  ENTER(Initialized);
  if (CUresult result = check(driver, handle))
    return result;
  return give(properties, memoryOf(handle)->properties);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                     void *pointer) {
  ENTER(Initialized);
  auto *mapping = Space::get().mappingAt(uint64_t(pointer));
  if (!handle || !mapping)
    return CUDA_ERROR_INVALID_VALUE;
  ++mapping->memory->handles;
  *handle = CUmemGenericAllocationHandle(uintptr_t(mapping->memory));
  return CUDA_SUCCESS;
}

} // extern "C"
