#include "lowering/gpu/cuda/Ring.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

cuda::Ring::Ring(KernelBuilder &b, int64_t steps, int64_t parts, int64_t others)
    : b(b), steps(steps), parts(parts), others(others),
      barriers(b, 2 * steps * parts + others) {}

void cuda::Ring::begin(int64_t readers) {
  b.when(b.equal(b.thread(), b.i32(0)), [&] {
    for (int64_t slot = 0; slot < slots(); ++slot) {
      barriers.init(b.i32(slot), b.i32(1));
      barriers.init(b.i32(slots() + slot), b.i32(readers));
    }
    for (int64_t i = 0; i < others; ++i)
      barriers.init(other(i).number, b.i32(1));
    barriers.publish();
  });
}

cuda::Ring::Slot cuda::Ring::slot(Value step, int64_t part) {
  return {b.add(b.mul(b.rem(step, steps), parts), part),
          b.rem(b.div(step, steps), 2)};
}

cuda::Ring::Slot cuda::Ring::other(int64_t i) {
  return {b.i32(2 * slots() + i), b.i32(0)};
}

void cuda::Ring::fill(const Slot &slot, int64_t bytes, Copy copy) {
  // The first use finds the slot free: a wait for the phase before the first
  // returns at once.
  barriers.await(b.add(slot.number, slots()), b.sub(b.i32(1), slot.parity));
  bring(slot, bytes, copy);
}

void cuda::Ring::bring(const Slot &slot, int64_t bytes, Copy copy) {
  barriers.announce(slot.number, bytes);
  add(slot, copy);
}

void cuda::Ring::await(const Slot &slot) {
  barriers.await(slot.number, slot.parity);
}

void cuda::Ring::release(const Slot &slot, Value block) {
  barriers.arrive(b.add(slot.number, slots()), block);
}

/// Registers of a thread that copies, and of one that multiplies: 128 * 40 +
/// 256 * 232 are all that a multiprocessor has.
static constexpr int64_t kCopyRegisters = 40, kMultiplyRegisters = 232;

void cuda::specialize(KernelBuilder &b, int64_t multiplying,
                      llvm::function_ref<void()> multiply,
                      llvm::function_ref<void()> copy) {
  b.when(
      b.less(b.thread(), b.i32(multiplying)),
      [&] {
        takeRegisters(b, kMultiplyRegisters);
        multiply();
      },
      [&] {
        leaveRegisters(b, kCopyRegisters);
        b.when(b.equal(b.thread(), b.i32(multiplying)), copy);
      });
}
