/// The devices of this machine.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/Device.h"

namespace cria {

/// How many devices of `kind` there are. UNAVAILABLE if there is no driver,
/// INVALID_ARGUMENT for Auto.
Result<int> deviceCount(DeviceKind kind);

/// What is known of device `index` of `kind`. NOT_FOUND if there is none.
Result<DeviceInfo> deviceInfo(DeviceKind kind, int index);

} // namespace cria
