#include "runtime/session/Devices.h"

#include "runtime/base/Features.h"
#include "runtime/base/Limits.h"
#include "runtime/cuda/Cuda.h"

#include <unistd.h>

namespace cria {

static Status checkKind(DeviceKind kind) {
  if (kind != DeviceKind::Auto)
    return Status();
  return Status(
      CRIA_INVALID_ARGUMENT,
      "device is auto, which is no kind of device: expected cpu, cuda "
      "or emulated");
}

Result<int> deviceCount(DeviceKind kind) {
  if (Status status = checkKind(kind); !status.ok())
    return status;
  if (kind == DeviceKind::Cpu)
    return 1;
  return cuda::deviceCount(kind);
}

static DeviceInfo cpuInfo() {
  DeviceInfo info;
  info.name = cpuName();
  info.memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  info.free = availableMemory();
  return info;
}

Result<DeviceInfo> deviceInfo(DeviceKind kind, int index) {
  Result<int> count = deviceCount(kind);
  if (!count.ok())
    return count.status();
  if (index < 0 || index >= *count)
    return noDevice(index, *count);
  return kind == DeviceKind::Cpu ? cpuInfo() : cuda::deviceInfo(kind, index);
}

} // namespace cria
