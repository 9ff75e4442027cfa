// Modules, their kernels and their variables.
#include "tools/emulator/driver/Driver.h"
#include "tools/emulator/driver/Limits.h"

#include <cstring>

using namespace cria::emulator;

namespace {

/// The buffers for messages that a caller passed to cuModuleLoadDataEx.
class Log {
public:
  Log(unsigned count, CUjit_option *options, void **values)
      : count(count), options(options), values(values) {}

  /// Writes the text and its length to the caller's buffers.
  void error(const std::string &text) {
    auto **buffer = find(CU_JIT_ERROR_LOG_BUFFER);
    auto **size = find(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    if (!buffer || !*buffer || !size)
      return;
    auto room = size_t(unsigned(uint64_t(*size)));
    if (room == 0)
      return;
    size_t length = std::min(text.size(), room - 1);
    std::memcpy(*buffer, text.data(), length);
    static_cast<char *>(*buffer)[length] = '\0';
    *size = reinterpret_cast<void *>(uint64_t(length));
  }

private:
  void **find(CUjit_option option) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == option)
        return &values[i];
    return nullptr;
  }

  unsigned count;
  CUjit_option *options;
  void **values;
};

/// Text that ends at its first zero byte; machine code is not PTX.
bool isText(const char *image) {
  return image[0] && uint8_t(image[0]) < 0x7f &&
         std::strncmp(image, "P\xedU\xba", 4);
}

CUresult resultOf(Error::Reason reason) {
  return reason == Error::Version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                  : CUDA_ERROR_INVALID_PTX;
}

CUresult load(Driver &driver, CUmodule *module, const void *image, Log log) {
  if (!module || !image)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = forbidCapture())
    return result;
  auto *text = static_cast<const char *>(image);
  if (!isText(text))
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  TranslateOptions options;
  options.capability = driver.settings.capability;
  options.checks = driver.settings.checks.accesses();
  options.global = driver.settings.checks.global;
  options.counting = driver.settings.counting;
  options.optimization = driver.settings.optimization;
  options.cache = driver.settings.cache;
  options.newestPtx = driver.settings.newestPtx();
  auto loaded = Program::load(text, options, *driver.memory);
  if (auto *error = std::get_if<Error>(&loaded)) {
    log.error("ptxas application ptx input, line " +
              std::to_string(error->line) + "; error   : " + error->message);
    return resultOf(error->reason);
  }
  auto made = std::make_unique<CUmod_st>();
  made->context = currentContext();
  made->program = std::move(std::get<std::unique_ptr<Program>>(loaded));
  *module = driver.modules.adopt(std::move(made));
  return CUDA_SUCCESS;
}

std::optional<int> attribute(const Driver &driver, const CUfunc_st &function,
                             CUfunction_attribute which) {
  const Kernel &kernel = *function.kernel;
  unsigned threads = kMaxThreads;
  if (kernel.function->maxThreads[0])
    threads = kernel.function->maxThreads[0] * kernel.function->maxThreads[1] *
              kernel.function->maxThreads[2];
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return int(threads);
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return int(kernel.sharedBytes);
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    return int(kernel.localBytes);
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    return 0;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return 32;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    return int(driver.settings.capability);
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return int(std::max<uint64_t>(
        function.maxDynamicShared,
        kSharedAlways - std::min<uint64_t>(kernel.sharedBytes, kSharedAlways)));
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return -1;
  default:
    return std::nullopt;
  }
}

} // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  ENTER(Context);
  return load(driver, module, image, Log(0, nullptr, nullptr));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  ENTER(Context);
  if (count && (!options || !values))
    return CUDA_ERROR_INVALID_VALUE;
  return load(driver, module, image, Log(count, options, values));
}

/// Programs ask whether PTX can be compiled to machine code; here it cannot.
CUresult cuLinkCreate_v2(unsigned, CUjit_option *, void **, CUlinkState *) {
  ENTER(Context);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuModuleUnload(CUmodule module) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.modules, module))
    return result;
  driver.unload(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  ENTER(Context);
  if (!function || !name)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = driver.check(driver.modules, module))
    return result;
  Kernel *kernel = module->program->find(name);
  if (!kernel)
    return CUDA_ERROR_NOT_FOUND;
  if (auto error = module->program->compile(*kernel)) {
    std::string place = "PTX line " + std::to_string(error->line) +
                        module->program->sourceOf(error->line);
    driver.reportMisuse("kernel '" + std::string(name) + "', " + place + ": " +
                        error->message);
    return CUDA_ERROR_INVALID_PTX;
  }
  CUfunction &made = module->functions[name];
  if (!made) {
    made = driver.functions.make();
    made->module = module;
    made->name = name;
    made->kernel = kernel;
  }
  *function = made;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes,
                              CUmodule module, const char *name) {
  ENTER(Context);
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = driver.check(driver.modules, module))
    return result;
  const Allocation *found = module->program->variable(name);
  if (!found)
    return CUDA_ERROR_NOT_FOUND;
  if (pointer)
    *pointer = found->address;
  if (bytes)
    *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which,
                            CUfunction function) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.functions, function))
    return result;
  auto known = attribute(driver, *function, which);
  if (!value || !known)
    return CUDA_ERROR_INVALID_VALUE;
  *value = *known;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which,
                            int value) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.functions, function))
    return result;
  if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return value >= -1 && value <= 100 ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_VALUE;
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t limit = limitsOf(driver.settings.capability).sharedPerBlock;
  if (value < 0 || uint64_t(value) + function->kernel->sharedBytes > limit)
    return CUDA_ERROR_INVALID_VALUE;
  function->maxDynamicShared = uint32_t(value);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.functions, function))
    return result;
  if (!module)
    return CUDA_ERROR_INVALID_VALUE;
  *module = function->module;
  return CUDA_SUCCESS;
}

/// Computed from threads, blocks and shared memory; registers are not known.
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function,
                                                     int blockSize,
                                                     size_t dynamicShared) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.functions, function))
    return result;
  if (!blocks || blockSize < 1 || unsigned(blockSize) > kMaxThreads)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t shared =
      function->kernel->sharedBytes + dynamicShared + kSharedReserved;
  uint64_t warps = (unsigned(blockSize) + 31) / 32;
  uint64_t fit =
      std::min<uint64_t>(kMaxBlocksPerSm, kMaxThreadsPerSm / 32 / warps);
  fit = std::min<uint64_t>(
      fit, limitsOf(driver.settings.capability).sharedPerSm / shared);
  *blocks = int(fit);
  return CUDA_SUCCESS;
}

} // extern "C"
