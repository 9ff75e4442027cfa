// What nvcc's host code calls before `main`: it registers fat binaries, and the
// host addresses that stand for kernels and variables.
#include "tools/emulator/cudart/Runtime.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cria::cudart {
namespace {

struct FatBinary {
  const void *image = nullptr;
  CUlibrary library = nullptr; ///< null before it is loaded
  Error error = 0;             ///< why it could not be loaded
};

struct Name {
  FatBinary *binary;
  std::string name;
};

struct Managed {
  FatBinary *binary;
  std::string name;
  void **host; ///< where host code looks for the address
};

struct Registry {
  std::recursive_mutex mutex;
  std::map<const void *, Name> kernels, variables;
  std::vector<Managed> managed;

  static Registry &get() {
    static auto *registry = new Registry; // outlives every fat binary
    return *registry;
  }
};

Error load(FatBinary &binary) {
  if (binary.library || binary.error)
    return binary.error;
  binary.error = cuLibraryLoadData(&binary.library, binary.image, nullptr,
                                   nullptr, 0, nullptr, nullptr, 0);
  return binary.error;
}

} // namespace

Error kernelOf(const void *host, CUkernel *kernel) {
  Registry &registry = Registry::get();
  std::lock_guard<std::recursive_mutex> lock(registry.mutex);
  auto found = registry.kernels.find(host);
  if (found == registry.kernels.end())
    return kInvalidDeviceFunction;
  if (Error error = load(*found->second.binary))
    return error;
  Error error = cuLibraryGetKernel(kernel, found->second.binary->library,
                                   found->second.name.c_str());
  return error == CUDA_ERROR_NOT_FOUND ? kInvalidDeviceFunction : error;
}

Error functionOf(const void *host, CUfunction *function) {
  CUkernel kernel;
  if (Error error = kernelOf(host, &kernel))
    return error;
  return cuKernelGetFunction(function, kernel);
}

Error variableOf(const void *host, CUdeviceptr *address, size_t *bytes) {
  Registry &registry = Registry::get();
  std::lock_guard<std::recursive_mutex> lock(registry.mutex);
  auto found = registry.variables.find(host);
  if (found == registry.variables.end())
    return kInvalidSymbol;
  if (Error error = load(*found->second.binary))
    return error;
  Error error =
      cuLibraryGetGlobal(address, bytes, found->second.binary->library,
                         found->second.name.c_str());
  return error == CUDA_ERROR_NOT_FOUND ? kInvalidSymbol : error;
}

} // namespace cria::cudart

using namespace cria::cudart;

#define PLAIN extern "C" __attribute__((visibility("default")))

PLAIN void **__cudaRegisterFatBinary(void *image) {
  auto *binary = new FatBinary;
  binary->image = image;
  return reinterpret_cast<void **>(binary);
}

PLAIN void __cudaRegisterFatBinaryEnd(void **) {}

/// Called at exit, when the driver may still be in use; the process frees all.
PLAIN void __cudaUnregisterFatBinary(void **) {}

PLAIN void __cudaRegisterFunction(void **binary, const char *host, char *,
                                  const char *name, int, void *, void *, void *,
                                  void *, int *) {
  Registry &registry = Registry::get();
  std::lock_guard<std::recursive_mutex> lock(registry.mutex);
  registry.kernels[host] = {reinterpret_cast<FatBinary *>(binary), name};
}

PLAIN void __cudaRegisterVar(void **binary, char *host, char *,
                             const char *name, int, size_t, int, int) {
  Registry &registry = Registry::get();
  std::lock_guard<std::recursive_mutex> lock(registry.mutex);
  registry.variables[host] = {reinterpret_cast<FatBinary *>(binary), name};
}

PLAIN void __cudaRegisterManagedVar(void **binary, void **host, char *,
                                    const char *name, int, size_t, int, int) {
  Registry &registry = Registry::get();
  std::lock_guard<std::recursive_mutex> lock(registry.mutex);
  auto *owner = reinterpret_cast<FatBinary *>(binary);
  registry.variables[host] = {owner, name};
  registry.managed.push_back({owner, name, host});
}

/// Gives host code the addresses of managed variables.
PLAIN char __cudaInitModule(void **binary) {
  if (enter())
    return 0;
  Registry &registry = Registry::get();
  std::lock_guard<std::recursive_mutex> lock(registry.mutex);
  auto *owner = reinterpret_cast<FatBinary *>(binary);
  for (const Managed &variable : registry.managed) {
    CUdeviceptr address;
    if (variable.binary != owner || remember(load(*owner)) ||
        cuLibraryGetManaged(&address, nullptr, owner->library,
                            variable.name.c_str()))
      continue;
    *variable.host = reinterpret_cast<void *>(address);
  }
  return 1;
}

API(__cudaGetKernel)(CUkernel *kernel, const void *host) {
  ENTER();
  RETURN(kernelOf(host, kernel));
}

API(cudaGetKernel)(CUkernel *kernel, const void *host) {
  ENTER();
  RETURN(kernelOf(host, kernel));
}

API(cudaGetFuncBySymbol)(CUfunction *function, const void *host) {
  ENTER();
  RETURN(functionOf(host, function));
}

API(cudaGetSymbolAddress)(void **address, const void *symbol) {
  ENTER();
  RETURN(variableOf(symbol, reinterpret_cast<CUdeviceptr *>(address), nullptr));
}

API(cudaGetSymbolSize)(size_t *bytes, const void *symbol) {
  ENTER();
  CUdeviceptr address;
  RETURN(variableOf(symbol, &address, bytes));
}
