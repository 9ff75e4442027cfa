/// What Hopper's groups of four warps take (sm_90a): products of tiles in
/// shared memory, copies of boxes into it, and barriers that count both.
#pragma once

#include "lowering/gpu/KernelBuilder.h"

namespace cria::cuda {

/// Threads of a warpgroup.
inline constexpr int64_t kWarpgroup = 128;
/// Bytes of a row of a box, the most that are swizzled.
inline constexpr int64_t kBoxBytes = 128;

/// Barriers of a block in shared memory (mbarrier). One is in a phase until it
/// has all arrivals, and all bytes that were announced; phases have parity 0
/// and 1 by turns.
class PhaseBarriers {
public:
  PhaseBarriers(simt::KernelBuilder &b, int64_t count);

  /// The first phase begins: each waits for so many arrivals, an i32.
  void init(mlir::Value barrier, mlir::Value arrivals);
  /// Behind all `init`, before the block's barrier: copies see them too.
  void publish();
  /// Arrives at the barrier of that number, or at that of the block of the
  /// cluster that has the rank `block`.
  void arrive(mlir::Value barrier, mlir::Value block = {});
  /// Arrives, and announces bytes that copies bring.
  void announce(mlir::Value barrier, int64_t bytes);
  /// Until the last phase of that parity has ended. That of parity 1 before the
  /// first one has.
  void await(mlir::Value barrier, mlir::Value parity);
  /// Begins to copy the box at `coordinates`, the fastest first, to shared
  /// memory aligned to 1024 bytes. `map` is an argument of the kernel that has
  /// a tensor map. Rows of 128 bytes are swizzled: chunk c of 16 bytes of row r
  /// lies at c ^ (r % 8). With `blocks`, an i16, the box goes to the same place
  /// of the blocks of the cluster whose bits are set, and counts at the same
  /// barrier of each.
  void copyBox(mlir::Value map, mlir::ValueRange coordinates,
               llvm::ArrayRef<int64_t> box, mlir::Value barrier,
               simt::Address to, mlir::Value blocks = {});
  /// Begins to copy bytes that follow one another from device to shared memory:
  /// their number and both addresses are multiples of 16 (cp.async.bulk).
  void copyBytes(simt::Address from, int64_t bytes, mlir::Value barrier,
                 simt::Address to);

private:
  mlir::Value index(mlir::Value number);
  mlir::Value pointerTo(mlir::Value barrier);

  simt::KernelBuilder &b;
  mlir::Value group;
};

/// Whether this lane is the one that its warp elects.
mlir::Value electLane(simt::KernelBuilder &b);
/// Gives the warpgroup's threads so many registers, more or fewer than now.
void takeRegisters(simt::KernelBuilder &b, int64_t count);
void leaveRegisters(simt::KernelBuilder &b, int64_t count);
/// Blocks follow one another in clusters of so many along x, y and z, and run
/// at the same time.
void formClusters(simt::KernelBuilder &b, llvm::ArrayRef<int32_t> size);
/// The barrier of all threads of the cluster, in two steps: what is between
/// them need not wait. Lanes of a warp take each together.
void arriveAtCluster(simt::KernelBuilder &b);
void awaitCluster(simt::KernelBuilder &b);
/// A barrier of the first `threads` threads of the block.
void barrierOf(simt::KernelBuilder &b, int64_t threads);

/// What products know rows of 128 bytes by, as copyBox leaves them: the number
/// of 16-byte chunks that matrices lie further on may be added. The columns of
/// a transposed matrix go on in rows `apart` bytes further on.
mlir::Value describeRows(simt::KernelBuilder &b, simt::Address first,
                         int64_t apart = 0);

/// Sums of a warpgroup's product of 64 x `columns` in one value; those of a
/// lane are as those of mma.sync's m16n8, product after product, a warp 16 rows
/// below the one before.
mlir::Value zeroSums(simt::KernelBuilder &b, int64_t columns);
/// The same sums, whose registers nothing writes any more but products.
mlir::Value fenceSums(simt::KernelBuilder &b, mlir::Value sums);
/// Begins sums += x * w^T, 64 x 16 and `columns` x 16 of bf16 or f16, which
/// descriptions say where they lie. Without sums they begin with zeros.
mlir::Value multiplyTiles(simt::KernelBuilder &b, mlir::Type element,
                          int64_t columns, mlir::Value x, mlir::Value w,
                          mlir::Value sums);
/// The thread's products since the last commit are a group.
void commitProducts(simt::KernelBuilder &b);
/// Until all but the last `groups` are done.
void awaitProducts(simt::KernelBuilder &b, int64_t groups);
/// Until all products are done, or all but the last `groups`: their sums.
llvm::SmallVector<mlir::Value> awaitSums(simt::KernelBuilder &b,
                                         mlir::Value sums, int64_t groups = 0);

/// The sums of a lane in one value.
mlir::Value joinSums(simt::KernelBuilder &b, mlir::ValueRange sums);
/// Products behind it may write what no value is in.
void fenceProducts(simt::KernelBuilder &b);
/// Begins sums += x * w, 64 x 16 and 16 x `columns`. A lane has of x the four
/// pairs, as i32, that mma.sync's m16n8k16 takes; w is described.
mlir::Value multiplyRegisters(simt::KernelBuilder &b, mlir::Type element,
                              int64_t columns, mlir::ValueRange x,
                              mlir::Value w, mlir::Value sums);
/// Products behind a barrier see what this thread has written to shared memory.
void fenceWrites(simt::KernelBuilder &b);

} // namespace cria::cuda
