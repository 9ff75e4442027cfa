#include "runtime/cuda/Driver.h"

#include "runtime/base/Environment.h"
#include "runtime/base/Json.h"
#include "runtime/base/LibraryBeside.h"

#include <cstdlib>
#include <dlfcn.h>

namespace cria::cuda {

static std::string libraryFor(DeviceKind kind) {
  if (std::string named = environment("CRIA_CUDA_DRIVER"); !named.empty())
    return named;
  return kind == DeviceKind::Emulated ? libraryBeside("libcria-emulator.so")
                                      : "libcuda.so.1";
}

Result<std::shared_ptr<const Driver>> Driver::open(DeviceKind kind) {
  std::shared_ptr<Driver> driver(new Driver());
  Status status = driver->load(libraryFor(kind));
  if (status.ok())
    status = driver->resolve();
  if (status.ok())
    status = driver->start();
  if (!status.ok())
    return status;
  return std::shared_ptr<const Driver>(std::move(driver));
}

Status Driver::load(const std::string &name) {
  path = name;
  // A driver starts threads and registers handlers: it stays until the end.
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library)
    return Status();
  std::string why = dlerror();
  return Status(CRIA_UNAVAILABLE,
                {"CUDA driver library ", path, " is not available: ", why});
}

/// The function called `name` with the signature of `version`. Drivers older
/// than CUDA 11.3 have no cuGetProcAddress, only the exported symbols.
void *Driver::find(const char *name, const char *symbol, int version) const {
  void *function = nullptr;
  if (void *get = dlsym(library, "cuGetProcAddress_v2")) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(get)(
        name, &function, version, 0, &found);
    return result == CUDA_SUCCESS ? function : nullptr;
  }
  if (void *get = dlsym(library, "cuGetProcAddress")) {
    using Get = CUresult (*)(const char *, void **, int, cuuint64_t);
    CUresult result = reinterpret_cast<Get>(get)(name, &function, version, 0);
    return result == CUDA_SUCCESS ? function : nullptr;
  }
  return dlsym(library, symbol);
}

/// Adds `name` to the functions that are missing.
static void miss(const char *name, std::string &missing) {
  if (!missing.empty())
    missing += ", ";
  missing += name;
}

Status Driver::resolve() {
  std::string missing;
#define CRIA_CUDA_FIND(name, symbol, version)                                  \
  functions.name = reinterpret_cast<decltype(functions.name)>(                 \
      find(#name, #symbol, version));
#define CRIA_CUDA_NEED(name, symbol, version)                                  \
  CRIA_CUDA_FIND(name, symbol, version)                                        \
  if (!functions.name)                                                         \
    miss(#name, missing);
  CRIA_CUDA_REQUIRED(CRIA_CUDA_NEED)
  CRIA_CUDA_OPTIONAL(CRIA_CUDA_FIND)
#undef CRIA_CUDA_NEED
#undef CRIA_CUDA_FIND
  if (!missing.empty())
    return Status(CRIA_FAILED_PRECONDITION,
                  {path,
                   ": the CUDA driver is too old or incomplete, it has "
                   "no ",
                   missing, "; install a newer one"});
  // Half of a feature is none.
  if (!functions.cuStreamBeginCapture || !functions.cuStreamEndCapture ||
      !functions.cuGraphInstantiateWithFlags || !functions.cuGraphLaunch ||
      !functions.cuGraphDestroy)
    functions.cuGraphExecDestroy = nullptr;
  return Status();
}

Status Driver::start() {
  CUresult result = functions.cuInit(0);
  if (result == CUDA_SUCCESS)
    result = functions.cuDriverGetVersion(&cudaVersion);
  if (result == CUDA_SUCCESS)
    return Status();
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  return status(result, "cuInit",
                concat({"starting ", path,
                        visible ? "; CUDA_VISIBLE_DEVICES is " + quote(visible)
                                : std::string()}));
}

Driver::~Driver() {
  if (library)
    dlclose(library);
}

std::string Driver::versionText() const {
  return concat({cudaVersion / 1000, ".", cudaVersion % 1000 / 10});
}

Result<int> Driver::deviceCount() const {
  int count = 0;
  Status counted = status(functions.cuDeviceGetCount(&count),
                          "cuDeviceGetCount", "counting devices");
  return counted.ok() ? Result<int>(count) : counted;
}

Result<DeviceInfo> Driver::deviceInfo(int index) const {
  DeviceInfo info;
  char name[256] = {};
  CUdevice device = 0;
  std::string doing = "opening device " + std::to_string(index);
  Status found =
      status(functions.cuDeviceGet(&device, index), "cuDeviceGet", doing);
  if (found.ok())
    found = status(functions.cuDeviceGetName(name, sizeof(name) - 1, device),
                   "cuDeviceGetName", doing);
  if (!found.ok())
    return found;
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    functions.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  info.name = name;
  info.capability =
      attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
      attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  size_t bytes = 0;
  if (functions.cuDeviceTotalMem &&
      functions.cuDeviceTotalMem(&bytes, device) == CUDA_SUCCESS)
    info.memory = bytes;
  return info;
}

Status Driver::status(CUresult result, const char *call,
                      std::string_view doing) const {
  if (result == CUDA_SUCCESS)
    return Status();
  const char *name = nullptr;
  std::string what = "CUDA error " + std::to_string(result);
  if (functions.cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
    what = name;
  return Status(codeOf(result), {call, ": ", what, " while ", doing});
}

// The codes that DriverApi.h does not name.
static constexpr int systemNotReady = 802;
static constexpr int noLink = 220;
static constexpr int contained = 721;

cria_status codeOf(CUresult result) {
  switch (static_cast<int>(result)) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return CRIA_RESOURCE_EXHAUSTED;
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
  case CUDA_ERROR_DEINITIALIZED:
  case CUDA_ERROR_NOT_INITIALIZED:
  case systemNotReady:
    return CRIA_UNAVAILABLE;
  case CUDA_ERROR_STUB_LIBRARY:
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_INVALID_DEVICE:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  case CUDA_ERROR_JIT_COMPILATION_DISABLED:
  case CUDA_ERROR_INVALID_SOURCE:
  case CUDA_ERROR_NOT_SUPPORTED:
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    return CRIA_FAILED_PRECONDITION;
  case CUDA_ERROR_NOT_PERMITTED:
    return CRIA_PERMISSION_DENIED;
  case CUDA_ERROR_ECC_UNCORRECTABLE:
    return CRIA_DATA_LOSS;
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_TIMEOUT:
    return CRIA_DEADLINE_EXCEEDED;
  default:
    return isSticky(result) ? CRIA_ABORTED : CRIA_INTERNAL;
  }
}

bool isSticky(CUresult result) {
  switch (static_cast<int>(result)) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case noLink:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case contained:
  case CUDA_ERROR_UNKNOWN:
    return true;
  default:
    return false;
  }
}

} // namespace cria::cuda
