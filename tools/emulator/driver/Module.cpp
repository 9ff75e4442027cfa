// Modules, their kernels and their variables.
#include "tools/emulator/driver/Module.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstring>

using namespace cria::emulator;

namespace cria::emulator {

void JitLog::error(const std::string &text) {
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

void JitLog::error(const Error &error) {
  this->error("ptxas application ptx input, line " +
              std::to_string(error.line) + "; error   : " + error.message);
}

void **JitLog::find(CUjit_option option) {
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == option)
      return &values[i];
  return nullptr;
}

std::variant<PtxTexts, CUresult> readImage(const void *image, JitLog log) {
  Driver &driver = Driver::get();
  auto texts = ptxOfImage(image, driver.settings.capability);
  if (auto *error = std::get_if<ImageError>(&texts)) {
    log.error(error->message);
    driver.reportMisuse(error->message);
    return error->result;
  }
  return std::move(std::get<PtxTexts>(texts));
}

static CUresult resultOf(Error::Reason reason) {
  return reason == Error::Version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                  : CUDA_ERROR_INVALID_PTX;
}

CUresult loadModule(const PtxTexts &texts, JitLog log, CUmodule *module) {
  Driver &driver = Driver::get();
  TranslateOptions options;
  options.capability = driver.settings.capability;
  options.checks = driver.settings.checks.accesses();
  options.global = driver.settings.checks.global;
  options.counting = driver.settings.counting;
  options.optimization = driver.settings.optimization;
  options.cache = driver.settings.cache;
  options.newestPtx = driver.settings.newestPtx();
  auto loaded = Program::link(texts, options, *driver.memory);
  if (auto *error = std::get_if<Error>(&loaded)) {
    log.error(*error);
    return resultOf(error->reason);
  }
  auto made = std::make_unique<CUmod_st>();
  made->context = currentContext();
  made->program = std::move(std::get<std::unique_ptr<Program>>(loaded));
  *module = driver.modules.adopt(std::move(made));
  return CUDA_SUCCESS;
}

std::variant<std::string, CUresult> readFile(const char *path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    Driver::get().reportMisuse("cannot read '" + std::string(path) +
                               "': " + buffer.getError().message());
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  return (*buffer)->getBuffer().str();
}

CUresult functionOf(CUmodule module, const std::string &name,
                    CUfunction *function) {
  Driver &driver = Driver::get();
  Kernel *kernel = module->program->find(name);
  if (!kernel)
    return CUDA_ERROR_NOT_FOUND;
  if (auto error = module->program->compile(*kernel)) {
    std::string place = "PTX line " + std::to_string(error->line) +
                        module->program->sourceOf(error->line);
    driver.reportMisuse("kernel '" + name + "', " + place + ": " +
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

} // namespace cria::emulator

namespace {

CUresult load(CUmodule *module, const void *image, JitLog log) {
  if (!module || !image)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = forbidCapture())
    return result;
  auto texts = readImage(image, log);
  if (auto *result = std::get_if<CUresult>(&texts))
    return *result;
  return loadModule(std::get<PtxTexts>(texts), log, module);
}

} // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  ENTER(Context);
  return load(module, image, JitLog());
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  ENTER(Context);
  if (count && (!options || !values))
    return CUDA_ERROR_INVALID_VALUE;
  return load(module, image, JitLog(count, options, values));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
  ENTER(Context);
  if (!module || !path)
    return CUDA_ERROR_INVALID_VALUE;
  auto image = readFile(path);
  if (auto *result = std::get_if<CUresult>(&image))
    return *result;
  return load(module, std::get<std::string>(image).c_str(), JitLog());
}

CUresult cuModuleGetLoadingMode(int *mode) {
  ENTER(Nothing);
  return give(mode, CU_MODULE_LAZY_LOADING);
}

CUresult cuModuleUnload(CUmodule module) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.modules, module))
    return result;
  if (module->library) {
    driver.reportMisuse("the module belongs to a library");
    return CUDA_ERROR_NOT_PERMITTED;
  }
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
  return functionOf(module, name, function);
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

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.modules, module))
    return result;
  return give(count, unsigned(module->program->allKernels().size()));
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count,
                                    CUmodule module) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.modules, module))
    return result;
  if (!functions)
    return CUDA_ERROR_INVALID_VALUE;
  for (auto &[name, kernel] : module->program->allKernels()) {
    if (count-- == 0)
      break;
    if (CUresult result = functionOf(module, name, functions++))
      return result;
  }
  return CUDA_SUCCESS;
}

} // extern "C"
