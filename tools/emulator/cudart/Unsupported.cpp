// Functions that programs may link against, but that are not implemented. Each
// prints its name once and returns cudaErrorNotSupported.
#include "tools/emulator/cudart/Runtime.h"

#include <atomic>
#include <cstdio>

namespace {

int unsupported(const char *function, std::atomic<bool> &said) {
  if (!said.exchange(true))
    fprintf(stderr,
            "cria-emulator: warning: %s is not implemented: it returns "
            "cudaErrorNotSupported\n",
            function);
  return cria::cudart::remember(CUDA_ERROR_NOT_SUPPORTED);
}

} // namespace

// The arguments do not matter: the caller cleans them up.
#define UNSUPPORTED(function)                                                  \
  API(function)() {                                                            \
    static std::atomic<bool> said;                                             \
    return unsupported(#function, said);                                       \
  }
#include "tools/emulator/cudart/Unsupported.def"
