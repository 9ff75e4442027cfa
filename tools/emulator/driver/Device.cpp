// The driver and its devices.
#include "tools/emulator/driver/Driver.h"
#include "tools/emulator/driver/Limits.h"

#include <cstring>

using namespace cria::emulator;

extern "C" {

CUresult cuInit(unsigned flags) {
  ENTER(Nothing);
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver.settings.hasDevice)
    return CUDA_ERROR_NO_DEVICE;
  driver.initialized = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  ENTER(Nothing);
  return give(version, driver.settings.driverVersion);
}

CUresult cuDeviceGetCount(int *count) {
  ENTER(Initialized);
  return give(count, int(driver.settings.devices));
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(Initialized);
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver.isDevice(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!name || length < 1)
    return CUDA_ERROR_INVALID_VALUE;
  std::string text =
      "Cria emulated sm_" + std::to_string(driver.settings.capability);
  std::strncpy(name, text.c_str(), size_t(length));
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!uuid)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, "cria emulated 00", 16);
  uuid->bytes[15] = char('0' + device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  return give(bytes, driver.capacity());
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  auto known = attributeOf(attribute, driver.settings.capability);
  if (!value || !known)
    return CUDA_ERROR_INVALID_VALUE;
  *value = *known;
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!major || !minor)
    return CUDA_ERROR_INVALID_VALUE;
  *major = int(driver.settings.capability / 10);
  *minor = int(driver.settings.capability % 10);
  return CUDA_SUCCESS;
}

} // extern "C"
