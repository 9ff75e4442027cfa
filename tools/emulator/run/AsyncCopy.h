/// cp.async. The copies happen at the latest moment that is legal (when
/// someone waits for them), or with a seed at some moment before.
#pragma once

#include "tools/emulator/run/Thread.h"

extern "C" {
/// One copy from global memory to shared memory, both at host addresses.
void emulatorCopyAsync(cria::emulator::Thread *thread, void *target,
                       void *source, uint32_t bytes, uint32_t valid, int line);
/// Makes a group of the copies since the last one.
void emulatorCopyCommit(cria::emulator::Thread *thread);
/// Finishes all groups but the last `left`; `all`: also what is in no group.
void emulatorCopyWait(cria::emulator::Thread *thread, uint32_t left,
                      uint32_t all);
}
