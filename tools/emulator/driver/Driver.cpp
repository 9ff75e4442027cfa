#include "tools/emulator/driver/Driver.h"

#include "llvm/ADT/StringRef.h"

namespace cria::emulator {

Driver &Driver::get() {
  static auto *driver = new Driver; // never destroyed: threads may outlive it
  return *driver;
}

void Driver::refresh() {
  std::string now = settingsText();
  if (memory && now == text)
    return;
  text = now;
  settings = readSettings();
  calls.clear();
  if (!memory || memory->used() == 0)
    memory = std::make_unique<DeviceMemory>(settings.memory * settings.devices,
                                            settings.checks.memory);
}

uint64_t Driver::freeOn(CUdevice device) {
  if (settings.devices == 1)
    return memory->capacity() - memory->used();
  uint64_t used = 0;
  auto add = [&](const CUctx_st &context) {
    if (context.device == device)
      for (uint64_t address : context.allocations)
        if (const Allocation *found = memory->find(address, 1))
          used += found->bytes;
  };
  contexts.forEach(add);
  for (auto &[own, primary] : primaries)
    if (primary.context)
      add(*primary.context);
  return capacity() - std::min(capacity(), used);
}

void Driver::clear(CUctx_st &context) {
  functions.eraseIf([&](CUfunc_st &function) {
    return function.module->context == &context;
  });
  modules.eraseIf([&](CUmod_st &module) { return module.context == &context; });
  libraries.forEach(
      [&](CUlib_st &library) { library.modules.erase(&context); });
  streams.eraseIf(
      [&](CUstream_st &stream) { return stream.context == &context; });
  events.eraseIf([&](CUevent_st &event) { return event.context == &context; });
  arrays.eraseIf([&](CUarray_st &array) { return array.context == &context; });
  for (uint64_t address : context.allocations)
    if (!memory->free(address, Allocation::Device))
      memory->free(address, Allocation::Managed);
  for (uint64_t address : context.hostAllocations)
    if (!memory->free(address, Allocation::PinnedHost))
      memory->unregisterHost(address);
  CUctx_st cleared;
  cleared.isPrimary = context.isPrimary;
  cleared.device = context.device;
  cleared.flags = context.flags;
  context = std::move(cleared);
}

void Driver::flushPrinted() {
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  std::fflush(stdout);
  printed.clear();
}

void Driver::unload(CUmodule module) {
  for (auto &[name, function] : module->functions)
    functions.erase(function);
  modules.erase(module);
}

std::string hexOf(uint64_t address) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
  return text;
}

static void print(FILE *to, const Finding &finding) {
  fprintf(to, "cria-emulator: error: %s\n%s", finding.headline.c_str(),
          finding.details.c_str());
  fflush(to);
}

void Driver::report(const Finding &finding) {
  print(stderr, finding);
  if (settings.report.empty())
    return;
  if (FILE *file = fopen(settings.report.c_str(), "a")) {
    print(file, finding);
    fclose(file);
  }
}

void Driver::reportMisuse(const std::string &what, const std::string &details) {
  report({Finding::Misuse, function + ": " + what, details});
}

std::vector<CUcontext> &contextStack() {
  static thread_local std::vector<CUcontext> stack;
  return stack;
}

CUcontext currentContext() {
  return contextStack().empty() ? nullptr : contextStack().back();
}

/// The result that the environment injects into call `number` of `function`.
static CUresult injected(const Settings &settings, llvm::StringRef function,
                         uint64_t number) {
  for (const Fault &fault : settings.faults)
    if (fault.function == function &&
        (fault.sticky ? number >= fault.call : number == fault.call))
      return fault.result;
  return CUDA_SUCCESS;
}

static CUresult unmet(Driver &driver, Needs needs) {
  if (needs == Needs::Nothing)
    return CUDA_SUCCESS;
  if (!driver.initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::Initialized)
    return CUDA_SUCCESS;
  CUcontext context = currentContext();
  if (!context)
    return needs == Needs::Context ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
  if (!driver.isContext(context))
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->error;
}

/// Whether the call waits for launches, or begins one: then a device writes
/// what kernels have printed.
static bool flushesPrinted(llvm::StringRef name) {
  for (llvm::StringRef begin :
       {"cuMemcpy", "cuModule", "cuLaunch", "cuGraphLaunch", "cuCtxDestroy",
        "cuDevicePrimaryCtx"})
    if (name.starts_with(begin))
      return true;
  return name.contains("Synchronize");
}

Call::Call(const char *function, Needs needs)
    : driver(Driver::get()), lock(driver.mutex), outer(driver.function),
      outerIsPerThread(driver.nullIsPerThread) {
  driver.function = function;
  driver.nullIsPerThread = std::exchange(criaPerThreadStream, false);
  llvm::StringRef name = function;
  if (!driver.memory || name == "cuInit")
    driver.refresh();
  size_t version = name.rfind("_v");
  name = name.substr(0, version);
  if (!name.starts_with("cuLaunchKernel") && name != "cuGraphLaunch" &&
      name != "cuEventRecord")
    driver.traces.clear(); // the program may have waited for its launches
  if (!driver.printed.empty() && flushesPrinted(name))
    driver.flushPrinted();
  uint64_t number = ++driver.calls[name.str()];
  result = injected(driver.settings, name, number);
  if (result == CUDA_SUCCESS)
    result = unmet(driver, needs);
}

Call::~Call() {
  driver.function = outer;
  driver.nullIsPerThread = outerIsPerThread;
}

} // namespace cria::emulator

thread_local bool criaPerThreadStream = false;
