/// Which device a model runs on.
#pragma once

#include "runtime/Status.h"

#include <string>

namespace cria {

/// Auto is the GPU where there is one and the artifact has code for it, else
/// the CPU. Emulated is the emulated CUDA driver, which needs no GPU. The
/// numbers are those of cria_device.
enum class DeviceKind { Auto, Cpu, Cuda, Emulated };

struct DeviceOptions {
  DeviceKind kind = DeviceKind::Auto;
  /// Keep what the CUDA driver compiles on disk, for the next time.
  bool cache = true;
};

/// The kind called `name`: auto, cpu, cuda or emulated.
Result<DeviceKind> deviceNamed(const std::string &name);

} // namespace cria
