/// A CUDA driver for tests: the emulated one (CRIA_TEST_DRIVER names it), with
/// a linker that gives the PTX back for machine code. So the cache of compiled
/// code can be tested without a GPU.
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

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  const std::pair<const char *, void *> linker[] = {
      {"cuLinkCreate", reinterpret_cast<void *>(create)},
      {"cuLinkAddData", reinterpret_cast<void *>(add)},
      {"cuLinkComplete", reinterpret_cast<void *>(complete)},
      {"cuLinkDestroy", reinterpret_cast<void *>(destroy)}};
  for (auto [name, address] : linker)
    if (strcmp(symbol, name) == 0) {
      *function = address;
      return CUDA_SUCCESS;
    }
  auto find = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(
      emulated("cuGetProcAddress_v2"));
  return find ? find(symbol, function, version, flags, status)
              : CUDA_ERROR_NOT_FOUND;
}
