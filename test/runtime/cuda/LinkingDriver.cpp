/// A CUDA driver for tests: the emulated driver (CRIA_TEST_DRIVER names it)
/// with additions, so that more of the runtime can be tested without a GPU:
///
/// - A linker, which returns the PTX as machine code.
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

// A state is the text that was added.
static CUresult create(unsigned, CUjit_option *, void **, CUlinkState *state) {
  *state = reinterpret_cast<CUlinkState>(new std::string());
  return CUDA_SUCCESS;
}

static CUresult add(CUlinkState state, CUjitInputType type, void *data,
                    size_t bytes, const char *, unsigned, CUjit_option *,
                    void **) {
  if (type != CU_JIT_INPUT_PTX)
    return CUDA_ERROR_INVALID_IMAGE;
  reinterpret_cast<std::string *>(state)->assign(
      static_cast<const char *>(data), bytes);
  return CUDA_SUCCESS;
}

static CUresult complete(CUlinkState state, void **cubin, size_t *bytes) {
  auto *text = reinterpret_cast<std::string *>(state);
  *cubin = text->data();
  *bytes = text->size();
  return getenv("CRIA_TEST_LINKER_FAILS") ? CUDA_ERROR_INVALID_PTX
                                          : CUDA_SUCCESS;
}

static CUresult destroy(CUlinkState state) {
  delete reinterpret_cast<std::string *>(state);
  return CUDA_SUCCESS;
}

static CUresult load(CUmodule *module, const void *image, unsigned count,
                     CUjit_option *options, void **values) {
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
      {"cuLinkCreate", reinterpret_cast<void *>(create)},
      {"cuLinkAddData", reinterpret_cast<void *>(add)},
      {"cuLinkComplete", reinterpret_cast<void *>(complete)},
      {"cuLinkDestroy", reinterpret_cast<void *>(destroy)},
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
