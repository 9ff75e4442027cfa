/// memref.alloc  =>  memref.view of one arena
///
/// Lifetimes are intervals of ops in program order. A buffer lives from its
/// allocation to the last use of it or of a view of it; a use inside a loop
/// that the allocation is outside of counts for the whole loop. Offsets are
/// first fit, largest buffer first.
#include "lowering/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/Transforms/BufferViewFlowAnalysis.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <limits>

namespace cria {
#define GEN_PASS_DEF_PLANARENA
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

static constexpr int64_t kAlignment = 64;

namespace {
struct Buffer {
  memref::AllocOp alloc;
  int64_t bytes, first, last, offset;
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

static int64_t sizeInBytes(MemRefType type, int64_t chunk) {
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? chunk : size;
  return bytes;
}

static int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The last place that uses the buffer, or what may be a view of it.
static int64_t lastUse(memref::AllocOp alloc,
                       const BufferViewFlowAnalysis &aliases,
                       const Order &order) {
  int64_t last = 0;
  for (Value alias : aliases.resolve(alloc))
    for (Operation *user : alias.getUsers()) {
      Operation *ancestor = alloc->getBlock()->findAncestorOpInBlock(*user);
      // A use outside of the allocation's block: it has left its loop or
      // branch.
      last = std::max(last, ancestor ? order.endOf(ancestor)
                                     : std::numeric_limits<int64_t>::max());
    }
  return last;
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

/// Scratch of one parallel iteration: on the stack, once for all of them.
static void moveToStack(Operation *op, scf::ForallOp loop) {
  OpBuilder b = OpBuilder::atBlockBegin(loop.getBody());
  auto type = cast<MemRefType>(op->getResult(0).getType());
  auto alloca = memref::AllocaOp::create(b, op->getLoc(), type,
                                         b.getI64IntegerAttr(kAlignment));
  op->replaceAllUsesWith(alloca);
  op->erase();
}

static void intoArena(Buffer &buffer, Value arena) {
  OpBuilder b(buffer.alloc);
  Location loc = buffer.alloc.getLoc();
  Value offset = arith::ConstantIndexOp::create(b, loc, buffer.offset);
  Value view = memref::ViewOp::create(b, loc, buffer.alloc.getType(), arena,
                                      offset, buffer.alloc.getDynamicSizes());
  for (Operation *user : llvm::make_early_inc_range(buffer.alloc->getUsers()))
    if (isa<memref::DeallocOp>(user))
      user->erase();
  buffer.alloc.replaceAllUsesWith(view);
  buffer.alloc.erase();
}

namespace {
struct PlanArena : cria::impl::PlanArenaBase<PlanArena> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto chunk = function->getAttrOfType<IntegerAttr>("chunk");
    if (function.isDeclaration() || !chunk)
      return;
    SmallVector<Operation *> allocations;
    function.walk([&](Operation *op) {
      if (isa<memref::AllocOp, memref::AllocaOp>(op))
        allocations.push_back(op);
    });
    SmallVector<memref::AllocOp> lasting;
    for (Operation *op : allocations) {
      if (auto loop = op->getParentOfType<scf::ForallOp>()) {
        if (op->getNumOperands())
          return op->emitError("expected scratch of a static size in a "
                               "parallel loop"),
                 signalPassFailure();
        moveToStack(op, loop);
      } else if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
        lasting.push_back(alloc);
      }
    }
    Order order(function);
    BufferViewFlowAnalysis aliases(function);
    SmallVector<Buffer> buffers;
    for (memref::AllocOp alloc : lasting)
      buffers.push_back({alloc,
                         aligned(sizeInBytes(alloc.getType(), chunk.getInt())),
                         order.of(alloc), lastUse(alloc, aliases, order), 0});
    int64_t bytes = place(buffers);
    auto i8 = IntegerType::get(&getContext(), 8);
    auto type = MemRefType::get({bytes}, i8);
    function->setAttr("arena_bytes", OpBuilder(function).getIndexAttr(bytes));
    (void)function.insertArgument(function.getNumArguments(), type, {},
                                  function.getLoc());
    Value arena = function.getArguments().back();
    for (Buffer &buffer : buffers)
      intoArena(buffer, arena);
  }
};
} // namespace
