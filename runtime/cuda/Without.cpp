/// A build without CUDA devices.
#include "runtime/cuda/Cuda.h"

namespace cria::cuda {

static Status without() {
  return Status(CRIA_UNAVAILABLE, "this build of libcria knows no CUDA");
}

Result<std::unique_ptr<OpenModel>> open(std::shared_ptr<const Artifact>,
                                        const DeviceOptions &) {
  return without();
}

Result<int> deviceCount(DeviceKind) { return without(); }

Result<DeviceInfo> deviceInfo(DeviceKind, int) { return without(); }

} // namespace cria::cuda
