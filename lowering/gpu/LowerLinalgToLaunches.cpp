/// linalg.generic on memrefs  =>  gpu.launch_func of a thread an element
///
/// The schedule of what no other takes. A kernel's grid:
///
///   x   all parallel loops but that over tokens, 128 elements a block
///   y   the tokens, where the plan knows their number; those of a loop that is
///       alone are along x
///
/// A loop whose number of turns is known on the device alone counts along x
/// with the most it can be; threads beyond do nothing. Reductions run in the
/// thread.
#include "lowering/Bounds.h"
#include "lowering/Entry.h"
#include "lowering/LayerNumber.h"
#include "lowering/Passes.h"
#include "lowering/gpu/HostValues.h"
#include "lowering/gpu/Launches.h"
#include "lowering/gpu/Outline.h"
#include "lowering/kernel/LoopNest.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
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
using namespace cria::cuda;

static constexpr int64_t kThreads = 128;
/// The most blocks along y.
static constexpr int64_t kMostRows = 65535;

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

/// The index that a thread has among all along x.
static Value threadNumber(OpBuilder &b, Location loc) {
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  Value thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  Value first =
      arith::MulIOp::create(b, loc, block, constant(b, loc, kThreads));
  return arith::AddIOp::create(b, loc, first, thread);
}

namespace {
/// How the parallel loops of an op lie in the grid.
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
  LogicalResult lower(Operation *op);
  LogicalResult lowerElements(linalg::LinalgOp op, OperationName written);
  LogicalResult lowerWhole(Operation *op);
  FailureOr<Grid> gridOf(linalg::LinalgOp op);
  Value hostSize(linalg::LinalgOp op, unsigned loop, OpBuilder &b);
  bool isTokens(Value size);
  void spill(Operation *op, Operation *copy, Outline &kernel);
  std::string remark(Operation *op, OperationName written, StringRef reason);

  func::FuncOp entry;
  gpu::GPUModuleOp kernels;
  StringRef pass;
  Bounds bounds;
  GlobalPlaces globals;
  HostValues values;
  Spills spills;
  /// Ops that have become kernels, but whose results stand for values that
  /// kernels load.
  llvm::SetVector<Operation *> dead;
};

/// Forgets ops that are erased.
struct Forget : RewriterBase::Listener {
  explicit Forget(llvm::SetVector<Operation *> &ops) : ops(ops) {}
  void notifyOperationErased(Operation *op) override { ops.remove(op); }
  llvm::SetVector<Operation *> &ops;
};
} // namespace

/// Says what runs slowly, as it was written, and why; returns the name of the
/// kernel function.
std::string EntryLowering::remark(Operation *op, OperationName written,
                                  StringRef reason) {
  auto kernel = op->getAttrOfType<StringAttr>(kKernelAttribute);
  std::string name = kernel ? kernel.str() : entry.getName().str();
  remark::missed(
      op->getLoc(),
      remark::RemarkOpts::name("generic-launch").category(pass).function(name))
      << remark::metric("Op", written.getStringRef().str())
      << remark::reason("no fast schedule takes it: {0}", reason.str());
  op->removeAttr(kKernelAttribute);
  return name;
}

/// Whether the plan knows the number.
bool EntryLowering::isTokens(Value size) {
  return isa_and_present<DictionaryAttr>(values.gridSize(size));
}

/// How many turns a loop has: as the plan has it, if an operand's size is so.
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

FailureOr<Grid> EntryLowering::gridOf(linalg::LinalgOp op) {
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
      return op.emitOpError("expected parallel loops of sizes that a constant "
                            "bounds, or numbers of tokens, got ")
             << sizes.back() << " of loop " << loop;
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
    return op.emitOpError("has more elements than a grid has threads");
  grid.blocks.x = constant(b, loc, blocks);
  if (grid.y)
    grid.blocks.y = sizes[*grid.y];
  return grid;
}

LogicalResult EntryLowering::lowerElements(linalg::LinalgOp op,
                                           OperationName written) {
  FailureOr<Grid> grid = gridOf(op);
  if (failed(grid))
    return failure();
  bool isEmpty = getConstantIntValue(grid->blocks.x) == 0;
  if (isEmpty) {
    op.erase();
    return success();
  }
  std::string name = remark(op, written, "a thread computes each element");
  Outline kernel(kernels, name, op, kThreads, spills);
  OpBuilder &b = kernel.body();
  Location loc = op.getLoc();
  auto copy = cast<linalg::LinalgOp>(kernel.clone(op));
  b.setInsertionPoint(copy);
  Value number = threadNumber(b, loc), total = constant(b, loc, 1);
  SmallVector<Value> sizes;
  for (unsigned loop : grid->x) {
    sizes.push_back(LoopNest(b, copy).size(loop));
    total = arith::MulIOp::create(b, loc, total, sizes.back());
  }
  Value exists =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, number, total);
  auto guard = scf::IfOp::create(b, loc, exists);
  copy->moveBefore(guard.thenBlock()->getTerminator());
  b.setInsertionPoint(copy);
  LoopNest nest(b, copy);
  // From the last loop on: neighbours compute neighbours.
  for (auto [loop, size] : llvm::reverse(llvm::zip(grid->x, sizes))) {
    bool isLast = loop == grid->x.front();
    nest.give(loop,
              isLast ? number : arith::RemUIOp::create(b, loc, number, size));
    if (!isLast)
      number = arith::DivUIOp::create(b, loc, number, size);
  }
  if (grid->y)
    nest.give(*grid->y, gpu::BlockIdOp::create(b, loc, gpu::Dimension::y));
  nest.emit(/*parallel=*/false);
  copy->erase();
  kernel.launch(grid->blocks);
  op.erase();
  return success();
}

/// Leaves loops of scalars that one thread runs.
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

/// What ops behind it read of the op's results lies in memory.
void EntryLowering::spill(Operation *op, Operation *copy, Outline &kernel) {
  OpBuilder host(op);
  OpBuilder &b = kernel.body();
  SmallVector<std::pair<Value, Value>> places;
  for (auto [result, here] : llvm::zip(op->getResults(), copy->getResults())) {
    if (result.use_empty())
      continue;
    auto type = MemRefType::get({}, result.getType());
    Value place = memref::AllocOp::create(host, op->getLoc(), type);
    Value placeHere = kernel.capture(place);
    memref::StoreOp::create(b, op->getLoc(), here, placeHere);
    places.push_back({result, place});
  }
  for (auto [result, place] : places)
    spills[result] = place;
}

LogicalResult EntryLowering::lowerWhole(Operation *op) {
  for (Type type : op->getResultTypes())
    if (isa<MemRefType>(type))
      return op->emitOpError("makes a buffer, which the cuda target supports "
                             "of views and allocations alone");
  // Scratch is the arena's.
  SmallVector<memref::AllocOp> allocs;
  op->walk([&](memref::AllocOp alloc) { allocs.push_back(alloc); });
  for (memref::AllocOp alloc : allocs) {
    if (llvm::any_of(alloc->getOperands(), [&](Value size) {
          return op->isAncestor(size.getParentRegion()->getParentOp());
        }))
      return alloc.emitOpError("expected a size that is known before '")
             << op->getName() << "'";
    alloc->moveBefore(op);
  }
  std::string name = remark(op, op->getName(), "one thread computes all");
  Outline kernel(kernels, name, op, 1, spills);
  Operation *copy = kernel.clone(op);
  spill(op, copy, kernel);
  auto function = copy->getParentOfType<gpu::GPUFuncOp>();
  if (failed(lowerInside(function)))
    return failure();
  OpBuilder host(op);
  Value one = constant(host, op->getLoc(), 1);
  kernel.launch({one, one, one});
  dead.insert(op);
  return success();
}

/// Whether the plan can say what uses of a loop's turn are: layers of weights
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

static bool callsWeights(scf::ForOp loop) {
  auto walked = loop.walk([](func::CallOp) { return WalkResult::interrupt(); });
  return walked.wasInterrupted();
}

/// Whether the host may run the loop: it is one of layers.
static bool isHostLoop(scf::ForOp loop) {
  return loop.getNumResults() == 0 && loopNumber(loop.getInductionVar()) &&
         isa<func::FuncOp>(loop->getParentOp()) &&
         isPlanned(loop.getInductionVar(), loop.getBody());
}

/// Whether there is nothing to run.
static bool isNothing(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() ||
         isa<memref::AllocOp, func::CallOp, gpu::LaunchFuncOp>(op) ||
         isMemoryEffectFree(op);
}

LogicalResult EntryLowering::lower(Operation *op) {
  if (isa<memref::DeallocOp>(op)) {
    op->erase();
    return success();
  }
  if (isNothing(op))
    return success();
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
  return lowerWhole(op);
}

LogicalResult EntryLowering::lower(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(lower(&op)))
      return failure();
  return success();
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
  // A layer that a kernel computes with is a constant in a copy of the loop.
  for (auto loop : llvm::make_early_inc_range(entry.getOps<scf::ForOp>()))
    if (!isHostLoop(loop) && callsWeights(loop) && failed(loopUnrollFull(loop)))
      return loop.emitOpError("expected a constant number of layers");
  if (failed(lower(entry.front())))
    return failure();
  // Uses of results are in kernels now, which have them from memory.
  Forget forget(dead);
  IRRewriter rewriter(entry.getContext(), &forget);
  (void)runRegionDCE(rewriter, entry->getRegions());
  for (Operation *op : llvm::reverse(dead.getArrayRef())) {
    if (!op->use_empty())
      return op->emitOpError("expected a result that kernels alone use");
    op->erase();
  }
  (void)runRegionDCE(rewriter, entry->getRegions());
  return success();
}

/// The module of kernels: a new one, where nothing has launched any yet.
static gpu::GPUModuleOp kernelsOf(ModuleOp module, StringRef chip,
                                  StringRef ptxVersion) {
  auto found = module.getOps<gpu::GPUModuleOp>();
  if (!found.empty())
    return *found.begin();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto kernels = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
  kernels.setTargetsAttr(b.getArrayAttr(NVVM::NVVMTargetAttr::get(
      module.getContext(), /*optLevel=*/3, "nvptx64-nvidia-cuda", chip,
      ("+" + ptxVersion).str())));
  return kernels;
}

/// Constants that kernels have copies of.
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
  using LowerLinalgToLaunchesBase::LowerLinalgToLaunchesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                    UnitAttr::get(&getContext()));
    gpu::GPUModuleOp kernels = kernelsOf(module, chip, ptxVersion);
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
