#include "runtime/cuda/Cuda.h"

#include "runtime/cuda/Model.h"

namespace cria::cuda {

Result<std::unique_ptr<OpenModel>>
open(std::shared_ptr<const Artifact> artifact, const DeviceOptions &options) {
  auto model = Model::open(std::move(artifact), options);
  if (!model.ok())
    return model.status();
  return std::unique_ptr<OpenModel>(std::move(*model));
}

Result<int> deviceCount(DeviceKind kind) {
  auto driver = Driver::open(kind);
  return driver.ok() ? (*driver)->deviceCount() : Result<int>(driver.status());
}

Result<DeviceInfo> deviceInfo(DeviceKind kind, int index) {
  auto driver = Driver::open(kind);
  if (!driver.ok())
    return driver.status();
  Result<DeviceInfo> info = (*driver)->deviceInfo(index);
  if (!info.ok())
    return info;
  // Only a context knows how much memory is free. No context can be made on a
  // device that is busy or closed.
  auto context = Context::create(*driver, false, 0, index);
  if (context.ok()) {
    Current current(**context);
    info->free = (*context)->freeBytes();
  }
  return info;
}

} // namespace cria::cuda
