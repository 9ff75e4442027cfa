#include "runtime/text/Stack.h"

#include <cstdint>
#include <pthread.h>

namespace cria {

Status checkStack(size_t needed) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return Status();
  void *bottom = nullptr;
  size_t size = 0, guard = 0;
  bool known = pthread_attr_getstack(&attributes, &bottom, &size) == 0 &&
               pthread_attr_getguardsize(&attributes, &guard) == 0;
  pthread_attr_destroy(&attributes);
  auto begin = reinterpret_cast<uintptr_t>(bottom);
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (!known || here < begin || here - begin > size)
    return Status();
  size_t left = here - begin - (here - begin > guard ? guard : 0);
  needed *= stackFactor;
  if (left >= needed)
    return Status();
  return Status(CRIA_RESOURCE_EXHAUSTED,
                "the thread has " + std::to_string(left) +
                    " bytes of stack left, expected at least " +
                    std::to_string(needed));
}

} // namespace cria
