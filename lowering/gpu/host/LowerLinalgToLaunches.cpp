/// linalg.generic on memrefs  =>  gpu.launch_func with a thread for each
/// element
///
/// The schedule of ops that no other schedule takes. A kernel's grid:
///
///   x   all parallel loops except the one over tokens, 128 elements a block
///   y   the tokens, if the plan knows their number; a loop over tokens that is
///       the only loop is along x
///
/// A loop whose number of turns only the device knows counts along x with the
/// largest possible number; threads beyond the real number do nothing.
/// Reductions run in the thread.
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"
#include "lowering/entry/LayerNumber.h"
#include "lowering/gpu/host/HostValues.h"
#include "lowering/gpu/host/Outline.h"
#include "lowering/kernel/Launches.h"
#include "lowering/kernel/LoopNest.h"
#include "lowering/memory/Bounds.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

namespace cria {
#define GEN_PASS_DEF_LOWERLINALGTOLAUNCHES
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 128;
/// The most blocks along y.
static constexpr int64_t kMostRows = 65535;
/// The most ops that the layers of a loop become.
static constexpr uint64_t kMostOps = 1 << 20;

static Value constant(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}

/// A size of a memref of the host, from the ops that make it.
static Value sizeOf(OpBuilder &b, Value memref, unsigned dim) {
  Location loc = memref.getLoc();
  auto type = cast<MemRefType>(memref.getType());
  if (!type.isDynamicDim(dim))
    return constant(b, loc, type.getDimSize(dim));
  if (auto alloc = memref.getDefiningOp<memref::AllocOp>())
    return alloc.getDynamicSizes()[type.getDynamicDimIndex(dim)];
  if (auto cast = memref.getDefiningOp<memref::CastOp>())
    return sizeOf(b, cast.getSource(), dim);
  if (auto view = memref.getDefiningOp<memref::SubViewOp>()) {
    llvm::SmallBitVector dropped = view.getDroppedDims();
    for (auto [i, size] : llvm::enumerate(view.getMixedSizes()))
      if (!dropped.test(i) && dim-- == 0)
        return getValueOrCreateConstantIndexOp(b, loc, size);
  }
  if (auto view = memref.getDefiningOp<memref::ExpandShapeOp>())
    return getValueOrCreateConstantIndexOp(b, loc,
                                           view.getMixedOutputShape()[dim]);
  if (auto view = memref.getDefiningOp<memref::CollapseShapeOp>()) {
    Value product;
    for (int64_t i : view.getReassociationIndices()[dim]) {
      Value size = sizeOf(b, view.getSrc(), i);
      bool isOne = getConstantIntValue(size) == 1;
      if (!product || !isOne)
        product = product && getConstantIntValue(product) != 1
                      ? arith::MulIOp::create(b, loc, product, size)
                      : size;
    }
    return product;
  }
  return memref::DimOp::create(b, loc, memref, dim);
}

/// An empty launch after `op`.
static gpu::LaunchOp launchBehind(Operation *op, gpu::KernelDim3 blocks,
                                  int64_t threads) {
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  Location loc = op->getLoc();
  Value size = constant(b, loc, threads), one = constant(b, loc, 1);
  auto launch = gpu::LaunchOp::create(b, loc, blocks.x, blocks.y, blocks.z,
                                      size, one, one);
  b.setInsertionPointToEnd(&launch.getBody().front());
  gpu::TerminatorOp::create(b, loc);
  return launch;
}

/// The number of a thread among all threads along x.
static Value threadNumber(OpBuilder &b, gpu::LaunchOp launch) {
  Location loc = launch.getLoc();
  Value first = arith::MulIOp::create(b, loc, launch.getBlockIds().x,
                                      constant(b, loc, kThreads));
  return arith::AddIOp::create(b, loc, first, launch.getThreadIds().x);
}

namespace {
/// The places of an op's parallel loops in the grid.
struct Grid {
  /// Loops along x; the one along y, if any.
  SmallVector<unsigned> x;
  std::optional<unsigned> y;
  gpu::KernelDim3 blocks;
};

/// Lowers one entry.
class EntryLowering {
public:
  EntryLowering(func::FuncOp entry, EntryArguments arguments,
                gpu::GPUModuleOp kernels, StringRef pass)
      : entry(entry), kernels(kernels), pass(pass), bounds(entry),
        values(std::move(arguments), globals, entry.getContext()) {}

  LogicalResult lower();

private:
  LogicalResult lower(Block &block);
  LogicalResult lower(ArrayRef<Operation *> group);
  LogicalResult lowerElements(linalg::LinalgOp op, OperationName written);
  LogicalResult lowerWhole(ArrayRef<Operation *> group);
  std::optional<Grid> gridOf(linalg::LinalgOp op);
  Value hostSize(linalg::LinalgOp op, unsigned loop, OpBuilder &b);
  bool isTokens(Value size);
  std::string remark(Operation *op, OperationName written, StringRef reason);

  func::FuncOp entry;
  gpu::GPUModuleOp kernels;
  StringRef pass;
  Bounds bounds;
  GlobalPlaces globals;
  HostValues values;
};
} // namespace

/// Reports what runs slowly, as it was written, and why. Returns the name of
/// the kernel function.
std::string EntryLowering::remark(Operation *op, OperationName written,
                                  StringRef reason) {
  std::string name = entry.getName().str();
  for (Operation *at = op; at != entry; at = at->getParentOp())
    if (auto kernel = at->getAttrOfType<StringAttr>(kKernelAttribute))
      name = kernel.str();
  remark::missed(
      op->getLoc(),
      remark::RemarkOpts::name("generic-launch").category(pass).function(name))
      << remark::metric("Op", written.getStringRef().str())
      << remark::reason("no fast schedule takes it: {0}", reason.str());
  op->removeAttr(kKernelAttribute);
  return name;
}

/// Whether the plan can express the number.
bool EntryLowering::isTokens(Value size) {
  return isa_and_present<DictionaryAttr>(values.gridSize(size));
}

/// The number of turns of a loop, in a form that the plan can express if an
/// operand's size has one.
Value EntryLowering::hostSize(linalg::LinalgOp op, unsigned loop,
                              OpBuilder &b) {
  Value found;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [i, expr] : llvm::enumerate(map.getResults())) {
      if (expr != b.getAffineDimExpr(loop))
        continue;
      Value size = sizeOf(b, operand.get(), i);
      if (!found || isTokens(size) || getConstantIntValue(size))
        found = size;
    }
  }
  return found;
}

/// Nothing if the grid has no bound, or too many threads.
std::optional<Grid> EntryLowering::gridOf(linalg::LinalgOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Grid grid;
  SmallVector<Value> sizes;
  SmallVector<int64_t> most;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    sizes.push_back(hostSize(op, loop, b));
    std::optional<int64_t> bound = bounds.most(sizes.back());
    most.push_back(bound.value_or(0));
    if (op.getIteratorTypesArray()[loop] != utils::IteratorType::parallel)
      continue;
    if (!bound)
      return std::nullopt;
    if (!grid.y && *bound <= kMostRows && isTokens(sizes.back()))
      grid.y = loop;
    else
      grid.x.push_back(loop);
  }
  Value one = constant(b, loc, 1);
  grid.blocks = {one, one, one};
  if (grid.y && grid.x.empty()) {
    grid.x.push_back(*grid.y);
    grid.blocks.x = arith::CeilDivUIOp::create(b, loc, sizes[*grid.y],
                                               constant(b, loc, kThreads));
    grid.y = std::nullopt;
    return grid;
  }
  std::optional<int64_t> elements = 1;
  for (unsigned loop : grid.x)
    elements = llvm::checkedMul(*elements, most[loop]).value_or(INT64_MAX);
  int64_t blocks = llvm::divideCeil(*elements, kThreads);
  if (blocks > INT32_MAX)
    return std::nullopt;
  grid.blocks.x = constant(b, loc, blocks);
  if (grid.y)
    grid.blocks.y = sizes[*grid.y];
  return grid;
}

LogicalResult EntryLowering::lowerElements(linalg::LinalgOp op,
                                           OperationName written) {
  std::optional<Grid> grid = gridOf(op);
  if (!grid)
    return lowerWhole(op.getOperation());
  bool isEmpty = getConstantIntValue(grid->blocks.x) == 0;
  if (isEmpty) {
    op.erase();
    return success();
  }
  std::string name = remark(op, written, "a thread computes each element");
  gpu::LaunchOp launch = launchBehind(op, grid->blocks, kThreads);
  op->moveBefore(launch.getBody().front().getTerminator());
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value number = threadNumber(b, launch), total = constant(b, loc, 1);
  SmallVector<Value> sizes;
  for (unsigned loop : grid->x) {
    sizes.push_back(LoopNest(b, op).size(loop));
    total = arith::MulIOp::create(b, loc, total, sizes.back());
  }
  Value exists =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, number, total);
  auto guard = scf::IfOp::create(b, loc, exists);
  op->moveBefore(guard.thenBlock()->getTerminator());
  b.setInsertionPoint(op);
  LoopNest nest(b, op);
  // From the last loop on: neighbouring threads compute neighbouring elements.
  for (auto [loop, size] : llvm::reverse(llvm::zip(grid->x, sizes))) {
    bool isLast = loop == grid->x.front();
    nest.give(loop,
              isLast ? number : arith::RemUIOp::create(b, loc, number, size));
    if (!isLast)
      number = arith::DivUIOp::create(b, loc, number, size);
  }
  if (grid->y)
    nest.give(*grid->y, launch.getBlockIds().y);
  nest.emit(/*parallel=*/false);
  op.erase();
  outline(launch, kernels, name);
  return success();
}

/// Lowers ops in `root` to loops of scalars, which one thread runs.
static LogicalResult lowerInside(Operation *root) {
  copiesToLinalg(root);
  SmallVector<Operation *> deallocs;
  SmallVector<linalg::LinalgOp> ops;
  SmallVector<scf::ForallOp> foralls;
  root->walk([&](Operation *op) {
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
      ops.push_back(linalgOp);
    if (auto forall = dyn_cast<scf::ForallOp>(op))
      foralls.push_back(forall);
    if (isa<memref::DeallocOp>(op))
      deallocs.push_back(op);
  });
  for (Operation *op : deallocs)
    op->erase();
  for (linalg::LinalgOp op : ops) {
    OpBuilder b(op);
    LoopNest(b, op).emit(/*parallel=*/false);
    op.erase();
  }
  IRRewriter rewriter(root->getContext());
  for (scf::ForallOp forall : foralls) {
    rewriter.setInsertionPoint(forall);
    if (failed(scf::forallToForLoop(rewriter, forall)))
      return failure();
  }
  return success();
}

/// Puts results of ops in the launch that later ops read into memory.
static void spill(gpu::LaunchOp launch) {
  Operation *end = launch.getBody().front().getTerminator();
  OpBuilder host(launch), b(end);
  for (Operation &op : launch.getBody().front())
    for (Value result : op.getResults()) {
      auto isBehind = [&](OpOperand &use) {
        return !launch->isAncestor(use.getOwner());
      };
      if (llvm::none_of(result.getUses(), isBehind))
        continue;
      host.setInsertionPoint(launch);
      auto type = MemRefType::get({}, result.getType());
      Value place = memref::AllocOp::create(host, op.getLoc(), type);
      memref::StoreOp::create(b, op.getLoc(), result, place);
      host.setInsertionPointAfter(launch);
      Value loaded = memref::LoadOp::create(host, op.getLoc(), place);
      result.replaceUsesWithIf(loaded, isBehind);
    }
}

/// Moves an allocation out of the launch: scratch comes from the arena. If the
/// launch computes its sizes, the largest possible buffer is allocated, and the
/// launch uses a part of it.
static LogicalResult allocateBefore(gpu::LaunchOp launch, memref::AllocOp alloc,
                                    const Bounds &bounds) {
  bool isSized = llvm::any_of(alloc.getDynamicSizes(), [&](Value size) {
    return launch.getBody().isAncestor(size.getParentRegion());
  });
  if (!isSized) {
    alloc->moveBefore(launch);
    return success();
  }
  FailureOr<SmallVector<int64_t>> most = bounds.mostShape(alloc);
  if (failed(most))
    return failure();
  OpBuilder host(launch), b(alloc);
  MemRefType type = alloc.getType();
  Value buffer = memref::AllocOp::create(
      host, alloc.getLoc(), MemRefType::Builder(type).setShape(*most));
  alloc.replaceAllUsesWith(withSizes(b, buffer, type, alloc.getMixedSizes()));
  alloc.erase();
  return success();
}

/// One thread runs the ops, one after the other.
LogicalResult EntryLowering::lowerWhole(ArrayRef<Operation *> group) {
  for (Operation *op : group)
    if (isa<gpu::LaunchFuncOp, func::CallOp, mpi::AllReduceOp>(op))
      return op->emitOpError("cannot use the result of '")
             << group.front()->getName() << "', which one thread computes";
  Operation *first = group.front();
  OpBuilder host(first);
  Value one = constant(host, first->getLoc(), 1);
  std::string name = remark(first, first->getName(), "one thread computes all");
  gpu::LaunchOp launch = launchBehind(group.back(), {one, one, one}, 1);
  for (Operation *op : group)
    op->moveBefore(launch.getBody().front().getTerminator());
  SmallVector<memref::AllocOp> allocs;
  launch.walk([&](memref::AllocOp alloc) { allocs.push_back(alloc); });
  for (memref::AllocOp alloc : allocs)
    if (failed(allocateBefore(launch, alloc, bounds)))
      return failure();
  spill(launch);
  if (failed(lowerInside(launch)))
    return failure();
  outline(launch, kernels, name);
  return success();
}

/// Whether the plan can express the uses of a loop's turn: as layers of weights
/// and caches.
static bool isPlanned(Value turn, Block *body) {
  return llvm::all_of(turn.getUsers(), [&](Operation *user) {
    if (user->getBlock() != body || isa<gpu::LaunchFuncOp>(user))
      return false;
    if (auto call = dyn_cast<func::CallOp>(user))
      return bool(calledWeight(call));
    if (auto view = dyn_cast<memref::SubViewOp>(user)) {
      auto cache = dyn_cast<BlockArgument>(view.getSource());
      return cache && llvm::is_contained(view.getOffsets(), turn) &&
             isa<func::FuncOp>(cache.getOwner()->getParentOp());
    }
    return isa<arith::AddIOp, arith::MulIOp>(user) &&
           isPlanned(user->getResult(0), body);
  });
}

/// Whether the loop has an op that no kernel can do: choose a weight, launch,
/// or sum over ranks.
static bool needsHost(scf::ForOp loop) {
  auto walked = loop.walk([](Operation *op) {
    return isa<func::CallOp, gpu::LaunchFuncOp, mpi::AllReduceOp>(op)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return walked.wasInterrupted();
}

/// Whether the host may run the loop: it must be a loop over layers.
static bool isHostLoop(scf::ForOp loop) {
  return loop.getNumResults() == 0 && loopNumber(loop.getInductionVar()) &&
         isa<func::FuncOp>(loop->getParentOp()) &&
         isPlanned(loop.getInductionVar(), loop.getBody());
}

/// Whether the op runs nothing.
static bool isNothing(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() ||
         isa<memref::AllocOp, func::CallOp, gpu::LaunchFuncOp, mpi::CommWorldOp,
             mpi::AllReduceOp>(op) ||
         isMemoryEffectFree(op);
}

/// The op, and all ops up to the last one that uses a buffer made by one of
/// them; without the host's ops, if they need no result of these.
static SmallVector<Operation *> groupOf(Operation *first) {
  llvm::SetVector<Operation *> group;
  auto isOfGroup = [&](Value value) {
    return group.contains(value.getDefiningOp());
  };
  Operation *last = first;
  for (Operation *op = first;; op = op->getNextNode()) {
    auto walked = op->walk([&](Operation *nested) {
      return llvm::any_of(nested->getOperands(), isOfGroup)
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (walked.wasInterrupted() || !isNothing(op) || op == first)
      group.insert(op);
    if (group.contains(op) &&
        llvm::any_of(op->getResultTypes(), llvm::IsaPred<MemRefType>))
      for (Operation *user : op->getUsers()) {
        Operation *at = op->getBlock()->findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(at))
          last = at;
      }
    if (op == last)
      return group.takeVector();
  }
}

LogicalResult EntryLowering::lower(ArrayRef<Operation *> group) {
  Operation *op = group.front();
  if (auto copy = dyn_cast<memref::CopyOp>(op)) {
    OpBuilder b(op);
    auto generic = linalg::makeMemRefCopyOp(b, op->getLoc(), copy.getSource(),
                                            copy.getTarget());
    if (Attribute kernel = op->getAttr(kKernelAttribute))
      generic->setAttr(kKernelAttribute, kernel);
    OperationName written = op->getName();
    op->erase();
    return lowerElements(cast<linalg::LinalgOp>(generic.getOperation()),
                         written);
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return lowerElements(linalgOp, op->getName());
  auto loop = dyn_cast<scf::ForOp>(op);
  if (loop && isHostLoop(loop))
    return lower(*loop.getBody());
  return lowerWhole(group);
}

LogicalResult EntryLowering::lower(Block &block) {
  splitViews(block);
  for (Operation *op = &block.front(), *next; op; op = next) {
    next = op->getNextNode();
    if (isNothing(op))
      continue;
    SmallVector<Operation *> group = groupOf(op);
    next = group.back()->getNextNode();
    if (isa<memref::DeallocOp>(op))
      op->erase();
    else if (failed(lower(group)))
      return failure();
  }
  return success();
}

/// Replaces a loop over layers by the ops of each.
static LogicalResult unroll(scf::ForOp loop) {
  uint64_t ops = 0;
  loop.walk([&](Operation *) { ++ops; });
  std::optional<APInt> layers = loop.getStaticTripCount();
  if (!layers || layers->ugt(kMostOps / ops))
    return loop.emitOpError("expected a constant number of layers, of up to ")
           << kMostOps << " ops together";
  return loopUnrollFull(loop);
}

LogicalResult EntryLowering::lower() {
  SmallVector<memref::AllocaOp> allocas;
  entry.walk([&](memref::AllocaOp op) { allocas.push_back(op); });
  for (memref::AllocaOp op : allocas) {
    OpBuilder b(op);
    op.replaceAllUsesWith(memref::AllocOp::create(b, op.getLoc(), op.getType(),
                                                  op.getDynamicSizes())
                              .getResult());
    op.erase();
  }
  // If a kernel computes with the layer's number, the loop is unrolled: the
  // number is then a constant.
  for (auto loop : llvm::make_early_inc_range(entry.getOps<scf::ForOp>()))
    if (!isHostLoop(loop) && needsHost(loop) && failed(unroll(loop)))
      return failure();
  if (failed(lower(entry.front())))
    return failure();
  // Kernels have clones of the values that they need.
  IRRewriter rewriter(entry.getContext());
  (void)runRegionDCE(rewriter, entry->getRegions());
  return success();
}

/// The module of kernels; a new one if nothing has been launched yet.
static gpu::GPUModuleOp kernelsOf(ModuleOp module) {
  auto found = module.getOps<gpu::GPUModuleOp>();
  if (!found.empty())
    return *found.begin();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  return gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
}

/// Erases constants that only kernels use, which have copies of their own.
static void eraseUnusedGlobals(ModuleOp module) {
  llvm::StringSet<> used;
  for (auto function : module.getOps<func::FuncOp>())
    function.walk([&](memref::GetGlobalOp op) { used.insert(op.getName()); });
  for (auto global :
       llvm::make_early_inc_range(module.getOps<memref::GlobalOp>()))
    if (!used.contains(global.getSymName()))
      global.erase();
}

namespace {
struct LowerLinalgToLaunches
    : cria::impl::LowerLinalgToLaunchesBase<LowerLinalgToLaunches> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyDimensions(module)))
      return signalPassFailure();
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                    UnitAttr::get(&getContext()));
    gpu::GPUModuleOp kernels = kernelsOf(module);
    for (auto entry : module.getOps<func::FuncOp>()) {
      if (!isEntry(entry))
        continue;
      FailureOr<EntryArguments> arguments = EntryArguments::of(entry);
      if (failed(arguments) || !entry.getBody().hasOneBlock())
        return signalPassFailure();
      EntryLowering lowering(entry, *arguments, kernels, getArgument());
      if (failed(lowering.lower()))
        return signalPassFailure();
    }
    eraseUnusedGlobals(module);
    module.walk([](Operation *op) { op->removeAttr(kKernelAttribute); });
  }
};
} // namespace
