/// memref.alloc  =>  memref.view of one arena
///
/// Lifetimes are intervals of ops in program order. A buffer lives from its
/// allocation to the last use of the buffer or of a view of it. If the
/// allocation is outside of a loop, a use inside of the loop counts as a use by
/// the whole loop. A buffer that a loop carries into its next iteration lives
/// from the loop's start. Offsets are first fit, largest buffer first. The
/// temporaries of a kernel are placed in the same way in a scratch buffer,
/// which lives during the kernel's call.
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"
#include "lowering/memory/Bounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/Transforms/BufferViewFlowAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

namespace cria {
#define GEN_PASS_DEF_PLANARENA
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
struct Buffer {
  /// An allocation, or the call of a kernel that needs scratch.
  Operation *op;
  int64_t bytes, first, last, offset = 0;
};

/// The place of ops in program order.
class Order {
public:
  explicit Order(func::FuncOp function) {
    int64_t next = 0;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { at[op] = next++; });
    function.walk([&](Operation *op) {
      int64_t end = at[op];
      for (Region &region : op->getRegions())
        for (Block &block : region)
          if (!block.empty())
            end = std::max(end, last[&block.back()]);
      last[op] = end;
    });
  }
  int64_t of(Operation *op) const { return at.lookup(op); }
  /// The last op inside `op`, or itself.
  int64_t endOf(Operation *op) const { return last.lookup(op); }

private:
  llvm::DenseMap<Operation *, int64_t> at, last;
};
} // namespace

/// The most bytes of a buffer: sums of sizes do not overflow.
static constexpr int64_t kMostBytes = int64_t(1) << 47;

/// The bytes of an element; nothing if it has no fixed size in memory.
static std::optional<int64_t> bytesOf(Type element, const DataLayout &layout) {
  auto vector = dyn_cast<VectorType>(element);
  if (!getElementTypeOrSelf(element).isIntOrIndexOrFloat() ||
      (vector && vector.isScalable()))
    return std::nullopt;
  return layout.getTypeSize(element).getFixedValue();
}

/// The most bytes of an allocation, or an error at its location.
static FailureOr<int64_t> mostBytes(memref::AllocOp alloc,
                                    const Bounds &bounds) {
  MemRefType type = alloc.getType();
  auto bytes = bytesOf(type.getElementType(), DataLayout::closest(alloc));
  if (!bytes || !isContiguousMemory(type))
    return alloc.emitError("expected contiguous memory of numbers, got ")
           << type;
  FailureOr<SmallVector<int64_t>> shape = bounds.mostShape(alloc);
  if (failed(shape))
    return failure();
  for (int64_t size : *shape)
    bytes = bytes && size >= 0 ? llvm::checkedMul(*bytes, size) : std::nullopt;
  if (!bytes || *bytes > kMostBytes)
    return alloc.emitError("expected a buffer of 0 to ")
           << kMostBytes << " bytes, got " << type;
  return *bytes;
}

/// Sets the first and the last op between which the buffer, or a possible view
/// of it, is used.
static void setLifetime(Buffer &buffer, const BufferViewFlowAnalysis &aliases,
                        const Order &order) {
  buffer.first = buffer.last = order.of(buffer.op);
  auto alloc = dyn_cast<memref::AllocOp>(buffer.op);
  if (!alloc)
    return;
  for (Value alias : aliases.resolve(alloc)) {
    Operation *loop = alias.getParentBlock()->getParentOp();
    bool isCarried = isa<BlockArgument>(alias) && loop->isAncestor(alloc);
    if (isCarried)
      buffer.first = std::min(buffer.first, order.of(loop));
    for (Operation *user : alias.getUsers()) {
      Operation *ancestor = alloc->getBlock()->findAncestorOpInBlock(*user);
      // If the use is outside of the allocation's block, the buffer has left
      // its loop or branch, and lives to the end.
      buffer.last =
          std::max(buffer.last, ancestor ? order.endOf(ancestor)
                                         : std::numeric_limits<int64_t>::max());
    }
  }
}

/// Places the buffers; returns the arena's size.
static int64_t place(MutableArrayRef<Buffer> buffers) {
  SmallVector<Buffer *> bySize;
  for (Buffer &buffer : buffers)
    bySize.push_back(&buffer);
  llvm::stable_sort(bySize,
                    [](Buffer *a, Buffer *b) { return a->bytes > b->bytes; });
  int64_t total = 0;
  SmallVector<Buffer *> placed; // by offset
  for (Buffer *buffer : bySize) {
    buffer->offset = 0;
    for (Buffer *other : placed) {
      bool together =
          buffer->first <= other->last && other->first <= buffer->last;
      bool fits = buffer->offset + buffer->bytes <= other->offset;
      if (together && !fits)
        buffer->offset = std::max(buffer->offset, other->offset + other->bytes);
    }
    total = std::max(total, buffer->offset + buffer->bytes);
    placed.insert(llvm::upper_bound(placed, buffer,
                                    [](Buffer *a, Buffer *b) {
                                      return a->offset < b->offset;
                                    }),
                  buffer);
  }
  return total;
}

/// Moves the scratch of a parallel iteration to the stack, where all iterations
/// of a thread share it.
static void moveToStack(Operation *op, scf::ForallOp loop, int64_t alignment) {
  OpBuilder b = OpBuilder::atBlockBegin(loop.getBody());
  auto type = cast<MemRefType>(op->getResult(0).getType());
  auto alloca = memref::AllocaOp::create(b, op->getLoc(), type,
                                         b.getI64IntegerAttr(alignment));
  op->replaceAllUsesWith(alloca);
  op->erase();
}

/// Makes the buffer a view of `arena`.
static void intoArena(Buffer &buffer, Value arena) {
  OpBuilder b(buffer.op);
  Location loc = buffer.op->getLoc();
  Value offset = arith::ConstantIndexOp::create(b, loc, buffer.offset);
  auto alloc = dyn_cast<memref::AllocOp>(buffer.op);
  if (!alloc) {
    auto type = MemRefType::get({buffer.bytes}, b.getI8Type());
    Value view = memref::ViewOp::create(b, loc, type, arena, offset, {});
    cast<func::CallOp>(buffer.op).getOperandsMutable().append(view);
    return;
  }
  Value view = memref::ViewOp::create(b, loc, alloc.getType(), arena, offset,
                                      alloc.getDynamicSizes());
  for (Operation *user : llvm::make_early_inc_range(alloc->getUsers()))
    if (isa<memref::DeallocOp>(user))
      user->erase();
  alloc.replaceAllUsesWith(view);
  alloc.erase();
}

namespace {
struct PlanArenaPass : cria::impl::PlanArenaBase<PlanArenaPass> {
  using PlanArenaBase::PlanArenaBase;

  void runOnOperation() override {
    if (alignment < 1) {
      getOperation().emitError("plan-arena: expected a positive alignment");
      return signalPassFailure();
    }
    if (failed(verifyDimensions(getOperation())))
      return signalPassFailure();
    for (bool entries : {false, true})
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (!function.isDeclaration() && isEntry(function) == entries &&
            failed(plan(function)))
          return signalPassFailure();
  }

private:
  /// The buffers of a function that are placed in the arena. Buffers of
  /// parallel loops are moved to the stack.
  FailureOr<SmallVector<Buffer>> collect(func::FuncOp function) {
    bool isKernel = !isEntry(function);
    if (!isKernel && failed(EntryArguments::of(function)))
      return failure();
    if (isKernel && !chunkOf(function))
      return function.emitError("expected the attribute '")
             << kChunkAttribute << "', a number of tokens";
    SmallVector<Operation *> allocations;
    SmallVector<Buffer> buffers;
    function.walk([&](Operation *op) {
      if (isa<memref::AllocOp, memref::AllocaOp>(op))
        allocations.push_back(op);
    });
    for (Operation *op : allocations) {
      auto loop = op->getParentOfType<scf::ForallOp>();
      if (loop && op->getNumOperands())
        return op->emitError(
            "expected scratch of a static size in a parallel loop");
      if (loop) {
        moveToStack(op, loop, alignment);
      } else if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
        FailureOr<int64_t> bytes = mostBytes(alloc, Bounds(function));
        if (failed(bytes))
          return failure();
        int64_t size = llvm::alignTo(*bytes, alignment);
        buffers.push_back({op, size, 0, 0});
      }
    }
    return buffers;
  }

  LogicalResult plan(func::FuncOp function) {
    if (!isEntry(function) &&
        llvm::any_of(function.getResultTypes(), llvm::IsaPred<MemRefType>))
      return function.emitError(
          "expected a kernel to return only buffers among its arguments");
    FailureOr<SmallVector<Buffer>> buffers = collect(function);
    if (failed(buffers))
      return failure();
    function.walk([&](func::CallOp call) {
      if (auto found = scratch.find(call.getCallee()); found != scratch.end())
        buffers->push_back({call, found->second, 0, 0});
    });
    Order order(function);
    BufferViewFlowAnalysis aliases(function);
    for (Buffer &buffer : *buffers)
      setLifetime(buffer, aliases, order);
    int64_t bytes = place(*buffers);
    auto type = MemRefType::get({bytes}, IntegerType::get(&getContext(), 8));
    if (isEntry(function)) {
      function->setAttr(kArenaBytesAttribute,
                        OpBuilder(function).getIndexAttr(bytes));
      EntryArguments::append(function, EntryArgument::Arena, type);
    } else if (buffers->empty()) {
      return success();
    } else {
      scratch[function.getName()] = bytes;
      (void)function.insertArgument(function.getNumArguments(), type, {},
                                    function.getLoc());
    }
    for (Buffer &buffer : *buffers)
      intoArena(buffer, function.getArguments().back());
    return success();
  }

  /// The bytes of scratch that each kernel needs.
  llvm::StringMap<int64_t> scratch;
};
} // namespace
