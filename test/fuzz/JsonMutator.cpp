/// How inputs change of the targets that read JSON.
#include "test/fuzz/Fuzz.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  return cria::fuzz::mutate(data, size, limit, seed, cria::fuzz::json());
}
