#include "runtime/cuda/Jit.h"

#include "runtime/cuda/CodeCache.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

namespace cria::cuda {

namespace {

/// Options that ask for the log of the driver's compiler, and the log.
class Log {
public:
  unsigned count() const { return 2; }
  CUjit_option *options() { return names; }
  void **values() { return pointers; }
  /// What was logged, on one line, ": " before it.
  std::string text() const;

private:
  static constexpr size_t capacity = 8192;

  char buffer[capacity] = {};
  CUjit_option names[2] = {CU_JIT_ERROR_LOG_BUFFER,
                           CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *pointers[2] = {buffer, reinterpret_cast<void *>(capacity - 1)};
};

/// Loads one piece of code.
class Jit {
public:
  Jit(const std::shared_ptr<Context> &context, std::string_view code,
      const std::string &name)
      : context(context), code(code), name(name) {}

  Result<Module> load(const void *image) const;
  /// Compiles by the linker, for its machine code; nothing where it cannot.
  Result<std::optional<std::string>> link() const;

private:
  Status status(CUresult result, const char *call, const Log &log) const;

  const std::shared_ptr<Context> &context;
  std::string_view code;
  const std::string &name;
};

} // namespace

std::string Log::text() const {
  std::string lines = buffer;
  lines.erase(lines.find_last_not_of(" \n\r\t") + 1);
  for (char &character : lines)
    if (static_cast<unsigned char>(character) < ' ')
      character = ' ';
  return lines.empty() ? "" : ": " + lines;
}

Status Jit::status(CUresult result, const char *call, const Log &log) const {
  if (result == CUDA_SUCCESS)
    return Status();
  Status status = context->check(
      result, call, concat({"loading ", name, " on sm_", context->chip()}));
  std::string what = status.message() + log.text();
  if (status.code() == CRIA_FAILED_PRECONDITION)
    what += "; recompile the artifact, or install a newer driver";
  return Status(status.code(), what);
}

Result<Module> Jit::load(const void *image) const {
  Log log;
  CUmodule module = nullptr;
  CUresult result = (*context)->cuModuleLoadDataEx(&module, image, log.count(),
                                                   log.options(), log.values());
  Status loaded = status(result, "cuModuleLoadDataEx", log);
  if (!loaded.ok())
    return loaded;
  return Module(context, module);
}

Result<std::optional<std::string>> Jit::link() const {
  const Functions &calls = context->library().calls();
  Log log;
  CUlinkState state = nullptr;
  // What cannot link may still load.
  if (calls.cuLinkCreate(log.count(), log.options(), log.values(), &state) !=
      CUDA_SUCCESS)
    return std::optional<std::string>();
  void *cubin = nullptr;
  size_t bytes = 0;
  const char *call = "cuLinkAddData";
  CUresult result = calls.cuLinkAddData(
      state, CU_JIT_INPUT_PTX, const_cast<char *>(code.data()), code.size() + 1,
      name.c_str(), 0, nullptr, nullptr);
  if (result == CUDA_SUCCESS) {
    call = "cuLinkComplete";
    result = calls.cuLinkComplete(state, &cubin, &bytes);
  }
  std::optional<std::string> linked;
  if (result == CUDA_SUCCESS && cubin)
    linked.emplace(static_cast<const char *>(cubin), bytes);
  Status failure = status(result, call, log);
  calls.cuLinkDestroy(state);
  if (result == CUDA_ERROR_NOT_SUPPORTED)
    return std::optional<std::string>();
  if (!failure.ok())
    return failure;
  return linked;
}

static std::string since(std::chrono::steady_clock::time_point begin) {
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  char text[64];
  snprintf(text, sizeof(text), "compiled in %.1f s", taken.count());
  return text;
}

static Result<Loaded> loaded(Result<Module> module, std::string how) {
  if (!module.ok())
    return module.status();
  return Loaded{std::move(*module), std::move(how)};
}

/// Compiles and loads at once: the machine code stays with the driver.
static Result<Loaded> compile(const Jit &jit, std::string_view code,
                              const char *note) {
  auto begin = std::chrono::steady_clock::now();
  Result<Module> module = jit.load(code.data());
  return loaded(std::move(module), since(begin) + note);
}

/// Drivers read the headers of a cubin, an ELF file, where they lie. Artifacts
/// of earlier compilers may hold them at any address: those are copied.
static Result<Module> loadCubin(const Jit &jit, std::string_view code) {
  static constexpr uintptr_t alignment = 16;
  if (reinterpret_cast<uintptr_t>(code.data()) % alignment == 0)
    return jit.load(code.data());
  auto *aligned = static_cast<char *>(
      ::operator new(code.size(), std::align_val_t(alignment)));
  std::unique_ptr<char, void (*)(char *)> owned(aligned, [](char *memory) {
    ::operator delete(memory, std::align_val_t(alignment));
  });
  memcpy(aligned, code.data(), code.size());
  return jit.load(aligned);
}

Result<Loaded> loadModule(const std::shared_ptr<Context> &context,
                          std::string_view code, bool isPtx,
                          const std::string &name, bool cache,
                          std::vector<std::string> &warnings) {
  Jit jit(context, code, name);
  if (!isPtx)
    return loaded(loadCubin(jit, code), "as compiled");
  if (!cache)
    return compile(jit, code, "");
  static constexpr char noLinker[] = ", cached by the driver alone";
  if (!context->library().hasLinker())
    return compile(jit, code, noLinker);
  CodeCache folder;
  CodeKey key =
      CodeKey::of(code, context->chip(), context->library().version());
  if (std::optional<std::string> known = folder.find(key, warnings))
    if (Result<Module> module = jit.load(known->data()); module.ok())
      return loaded(std::move(module), "from the cache");
  auto begin = std::chrono::steady_clock::now();
  Result<std::optional<std::string>> linked = jit.link();
  if (!linked.ok())
    return linked.status();
  if (!*linked)
    return compile(jit, code, noLinker);
  Result<Module> module = jit.load((*linked)->data());
  if (module.ok())
    folder.store(key, **linked);
  return loaded(std::move(module), since(begin));
}

} // namespace cria::cuda
