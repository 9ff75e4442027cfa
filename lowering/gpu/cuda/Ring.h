/// A block that copies and multiplies at the same time (sm_90a): one thread
/// fills slots of a ring in shared memory, and warpgroups read them.
///
///   step i, part j   slot (i % steps) * parts + j, in its use i / steps
///   full             a barrier of the slot: the bytes of this use are there
///   free             a barrier of the slot: all readers of the use before are
///                    done
///
///   copying thread: fill(slot)               wait until free, begin to copy
///   readers:        await(slot) ... release(slot)
#pragma once

#include "lowering/gpu/cuda/Warpgroups.h"

namespace cria::cuda {

class Ring {
public:
  /// A ring of `steps` steps, which have `parts` slots each. `others` slots
  /// beside the ring are filled once.
  Ring(simt::KernelBuilder &b, int64_t steps, int64_t parts = 1,
       int64_t others = 0);

  /// Makes the barriers of slots that `readers` threads release; called before
  /// a barrier of all threads that use the ring.
  void begin(int64_t readers);

  /// A slot, and the parity of its use.
  struct Slot {
    mlir::Value number, parity;
  };
  Slot slot(mlir::Value step, int64_t part = 0);
  /// Slot number `i` beside the ring.
  Slot other(int64_t i);

  /// Begins the copies of `bytes` bytes that `copy` makes, which get the slot's
  /// barrier: `fill` when the slot is free, `bring` at once.
  using Copy =
      llvm::function_ref<void(PhaseBarriers &barriers, mlir::Value barrier)>;
  void fill(const Slot &slot, int64_t bytes, Copy copy);
  void bring(const Slot &slot, int64_t bytes, Copy copy);
  /// Begins further copies, whose bytes `fill` or `bring` has announced.
  void add(const Slot &slot, Copy copy) { copy(barriers, slot.number); }
  /// Waits until the slot is full.
  void await(const Slot &slot);
  /// Tells that one reader is done with the slot of this block, or of the block
  /// with the rank `block` in the cluster.
  void release(const Slot &slot, mlir::Value block = {});

private:
  int64_t slots() const { return steps * parts; }

  simt::KernelBuilder &b;
  int64_t steps, parts, others;
  PhaseBarriers barriers; // full ones, free ones, those beside the ring
};

/// Threads of a block with `multiplying` threads that multiply.
inline constexpr int64_t specializedThreads(int64_t multiplying) {
  return multiplying + kWarpgroup;
}
/// Divides such a block, with two warpgroups that multiply: one thread of the
/// last warpgroup runs `copy`, and leaves registers to those that multiply.
void specialize(simt::KernelBuilder &b, int64_t multiplying,
                llvm::function_ref<void()> multiply,
                llvm::function_ref<void()> copy);

} // namespace cria::cuda
