/// The limits of the devices that are emulated: an A100 (sm_80), an H100
/// (sm_90), a B200 (sm_100) and a GeForce RTX 5090 (sm_120).
#pragma once

#include "runtime/cuda/DriverApi.h"

#include <optional>

namespace cria::emulator {

/// What every device here has.
/// @{
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxBlockDim[3] = {1024, 1024, 64};
constexpr unsigned kMaxGridDim[3] = {2147483647, 65535, 65535};
constexpr unsigned kSharedAlways = 48 << 10; ///< a block may always use
constexpr unsigned kSharedReserved = 1 << 10;
constexpr unsigned kMaxCluster = 8; ///< blocks, on any device that has clusters
/// @}

/// The limits that differ between devices.
struct DeviceLimits {
  unsigned smCount;
  unsigned sharedPerBlock; ///< with cuFuncSetAttribute
  unsigned sharedPerSm;
  unsigned threadsPerSm, blocksPerSm;
  unsigned l2Bytes;
  unsigned clockKhz, memoryClockKhz, busBits;
};

const DeviceLimits &limitsOf(unsigned capability);

/// The value of an attribute of a device of `capability`; none if it is not
/// known.
std::optional<int> attributeOf(CUdevice_attribute attribute,
                               unsigned capability);

} // namespace cria::emulator
