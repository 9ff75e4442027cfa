#include "test/runtime/Allocations.h"

#include <cstdlib>
#include <new>

/// Counted down.
static thread_local int64_t failing = 0;

void cria::test::failAllocation(int64_t nth) { failing = nth; }

#ifndef CRIA_THREAD_SANITIZER
// Where this program, with the runtime in it, begins and ends.
extern "C" const char __executable_start, etext;

// The emulated driver and the C++ library allocate here as well: what they
// cannot handle does not happen to them.
void *operator new(size_t size) {
  auto *caller = static_cast<const char *>(__builtin_return_address(0));
  bool ours = caller >= &__executable_start && caller < &etext;
  if (ours && failing > 0 && --failing == 0)
    throw std::bad_alloc();
  if (void *memory = malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}

// The C++ library's sorting asks so, and does with less.
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return malloc(size ? size : 1);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
#endif
