/// The devices of this machine.
#pragma once

#include "runtime/Device.h"
#include "runtime/Status.h"

#include <cstdint>
#include <string>

namespace cria {

struct DeviceInfo {
  std::string name;
  uint64_t memory = 0; // bytes that it has
  uint64_t free = 0;   // that a model could take now; 0 where none can be made
  int capability = 0;  // 90 for sm_90; 0 for the CPU
};

/// How many devices of `kind` there are. UNAVAILABLE if there is no driver,
/// INVALID_ARGUMENT for Auto.
Result<int> deviceCount(DeviceKind kind);

/// What is known of device `index` of `kind`. NOT_FOUND if there is none.
Result<DeviceInfo> deviceInfo(DeviceKind kind, int index);

} // namespace cria
