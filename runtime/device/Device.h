/// Which device a model runs on.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cria {

/// Auto is the GPU if there is one and the artifact has code for it, else the
/// CPU. Emulated is the emulated CUDA driver, which needs no GPU. The numbers
/// are those of cria_device.
enum class DeviceKind { Auto, Cpu, Cuda, Emulated };

struct DeviceOptions {
  DeviceKind kind = DeviceKind::Auto;
  /// Which GPU, as its driver counts them; none: the first that can be opened.
  std::optional<int> index = std::nullopt;
  /// The processes that share the model. The struct is copied. Null: only this
  /// process.
  const CriaRanks *ranks = nullptr;
};

/// Properties of a device.
struct DeviceInfo {
  std::string name;
  uint64_t memory = 0; // bytes of the device
  uint64_t free = 0;   // free bytes now; 0 if no context can be made to ask
  int capability = 0;  // 90 for sm_90; 0 for the CPU
};

/// The device called `name`: auto, cpu, cuda or emulated. The last two may have
/// an index: cuda:1.
Result<DeviceOptions> deviceNamed(const std::string &name);

/// NOT_FOUND: there is no device `index` among `count`.
Status noDevice(int index, int count);

} // namespace cria
