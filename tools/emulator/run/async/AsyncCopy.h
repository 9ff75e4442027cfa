/// cp.async. Copies happen at the latest legal moment, when a thread waits for
/// them; with a seed, they may happen earlier.
#pragma once

#include "tools/emulator/run/Thread.h"

extern "C" {
/// One copy from global memory to shared memory, both at host addresses.
void emulatorCopyAsync(cria::emulator::Thread *thread, void *target,
                       void *source, uint32_t bytes, uint32_t valid, int line);
/// Makes a group of the copies since the last one.
void emulatorCopyCommit(cria::emulator::Thread *thread);
/// Finishes all groups except the last `left`; `all`: also the copies in no
/// group.
void emulatorCopyWait(cria::emulator::Thread *thread, uint32_t left,
                      uint32_t all);
/// Finishes all copies; `counts`: then arrives at the mbarrier.
void emulatorCopyArrive(cria::emulator::Thread *thread, void *mbarrier,
                        uint32_t counts, int line);
}
