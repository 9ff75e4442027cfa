/// Makes allocations fail, one at a time.
#pragma once

#include <cstdint>

namespace cria::test {

/// The nth `operator new` that this program's own code calls on this thread
/// from now on throws; 0: none does. What libraries allocate never fails.
void failAllocation(int64_t nth);

} // namespace cria::test
