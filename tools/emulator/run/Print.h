/// printf and malloc of the device.
#pragma once

#include "tools/emulator/run/Thread.h"

extern "C" {
/// vprintf: the format, and its arguments in memory. Returns how many arguments
/// were printed, or -1 without a format.
uint32_t emulatorPrint(cria::emulator::Thread *thread, uint64_t format,
                       uint64_t arguments, int line);
/// The address of `bytes` on the heap of the device; 0: there is no room.
uint64_t emulatorAllocate(cria::emulator::Thread *thread, uint64_t bytes);
void emulatorFree(cria::emulator::Thread *thread, uint64_t address, int line);
}
