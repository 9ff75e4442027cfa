/// Threads of the emulated device as fibers: stacks that one core switches
/// between.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::emulator {

/// Saves the registers that calls preserve, stores the stack pointer to `save`
/// and continues at the stack pointer `to`.
extern "C" void emulatorSwitch(void **save, void *to);

/// The stack pointer of a new fiber that calls `entry(argument)`, which must
/// not return. `top` is the end of its stack.
void *newFiber(char *top, void (*entry)(void *), void *argument);

/// Stacks for the fibers of a block.
class Stacks {
public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  /// Makes at least `count` stacks of at least `bytes`. False: no memory.
  bool reserve(size_t count, size_t bytes);
  char *top(size_t i) const { return base + (i + 1) * stride - 64; }
  /// Whether `address` lies on any of them.
  bool contains(uint64_t address) const {
    return address - uint64_t(base) < count * stride;
  }

private:
  char *base = nullptr;
  size_t count = 0, stride = 0;
};

} // namespace cria::emulator
