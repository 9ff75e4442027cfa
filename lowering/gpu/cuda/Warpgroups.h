/// Instructions for Hopper's warpgroups of four warps (sm_90a): products of
/// tiles in shared memory, copies of boxes into shared memory, and barriers
/// that count arrivals and copied bytes.
#pragma once

#include "lowering/gpu/build/KernelBuilder.h"

namespace cria::cuda {

/// Threads of a warpgroup.
inline constexpr int64_t kWarpgroup = 128;
/// Bytes of a row of a box: the longest row that can be swizzled.
inline constexpr int64_t kBoxBytes = 128;

/// Barriers of a block in shared memory (mbarrier). A phase of a barrier ends
/// when all its arrivals and all announced bytes are there. Phases have parity
/// 0 and 1 by turns.
class PhaseBarriers {
public:
  PhaseBarriers(simt::KernelBuilder &b, int64_t count);

  /// Begins a barrier's first phase. Each phase waits for `arrivals` arrivals,
  /// an i32.
  void init(mlir::Value barrier, mlir::Value arrivals);
  /// Makes the barriers visible to copies. It is called after all `init` and
  /// before the block's barrier.
  void publish();
  /// Arrives at barrier number `barrier` of this block, or of the block with
  /// the rank `block` in the cluster.
  void arrive(mlir::Value barrier, mlir::Value block = {});
  /// Arrives and announces the bytes that copies will bring.
  void announce(mlir::Value barrier, int64_t bytes);
  /// Waits until the latest phase of that parity has ended. Before the first
  /// phase (parity 0) has ended, a wait for parity 1 returns at once.
  void await(mlir::Value barrier, mlir::Value parity);
  /// Begins to copy a box to shared memory aligned to 1024 bytes. `coordinates`
  /// begin with the fastest dimension. `map` is an argument of the kernel that
  /// is a tensor map. Rows of 128 bytes are swizzled: part c of row r, 16
  /// bytes, is stored as part c ^ (r % 8). If elements are bytes, memory is
  /// aligned to 128 bytes, and rows are not swizzled. `blocks`, an i16, has a
  /// bit for each block of the cluster that gets the box: at the same place in
  /// its shared memory, counted by its own barrier of the same number.
  void copyBox(mlir::Value map, mlir::ValueRange coordinates,
               llvm::ArrayRef<int64_t> box, mlir::Value barrier,
               simt::Address to, mlir::Value blocks = {});
  /// Begins to copy contiguous bytes from device to shared memory
  /// (cp.async.bulk). Their number and both addresses are multiples of 16.
  void copyBytes(simt::Address from, int64_t bytes, mlir::Value barrier,
                 simt::Address to);

private:
  mlir::Value index(mlir::Value number);
  mlir::Value pointerTo(mlir::Value barrier);

  simt::KernelBuilder &b;
  mlir::Value group;
};

/// Whether this lane is the one that the warp has elected.
mlir::Value electLane(simt::KernelBuilder &b);
/// Changes the registers of the warpgroup's threads to `count`: more with
/// takeRegisters, fewer with leaveRegisters.
void takeRegisters(simt::KernelBuilder &b, int64_t count);
void leaveRegisters(simt::KernelBuilder &b, int64_t count);
/// Groups neighbouring blocks into clusters of `size` blocks along x, y and z,
/// which run at the same time.
void formClusters(simt::KernelBuilder &b, llvm::ArrayRef<int32_t> size);
/// A barrier of all threads of the cluster in two steps: code between them runs
/// without waiting. All lanes of a warp take each step together.
void arriveAtCluster(simt::KernelBuilder &b);
void awaitCluster(simt::KernelBuilder &b);
/// Lets the next launch begin, when each block does; waits for the launch
/// before. OverlapLaunches.cpp places both in kernels that have none.
void beginNextLaunch(simt::KernelBuilder &b);
void awaitLaunch(simt::KernelBuilder &b);
/// A barrier of the first `threads` threads of the block.
void barrierOf(simt::KernelBuilder &b, int64_t threads);

/// The descriptor that products take for a matrix whose rows of 128 bytes were
/// copied by copyBox. The columns of a transposed matrix continue in rows
/// `apart` bytes further on.
mlir::Value describeRows(simt::KernelBuilder &b, simt::Address first,
                         int64_t apart = 0);

/// The descriptor of what lies `chunks` (an i32) times 16 bytes further on.
mlir::Value further(simt::KernelBuilder &b, mlir::Value descriptor,
                    mlir::Value chunks);
mlir::Value further(simt::KernelBuilder &b, mlir::Value descriptor,
                    int64_t chunks);

/// A warpgroup's sums of a product of 64 x `columns`, as one value, all zero. A
/// lane holds the same sums as for mma.sync's m16n8, product after product.
/// Each warp has the 16 rows below those of the warp before.
mlir::Value zeroSums(simt::KernelBuilder &b, int64_t columns);
/// The same sums. From here on only products write their registers.
mlir::Value fenceSums(simt::KernelBuilder &b, mlir::Value sums);
/// Begins sums += x * w^T for 64 x 16 and `columns` x 16 elements of bf16 or
/// f16; x and w are descriptors. Without `sums` they begin with zeros.
mlir::Value multiplyTiles(simt::KernelBuilder &b, mlir::Type element,
                          int64_t columns, mlir::Value x, mlir::Value w,
                          mlir::Value sums);
/// Makes a group of the thread's products since the last commit.
void commitProducts(simt::KernelBuilder &b);
/// Waits until all groups but the last `groups` are done.
void awaitProducts(simt::KernelBuilder &b, int64_t groups);
/// Waits like awaitProducts and returns the sums.
llvm::SmallVector<mlir::Value> awaitSums(simt::KernelBuilder &b,
                                         mlir::Value sums, int64_t groups = 0);

/// Joins the sums of a lane to one value.
mlir::Value joinSums(simt::KernelBuilder &b, mlir::ValueRange sums);
/// Lets the products after this write registers that hold no value now.
void fenceProducts(simt::KernelBuilder &b);
/// The same words, i32, for products to read after this.
llvm::SmallVector<mlir::Value> fenceOperands(simt::KernelBuilder &b,
                                             mlir::ValueRange words);
/// Begins sums += x * w for 64 x 16 and 16 x `columns` elements. x is in
/// registers: a lane has the four pairs, as i32, that mma.sync's m16n8k16
/// takes. w is a descriptor.
mlir::Value multiplyRegisters(simt::KernelBuilder &b, mlir::Type element,
                              int64_t columns, mlir::ValueRange x,
                              mlir::Value w, mlir::Value sums);
/// The same with w^T, `columns` x 16 elements.
mlir::Value multiplyTransposed(simt::KernelBuilder &b, mlir::Type element,
                               int64_t columns, mlir::ValueRange x,
                               mlir::Value w, mlir::Value sums);
/// Makes this thread's writes to shared memory visible to the products after
/// the next barrier.
void fenceWrites(simt::KernelBuilder &b);

} // namespace cria::cuda
