/// gpu.func @k(%w, %x) {             gpu.func @k(%w, %x) {
///   %a = memref.load %x               copy %w to shared memory
///   copy %w to shared memory    =>    nvvm.griddepcontrol launch_dependents
///   use %a                            nvvm.griddepcontrol wait
/// }                                   %a = memref.load %x
///                                     use %a
///                                   }
/// where cria.given = [0]
///
/// Given memory is memory that no launch of the step writes: weights, the
/// state, and keys and values of earlier steps, whose copies schedules mark
/// with cria.given. The first launch of a step waits for all work before the
/// step, and every other launch begins after the first one has begun. So a
/// kernel may read given memory before its own wait.
///
/// The next launch may begin when each block of this one has executed
/// launch_dependents or has ended. At that time all blocks of this launch have
/// their place, and the blocks of the next launch take the room that is left.
/// launch_dependents is after the copies, so that memory serves these copies
/// before those of the next launch. It is before the wait, so that launches
/// overlap whose blocks do not fill the device.
///
/// A kernel whose threads do different work may have both already
/// (cuda::awaitLaunch), after copies of given memory in one of its branches.
#include "lowering/Passes.h"
#include "lowering/kernel/Launches.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace cria {
#define GEN_PASS_DEF_OVERLAPLAUNCHES
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static bool isShared(Value memory) {
  return gpu::GPUDialect::hasWorkgroupMemoryAddressSpace(
      cast<MemRefType>(memory.getType()));
}

/// Whether no launch writes to the memory of a memref.
static bool isOfGiven(gpu::GPUFuncOp kernel, Value memory) {
  while (auto view = memory.getDefiningOp<ViewLikeOpInterface>())
    memory = view.getViewSource();
  if (auto either = memory.getDefiningOp<arith::SelectOp>())
    return isOfGiven(kernel, either.getTrueValue()) &&
           isOfGiven(kernel, either.getFalseValue());
  auto argument = dyn_cast<BlockArgument>(memory);
  return argument && argument.getOwner() == &kernel.front() &&
         isGiven(kernel, static_cast<int32_t>(argument.getArgNumber()));
}

/// The memref that the pointer to an element was computed from.
static Value memoryOf(Value pointer) {
  Operation *op = pointer.getDefiningOp();
  while (!isa<memref::ExtractAlignedPointerAsIndexOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op->getOperand(0);
}

/// Whether an op touches only barriers in shared memory or the lanes of a warp.
static bool isOfBarriers(Operation *op) {
  return isa<nvgpu::MBarrierCreateOp, nvgpu::MBarrierInitOp,
             nvgpu::MBarrierGetOp, nvgpu::MBarrierArriveExpectTxOp,
             NVVM::FenceMbarrierInitOp, NVVM::ElectSyncOp, NVVM::SyncWarpOp>(
      op);
}

/// Whether an op reads only given memory and shared memory, and writes only
/// shared memory.
static bool touchesGivenOnly(gpu::GPUFuncOp kernel, Operation *op) {
  auto reads = [&](Value memory) {
    return isShared(memory) || isOfGiven(kernel, memory);
  };
  WalkResult result = op->walk([&](Operation *inner) {
    bool allowed = inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                   isMemoryEffectFree(inner) ||
                   isa<NVVM::CpAsyncCommitGroupOp>(inner) ||
                   isOfBarriers(inner);
    if (auto load = dyn_cast<memref::LoadOp>(inner))
      allowed = reads(load.getMemRef());
    else if (auto load = dyn_cast<vector::LoadOp>(inner))
      allowed = reads(load.getBase());
    else if (auto copy = dyn_cast<nvgpu::DeviceAsyncCopyOp>(inner))
      allowed = (copy->hasAttr(kGivenAttribute) || reads(copy.getSrc())) &&
                isShared(copy.getDst());
    else if (auto copy =
                 dyn_cast<NVVM::CpAsyncBulkGlobalToSharedClusterOp>(inner))
      allowed = reads(memoryOf(copy.getSrcMem()));
    return allowed ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

/// Whether an op may move down past ops that touch given memory only. It may if
/// it writes nothing and does not read shared memory, which those ops write.
static bool canMove(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return !isShared(load.getMemRef());
  if (auto load = dyn_cast<vector::LoadOp>(op))
    return !isShared(load.getBase());
  return isMemoryEffectFree(op);
}

static bool usesAny(Operation *op, const SetVector<Operation *> &ops) {
  auto isOne = [&](Value value) { return ops.contains(value.getDefiningOp()); };
  WalkResult result = op->walk([&](Operation *inner) {
    return llvm::any_of(inner->getOperands(), isOne) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// Moves the ops that must wait below the last copy that need not wait. Returns
/// the op to insert the wait before.
static Operation *sortByWait(gpu::GPUFuncOp kernel) {
  SetVector<Operation *> late;
  size_t moved = 0; // of `late`, the ops before the last copy
  Operation *first = nullptr, *behind = nullptr;
  for (Operation &op : kernel.front()) {
    bool isLast = op.hasTrait<OpTrait::IsTerminator>();
    if (isLast || usesAny(&op, late) || !touchesGivenOnly(kernel, &op)) {
      if (!first)
        first = &op;
      if (isLast || !canMove(&op))
        break;
      late.insert(&op);
    } else if (!isMemoryEffectFree(&op)) {
      behind = op.getNextNode();
      moved = late.size();
    }
  }
  for (Operation *op : late.getArrayRef().take_front(moved))
    op->moveBefore(behind);
  // Without copies no op was moved.
  return moved ? late.front() : behind ? behind : first;
}

namespace {
struct OverlapLaunches : cria::impl::OverlapLaunchesBase<OverlapLaunches> {
  void runOnOperation() override {
    gpu::GPUFuncOp kernel = getOperation();
    auto isThere = [](NVVM::GriddepcontrolOp) {
      return WalkResult::interrupt();
    };
    if (kernel.walk(isThere).wasInterrupted())
      return;
    OpBuilder b(sortByWait(kernel));
    for (auto kind : {NVVM::GridDepActionKind::launch_dependents,
                      NVVM::GridDepActionKind::wait})
      NVVM::GriddepcontrolOp::create(b, kernel.getLoc(), kind);
  }
};
} // namespace
