/// The stack of the calling thread, for functions that recurse as deep as a
/// file says.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>

namespace cria {

/// How much larger the frames of functions are that sanitizers look into.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr size_t stackFactor = 8;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr size_t stackFactor = 8;
#else
inline constexpr size_t stackFactor = 1;
#endif
#else
inline constexpr size_t stackFactor = 1;
#endif

/// CRIA_RESOURCE_EXHAUSTED if the calling thread has less than `needed` bytes
/// of stack left; a build with larger frames needs `stackFactor` times as many.
/// Passes if the C library does not know the stack, such as that of a
/// coroutine.
Status checkStack(size_t needed);

} // namespace cria
