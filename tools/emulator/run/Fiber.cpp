#include "tools/emulator/run/Fiber.h"

#include <sys/mman.h>

#ifndef __x86_64__
#error "fibers are written for x86-64"
#endif

asm(R"(
.text
.type emulatorSwitch, @function
.globl emulatorSwitch
.hidden emulatorSwitch
emulatorSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulatorSwitch, .-emulatorSwitch

.type emulatorFiberStart, @function
.globl emulatorFiberStart
.hidden emulatorFiberStart
emulatorFiberStart:
  movq %r12, %rdi
  callq *%r13
  ud2
.size emulatorFiberStart, .-emulatorFiberStart
)");

extern "C" void emulatorFiberStart();

namespace cria::emulator {

void *newFiber(char *top, void (*entry)(void *), void *argument) {
  auto **slots = reinterpret_cast<void **>(uint64_t(top) & ~uint64_t(63));
  *--slots = nullptr; // aligns the stack as a call does
  *--slots = nullptr;
  *--slots = reinterpret_cast<void *>(emulatorFiberStart);
  *--slots = nullptr;                         // rbp
  *--slots = nullptr;                         // rbx
  *--slots = argument;                        // r12
  *--slots = reinterpret_cast<void *>(entry); // r13
  *--slots = nullptr;                         // r14
  *--slots = nullptr;                         // r15
  return slots;
}

Stacks::~Stacks() {
  if (base)
    munmap(base, count * stride);
}

bool Stacks::reserve(size_t wanted, size_t bytes) {
  // Tops are three cache lines apart modulo a page. Otherwise all fibers would
  // compete for the same sets of the caches.
  size_t wantedStride = (bytes + 4095) / 4096 * 4096 + 192;
  if (wanted <= count && wantedStride <= stride)
    return true;
  if (base)
    munmap(base, count * stride);
  count = wanted > count ? wanted : count;
  stride = wantedStride > stride ? wantedStride : stride;
  void *range = mmap(nullptr, count * stride, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  base = range == MAP_FAILED ? nullptr : static_cast<char *>(range);
  if (!base)
    count = stride = 0;
  return base != nullptr;
}

} // namespace cria::emulator
