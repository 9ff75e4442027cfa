// Libraries: modules that each context loads when it first needs them. Their
// kernels are handles of all contexts, and may be launched like functions.
#include "tools/emulator/driver/Limits.h"
#include "tools/emulator/driver/Module.h"
#include "tools/emulator/ptx/Link.h"

using namespace cria::emulator;

namespace {

/// The module of `library` in the current context, loaded if it is not yet.
/// The caller has no log, so what is wrong is printed.
CUresult moduleOf(CUlibrary library, CUmodule *module) {
  CUcontext context = currentContext();
  auto found = library->modules.find(context);
  if (found == library->modules.end()) {
    CUmodule made;
    char text[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {text, reinterpret_cast<void *>(sizeof text)};
    if (CUresult result =
            loadModule(library->texts, JitLog(2, options, values), &made)) {
      Driver::get().reportMisuse("the library does not load: " +
                                 std::string(text));
      return result;
    }
    made->library = library;
    found = library->modules.emplace(context, made).first;
  }
  *module = found->second;
  return CUDA_SUCCESS;
}

CUresult kernelFunction(CUkernel kernel, CUfunction *function) {
  CUmodule module;
  if (CUresult result = moduleOf(kernel->library, &module))
    return result;
  bool isNew = !module->functions.count(kernel->name);
  if (CUresult result = functionOf(module, kernel->name, function))
    return result;
  auto set = kernel->maxDynamicShared.find(module->context->device);
  if (isNew && set != kernel->maxDynamicShared.end())
    (*function)->maxDynamicShared = uint32_t(set->second);
  return CUDA_SUCCESS;
}

/// Runs `use` while the primary context of `device` is current.
template <typename F> CUresult inPrimary(CUdevice device, F use) {
  Driver &driver = Driver::get();
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  contextStack().push_back(driver.primaryContext(device));
  CUresult result = use();
  contextStack().pop_back();
  return result;
}

/// Makes the kernels of `library`, whose names its texts say.
CUresult nameKernels(Driver &driver, CUlibrary library, JitLog log) {
  auto linked = linkPtx(library->texts);
  if (auto *error = std::get_if<Error>(&linked)) {
    log.error(*error);
    return CUDA_ERROR_INVALID_PTX;
  }
  for (const Function &function : std::get<PtxModule>(linked).functions) {
    if (!function.isEntry || function.isDeclaration)
      continue;
    CUkernel &kernel = library->kernels[function.name];
    kernel = driver.kernels.make();
    kernel->library = library;
    kernel->name = function.name;
  }
  return CUDA_SUCCESS;
}

void unload(Driver &driver, CUlibrary library) {
  for (auto &[context, module] : library->modules)
    driver.unload(module);
  for (auto &[name, kernel] : library->kernels)
    driver.kernels.erase(kernel);
  driver.libraries.erase(library);
}

CUresult load(Driver &driver, CUlibrary *library, const void *code,
              JitLog log) {
  if (!library || !code)
    return CUDA_ERROR_INVALID_VALUE;
  auto texts = readImage(code, log);
  if (auto *result = std::get_if<CUresult>(&texts))
    return *result;
  CUlibrary made = driver.libraries.make();
  made->texts = std::move(std::get<PtxTexts>(texts));
  if (CUresult result = nameKernels(driver, made, log)) {
    unload(driver, made);
    return result;
  }
  *library = made;
  return CUDA_SUCCESS;
}

} // namespace

CUresult Driver::resolve(CUfunction &function) {
  auto kernel = reinterpret_cast<CUkernel>(function);
  return kernels.has(kernel) ? kernelFunction(kernel, &function)
                             : check(functions, function);
}

extern "C" {

CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
                           CUjit_option *jitOptions, void **jitValues,
                           unsigned jitCount, int *, void **, unsigned) {
  ENTER(Initialized);
  if (jitCount && (!jitOptions || !jitValues))
    return CUDA_ERROR_INVALID_VALUE;
  return load(driver, library, code, JitLog(jitCount, jitOptions, jitValues));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path,
                               CUjit_option *jitOptions, void **jitValues,
                               unsigned jitCount, int *, void **, unsigned) {
  ENTER(Initialized);
  if (!path || (jitCount && (!jitOptions || !jitValues)))
    return CUDA_ERROR_INVALID_VALUE;
  auto image = readFile(path);
  if (auto *result = std::get_if<CUresult>(&image))
    return *result;
  return load(driver, library, std::get<std::string>(image).c_str(),
              JitLog(jitCount, jitOptions, jitValues));
}

CUresult cuLibraryUnload(CUlibrary library) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.libraries, library))
    return result;
  unload(driver, library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library,
                            const char *name) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.libraries, library))
    return result;
  if (!kernel || !name)
    return CUDA_ERROR_INVALID_VALUE;
  auto found = library->kernels.find(name);
  if (found == library->kernels.end())
    return CUDA_ERROR_NOT_FOUND;
  *kernel = found->second;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.libraries, library))
    return result;
  return give(count, unsigned(library->kernels.size()));
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count,
                                   CUlibrary library) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.libraries, library))
    return result;
  if (!kernels)
    return CUDA_ERROR_INVALID_VALUE;
  for (auto &[name, kernel] : library->kernels) {
    if (count-- == 0)
      break;
    *kernels++ = kernel;
  }
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.libraries, library))
    return result;
  return module ? moduleOf(library, module) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes,
                            CUlibrary library, const char *name) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.libraries, library))
    return result;
  CUmodule module;
  if (CUresult result = moduleOf(library, &module))
    return result;
  return cuModuleGetGlobal_v2(pointer, bytes, module, name);
}

/// All memory is the host's, so a managed variable is like any other.
CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes,
                             CUlibrary library, const char *name) {
  return cuLibraryGetGlobal(pointer, bytes, library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  return function ? kernelFunction(kernel, function) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  return give(library, kernel->library);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  ENTER(Initialized);
  auto function = reinterpret_cast<CUfunction>(kernel);
  if (driver.functions.has(function))
    return cuFuncGetName(name, function);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  return give(name, kernel->name.c_str());
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute which,
                              CUkernel kernel, CUdevice device) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  return inPrimary(device, [&] {
    return cuFuncGetAttribute(value, which,
                              reinterpret_cast<CUfunction>(kernel));
  });
}

/// Sets it for all contexts of the device, also for those that load the library
/// later.
CUresult cuKernelSetAttribute(CUfunction_attribute which, int value,
                              CUkernel kernel, CUdevice device) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  CUfunction function;
  CUresult result = inPrimary(device, [&] {
    if (CUresult failed = kernelFunction(kernel, &function))
      return failed;
    return setAttribute(function, which, value);
  });
  if (result || which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return result;
  kernel->maxDynamicShared[device] = value;
  for (auto &[context, module] : kernel->library->modules) {
    auto found = module->functions.find(kernel->name);
    if (context->device == device && found != module->functions.end())
      found->second->maxDynamicShared = uint32_t(value);
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device) {
  ENTER(Initialized);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  return config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset,
                              size_t *bytes) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.kernels, kernel))
    return result;
  CUfunction function;
  if (CUresult result = kernelFunction(kernel, &function))
    return result;
  return parameterInfo(*function->kernel, index, offset, bytes);
}

} // extern "C"
