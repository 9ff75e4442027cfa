// Functions that programs may link against or collect at their start, but that
// are not implemented. Each prints its name once and returns
// CUDA_ERROR_NOT_SUPPORTED.
#include "tools/emulator/driver/Driver.h"

namespace {

CUresult unsupported(const char *function) {
  cria::emulator::Call call(function, cria::emulator::Needs::Nothing);
  if (call.result != CUDA_SUCCESS)
    return call.result;
  if (call.driver.missed.insert(function).second)
    fprintf(stderr,
            "cria-emulator: warning: %s is not implemented: it returns "
            "CUDA_ERROR_NOT_SUPPORTED\n",
            function);
  return CUDA_ERROR_NOT_SUPPORTED;
}

} // namespace

// The arguments do not matter: the caller cleans them up. The functions have
// names of their own in C++, because some are declared with arguments.
#define DEFINE(function)                                                       \
  extern "C" __attribute__((visibility("default")))                            \
  CUresult emulator_##function() __asm__(#function);                           \
  CUresult emulator_##function() { return unsupported(#function); }
#define UNSUPPORTED(name, exported, since) DEFINE(exported)
#define UNSUPPORTED_PER_THREAD(exported, suffix) DEFINE(exported##suffix)
#include "tools/emulator/driver/Unsupported.def"
