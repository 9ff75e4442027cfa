/// A CUDA driver for tests: the emulated driver (CRIA_TEST_DRIVER names it)
/// with additions, so that more of the runtime can be tested without a GPU:
///
/// - A compiler whose log of remarks is CRIA_TEST_JIT_LOG.
/// - Cubins, which are "\177ELF" and then PTX. With CRIA_TEST_CUBIN=N they fail
///   with the error N instead. As on hardware, a cubin at an address that is no
///   multiple of 16 is no image.
/// - With CRIA_TEST_GRAPHS=none, graphs that do nothing: the time of a step is
///   then the host's own time.
#include "runtime/cuda/DriverApi.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

static void *emulated(const char *symbol) {
  static void *library =
      dlopen(getenv("CRIA_TEST_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, symbol) : nullptr;
}

/// Adds `text` to the log that the caller asked for.
static void writeInfo(const char *text, unsigned count, CUjit_option *options,
                      void **values) {
  char *buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_INFO_LOG_BUFFER)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
      room = reinterpret_cast<size_t>(values[i]);
  }
  if (buffer)
    strncpy(buffer, text, room);
}

static CUresult load(CUmodule *module, const void *image, unsigned count,
                     CUjit_option *options, void **values) {
  if (const char *text = getenv("CRIA_TEST_JIT_LOG"))
    writeInfo(text, count, options, values);
  static constexpr char elf[] = {'\177', 'E', 'L', 'F'};
  auto *bytes = static_cast<const char *>(image);
  if (memcmp(bytes, elf, sizeof(elf)) == 0) {
    if (reinterpret_cast<uintptr_t>(image) % 16 != 0)
      return CUDA_ERROR_INVALID_IMAGE;
    if (const char *error = getenv("CRIA_TEST_CUBIN"))
      return static_cast<CUresult>(atoi(error));
    bytes += sizeof(elf);
  }
  return reinterpret_cast<decltype(&load)>(emulated("cuModuleLoadDataEx"))(
      module, bytes, count, options, values);
}

static CUresult launchGraph(CUgraphExec graph, CUstream stream) {
  const char *graphs = getenv("CRIA_TEST_GRAPHS");
  if (graphs && strcmp(graphs, "none") == 0)
    return CUDA_SUCCESS;
  static auto launch =
      reinterpret_cast<decltype(&launchGraph)>(emulated("cuGraphLaunch"));
  return launch(graph, stream);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  const std::pair<const char *, void *> own[] = {
      {"cuModuleLoadDataEx", reinterpret_cast<void *>(load)},
      {"cuGraphLaunch", reinterpret_cast<void *>(launchGraph)}};
  for (auto [name, address] : own)
    if (strcmp(symbol, name) == 0) {
      *function = address;
      return CUDA_SUCCESS;
    }
  auto find = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(
      emulated("cuGetProcAddress_v2"));
  return find ? find(symbol, function, version, flags, status)
              : CUDA_ERROR_NOT_FOUND;
}
