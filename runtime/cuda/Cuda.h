/// What the rest of the runtime calls for CUDA devices, and for the emulated
/// one. In a build without CUDA, Without.cpp refuses it: UNAVAILABLE.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/device/Backend.h"
#include "runtime/device/Device.h"

#include <memory>

namespace cria::cuda {

/// A model whose code is on its device, before its weights are.
class OpenModel : public BoundModel {
public:
  /// Joins the other ranks if there are any, and uploads the weights. Call it
  /// once, before anything else.
  virtual Status bind(const WeightSource &source) = 0;
};

/// Finds the device and loads the code: all that can fail for want of a device
/// that can run the artifact. `options.kind` is not Cpu.
Result<std::unique_ptr<OpenModel>>
open(std::shared_ptr<const Artifact> artifact, const DeviceOptions &options);

/// How many devices the driver of `kind` has.
Result<int> deviceCount(DeviceKind kind);
/// What is known of device `index`, which there is.
Result<DeviceInfo> deviceInfo(DeviceKind kind, int index);

} // namespace cria::cuda
