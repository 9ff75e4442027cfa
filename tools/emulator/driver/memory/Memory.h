/// Memory of the device: what its functions share.
#pragma once

#include "tools/emulator/driver/Driver.h"

namespace cria::emulator {

/// Allocates memory that belongs to the current context.
CUresult allocate(Driver &driver, CUdeviceptr *pointer, size_t bytes,
                  Allocation::Kind kind);

/// The same, counted by `pool`; null is the pool of the current device.
CUresult allocateFrom(CUmemoryPool pool, CUdeviceptr *pointer, size_t bytes);

} // namespace cria::emulator
