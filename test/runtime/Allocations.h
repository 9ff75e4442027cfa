/// Makes allocations fail, one at a time.
#pragma once

#include <cstdint>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CRIA_THREAD_SANITIZER
#endif
#endif

namespace cria::test {

/// ThreadSanitizer has operators of its own.
#ifdef CRIA_THREAD_SANITIZER
inline constexpr bool allocationsCanFail = false;
#else
inline constexpr bool allocationsCanFail = true;
#endif

/// The nth `operator new` that this program's own code calls on this thread
/// from now on throws; 0: none does. What libraries allocate never fails.
void failAllocation(int64_t nth);

} // namespace cria::test
