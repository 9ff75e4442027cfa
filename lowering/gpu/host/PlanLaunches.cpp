/// gpu.launch_func in entry functions  =>  the attribute cria.plan
///
///   scf.for %layer = 0 to 2 {            {loop = 2, body = [
///     %w = call @w(%layer)                 {launch = "k",
///     gpu.launch_func @kernels::@k   =>     grid = [{tokens = 1}, 1, 1],
///       blocks in (%tokens, 1, 1)           args = [{weight = 3, layered},
///       args(%w, %position)                         {state = 0}]}]}
///   }
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"
#include "lowering/gpu/build/Chips.h"
#include "lowering/gpu/build/KernelBuilder.h"
#include "lowering/gpu/host/HostValues.h"
#include "lowering/gpu/host/KernelNumbers.h"
#include "lowering/kernel/Launches.h"

#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace cria {
#define GEN_PASS_DEF_PLANLAUNCHES
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// The most threads of a block on any device.
static constexpr int64_t kMostThreads = 1024;

namespace {
using Steps = SmallVector<Attribute>;

/// Plans one entry.
class EntryPlanner {
public:
  EntryPlanner(func::FuncOp entry, const EntryArguments &arguments,
               const GlobalPlaces &globals)
      : arguments(arguments), values(arguments, globals, entry.getContext()),
        b(entry.getContext()) {}

  /// The steps of a block: of the entry, or of a loop.
  FailureOr<ArrayAttr> plan(Block &block);

private:
  LogicalResult visit(Operation &op, Steps &steps);
  LogicalResult visitLoop(scf::ForOp loop, Steps &steps);
  LogicalResult visitLaunch(gpu::LaunchFuncOp launch, Steps &steps);
  LogicalResult visitSum(mpi::AllReduceOp sum, Steps &steps);
  FailureOr<gpu::GPUFuncOp> kernelOf(gpu::LaunchFuncOp launch);
  FailureOr<Steps> argumentsOf(gpu::LaunchFuncOp launch, gpu::GPUFuncOp kernel);
  FailureOr<ArrayAttr> gridOf(gpu::LaunchFuncOp launch, gpu::GPUFuncOp kernel);
  FailureOr<ArrayAttr> blockOf(gpu::LaunchFuncOp launch, gpu::GPUFuncOp kernel);

  const EntryArguments &arguments;
  HostValues values;
  Builder b;
};
} // namespace

FailureOr<gpu::GPUFuncOp> EntryPlanner::kernelOf(gpu::LaunchFuncOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<gpu::GPUFuncOp>(
      launch, launch.getKernelAttr());
  if (!kernel)
    return launch.emitOpError("expected a kernel that is a gpu.func, got ")
           << launch.getKernelAttr();
  return kernel;
}

/// Marks the parameters of a kernel that are given in each of its launches.
static void markGiven(gpu::GPUFuncOp kernel, SmallVector<int32_t> given) {
  if (kernel->hasAttr(kGivenAttribute))
    llvm::erase_if(given,
                   [&](int32_t number) { return !isGiven(kernel, number); });
  kernel->setAttr(kGivenAttribute, Builder(kernel).getDenseI32ArrayAttr(given));
}

/// A place from which boxes are copied: {arena = 0, map = {box = [...], ...}}.
static DictionaryAttr withMap(DictionaryAttr place, Value memref,
                              DictionaryAttr map) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  NamedAttrList attrs(map), all(place);
  Builder b(place.getContext());
  StringRef name = element.isInteger(8) ? "u8"
                   : element.isBF16()   ? "bf16"
                                        : "f16";
  attrs.set("dtype", b.getStringAttr(name));
  all.set("map", attrs.getDictionary(place.getContext()));
  return all.getDictionary(place.getContext());
}

FailureOr<Steps> EntryPlanner::argumentsOf(gpu::LaunchFuncOp launch,
                                           gpu::GPUFuncOp function) {
  KernelNumbers numbers(function, arguments);
  Steps args;
  SmallVector<int32_t> given;
  for (auto [i, operand] : llvm::enumerate(launch.getKernelOperands())) {
    if (isa<MemRefType>(operand.getType())) {
      FailureOr<DictionaryAttr> place = values.place(launch, i, operand);
      if (failed(place))
        return failure();
      Attribute map = function.getArgAttr(i, kTensorMapAttribute);
      args.push_back(map ? withMap(*place, operand, cast<DictionaryAttr>(map))
                         : *place);
      if (place->get("weight"))
        given.push_back(static_cast<int32_t>(args.size() - 1));
    } else if (failed(numbers.compute(i, operand))) {
      return launch.emitOpError("expected argument ")
             << i
             << " to be a memref, or to be computed from constants and the "
                "entry's tokens, position, first, first_hidden and source";
    }
  }
  if (numbers.finish()) {
    args.push_back(
        b.getDictionaryAttr(b.getNamedAttr("state", b.getI64IntegerAttr(0))));
    given.push_back(static_cast<int32_t>(args.size() - 1));
  }
  markGiven(function, std::move(given));
  return args;
}

/// Checks that a grid consists of whole clusters, for any number of tokens.
static LogicalResult checkClusters(gpu::LaunchFuncOp launch,
                                   gpu::GPUFuncOp kernel,
                                   ArrayRef<Attribute> sizes) {
  auto cluster = kernel.getKnownClusterSize();
  for (size_t i = 0; cluster && i < sizes.size(); ++i) {
    auto size = dyn_cast<IntegerAttr>(sizes[i]);
    int32_t each = (*cluster)[i];
    if (each == 1 || (size && size.getInt() % each == 0))
      continue;
    InFlightDiagnostic error = launch.emitOpError("expected dimension ")
                               << i << " of the grid to be a multiple of "
                               << each << ", as clusters of its kernel are";
    return size ? error << ", got " << size.getInt() : error;
  }
  return success();
}

FailureOr<ArrayAttr> EntryPlanner::gridOf(gpu::LaunchFuncOp launch,
                                          gpu::GPUFuncOp kernel) {
  gpu::KernelDim3 grid = launch.getGridSizeOperandValues();
  SmallVector<Attribute> sizes;
  for (Value size : {grid.x, grid.y, grid.z}) {
    sizes.push_back(values.gridSize(size));
    if (!sizes.back())
      return launch.emitOpError("expected dimension ")
             << sizes.size() - 1
             << " of the grid to be a constant, or the entry's tokens, tokens "
                "- "
                "first or tokens - first_hidden, over a constant, rounded up; "
                "a least size, and a range of counts outside which it is 0, "
                "may come with "
                "it";
  }
  if (failed(checkClusters(launch, kernel, sizes)))
    return failure();
  return b.getArrayAttr(sizes);
}

FailureOr<ArrayAttr> EntryPlanner::blockOf(gpu::LaunchFuncOp launch,
                                           gpu::GPUFuncOp kernel) {
  gpu::KernelDim3 block = launch.getBlockSizeOperandValues();
  SmallVector<Attribute> attrs;
  SmallVector<int32_t> sizes;
  for (Value size : {block.x, block.y, block.z}) {
    std::optional<int64_t> known = getConstantIntValue(size);
    if (!known || *known < 1 || *known > kMostThreads)
      return launch.emitOpError("expected blocks of a constant number of "
                                "threads, at most ")
             << kMostThreads;
    attrs.push_back(b.getI64IntegerAttr(*known));
    sizes.push_back(*known);
  }
  if (auto own = kernel.getKnownBlockSize(); own && *own != ArrayRef(sizes))
    return launch.emitOpError("expected blocks of [")
           << *own << "] threads as its kernel says, got [" << sizes << "]";
  return b.getArrayAttr(attrs);
}

LogicalResult EntryPlanner::visitLaunch(gpu::LaunchFuncOp launch,
                                        Steps &steps) {
  if (launch.getAsyncToken() || !launch.getAsyncDependencies().empty() ||
      launch.getAsyncObject() || launch.hasClusterSize())
    return launch.emitOpError("expected a launch without tokens, streams and "
                              "clusters: launches run one after the other");
  int64_t shared = 0;
  if (Value bytes = launch.getDynamicSharedMemorySize()) {
    shared = getConstantIntValue(bytes).value_or(-1);
    if (shared < 0)
      return launch.emitOpError("expected a constant size of shared memory");
  }
  FailureOr<gpu::GPUFuncOp> kernel = kernelOf(launch);
  if (failed(kernel))
    return failure();
  if (!generationsOf(*kernel))
    return launch.emitOpError("expected `")
           << kGenerationsAttribute << "` of its kernel to be numbers below "
           << kGenerations << ", one after the other, got "
           << (*kernel)->getAttr(kGenerationsAttribute);
  FailureOr<ArrayAttr> grid = gridOf(launch, *kernel),
                       block = blockOf(launch, *kernel);
  if (failed(grid) || failed(block))
    return failure();
  FailureOr<Steps> args = argumentsOf(launch, *kernel);
  if (failed(args))
    return failure();
  NamedAttrList step(ArrayRef<NamedAttribute>{
      b.getNamedAttr("launch", launch.getKernelName()),
      b.getNamedAttr("grid", *grid), b.getNamedAttr("block", *block),
      b.getNamedAttr("shared", b.getI64IntegerAttr(shared)),
      b.getNamedAttr("args", b.getArrayAttr(*args))});
  if (Attribute generations = (*kernel)->getAttr(kGenerationsAttribute))
    step.set("generations", generations);
  steps.push_back(step.getDictionary(b.getContext()));
  return success();
}

/// The rows and columns of the matrix from which a memref was flattened. The
/// rows are a number of the entry; null if the memref is not such a matrix.
static std::pair<Value, int64_t> matrixOf(Value flat) {
  auto collapse = flat.getDefiningOp<memref::CollapseShapeOp>();
  Value matrix = collapse ? collapse.getSrc() : Value();
  auto type = matrix ? cast<MemRefType>(matrix.getType()) : MemRefType();
  if (!type || type.getRank() != 2 || type.isDynamicDim(1))
    return {};
  while (auto cast = matrix.getDefiningOp<memref::CastOp>())
    matrix = cast.getSource();
  auto view = matrix.getDefiningOp<memref::ViewOp>();
  if (!view || view.getSizes().size() != 1)
    return {};
  return {view.getSizes().front(), type.getDimSize(1)};
}

/// {all_reduce = {arena = 512}, rows = {tokens = 1}, columns = 64}.
LogicalResult EntryPlanner::visitSum(mpi::AllReduceOp sum, Steps &steps) {
  Value memref = sum.getSendbuf();
  auto type = cast<MemRefType>(memref.getType());
  if (memref != sum.getRecvbuf() ||
      sum.getOp() != mpi::MPI_ReductionOpEnum::MPI_SUM ||
      !type.getElementType().isF32() || type.getRank() != 1 ||
      !type.getLayout().isIdentity())
    return sum.emitOpError("expected an in-place sum of memref<?xf32>");
  FailureOr<DictionaryAttr> place = values.place(sum, 0, memref);
  if (failed(place))
    return failure();
  Attribute rows = b.getI64IntegerAttr(1);
  int64_t columns = type.getDimSize(0);
  if (type.isDynamicDim(0)) {
    Value count;
    std::tie(count, columns) = matrixOf(memref);
    rows = count ? values.gridSize(count) : Attribute();
  }
  if (!rows || !place->get("arena"))
    return sum.emitOpError("expected rows of a constant number of elements in "
                           "the arena: as many as the plan can say");
  steps.push_back(b.getDictionaryAttr(
      {b.getNamedAttr("all_reduce", *place), b.getNamedAttr("rows", rows),
       b.getNamedAttr("columns", b.getI64IntegerAttr(columns))}));
  return success();
}

LogicalResult EntryPlanner::visitLoop(scf::ForOp loop, Steps &steps) {
  std::optional<APInt> turns = loop.getStaticTripCount();
  if (!turns || turns->isZero() || turns->getActiveBits() > 31)
    return loop.emitOpError("has no constant number of layers");
  if (loop->getParentOfType<scf::ForOp>())
    return loop.emitOpError("is inside another loop; the cuda target supports "
                            "no nested loops");
  if (loop.getNumResults())
    return loop.emitOpError("carries values; the cuda target supports loops "
                            "that update memory alone");
  FailureOr<ArrayAttr> body = plan(*loop.getBody());
  if (failed(body))
    return failure();
  steps.push_back(b.getDictionaryAttr(
      {b.getNamedAttr("loop", b.getI64IntegerAttr(turns->getSExtValue())),
       b.getNamedAttr("body", *body)}));
  return success();
}

LogicalResult EntryPlanner::visit(Operation &op, Steps &steps) {
  if (auto launch = dyn_cast<gpu::LaunchFuncOp>(op))
    return visitLaunch(launch, steps);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitLoop(loop, steps);
  if (auto sum = dyn_cast<mpi::AllReduceOp>(op))
    return visitSum(sum, steps);
  if (isa<mpi::CommWorldOp>(op))
    return success();
  auto call = dyn_cast<func::CallOp>(op);
  bool isNothing = op.hasTrait<OpTrait::IsTerminator>()
                       ? op.getNumOperands() == 0
                       : op.getNumRegions() == 0 && isMemoryEffectFree(&op);
  if (isNothing || (call && calledWeight(call)))
    return success();
  return op.emitOpError("cannot run on the host: the cuda target launches "
                        "kernels, takes sums over ranks, and nothing else");
}

FailureOr<ArrayAttr> EntryPlanner::plan(Block &block) {
  Steps steps;
  for (Operation &op : block)
    if (failed(visit(op, steps)))
      return failure();
  return b.getArrayAttr(steps);
}

/// Gives each global a place among the arena's zeroed bytes. Returns how many
/// bytes are taken.
static FailureOr<int64_t> placeGlobals(ModuleOp module, GlobalPlaces &places) {
  int64_t next = 0;
  for (auto global : module.getOps<memref::GlobalOp>()) {
    auto value =
        dyn_cast_if_present<DenseElementsAttr>(global.getInitialValueAttr());
    if (!value ||
        llvm::any_of(value.getRawData(), [](char byte) { return byte != 0; }))
      return global.emitOpError("expected zeros: the arena has no other "
                                "values when a session begins");
    places[global.getSymName()] = next;
    MemRefType type = global.getType();
    int64_t bytes =
        type.getNumElements() *
        DataLayout::closest(global).getTypeSize(type.getElementType());
    next += llvm::alignTo(bytes, kPlaceAlignment);
    if (next > kZeroed)
      return global.emitOpError("expected at most ")
             << kZeroed << " bytes of globals, got " << next;
  }
  return next;
}

/// Gives each launch its own kernel, because a kernel computes the numbers of
/// its launch.
static void copySharedKernels(ModuleOp module, gpu::GPUModuleOp kernels) {
  SymbolTable symbols(kernels);
  llvm::DenseSet<Attribute> launched;
  module.walk([&](gpu::LaunchFuncOp launch) {
    auto kernel = symbols.lookup<gpu::GPUFuncOp>(launch.getKernelName());
    if (launched.insert(launch.getKernelAttr()).second || !kernel)
      return;
    StringAttr copy = symbols.insert(kernel.clone());
    launch.setKernelAttr(SymbolRefAttr::get(kernels.getNameAttr(),
                                            FlatSymbolRefAttr::get(copy)));
  });
}

namespace {
struct PlanLaunches : cria::impl::PlanLaunchesBase<PlanLaunches> {
  void runOnOperation() override {
    auto modules = llvm::to_vector(getOperation().getOps<gpu::GPUModuleOp>());
    if (modules.size() != 1) {
      getOperation().emitError("expected one gpu.module, got ")
          << modules.size();
      return signalPassFailure();
    }
    copySharedKernels(getOperation(), modules[0]);
    GlobalPlaces globals;
    FailureOr<int64_t> zeroed = placeGlobals(getOperation(), globals);
    if (failed(zeroed))
      return signalPassFailure();
    int64_t arena = kZeroed;
    Builder b(&getContext());
    SmallVector<NamedAttribute> entries;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!isEntry(function))
        continue;
      FailureOr<ArrayAttr> steps = planEntry(function, globals, arena);
      if (failed(steps))
        return signalPassFailure();
      entries.push_back(b.getNamedAttr(function.getName(), *steps));
    }
    NamedAttribute none = b.getNamedAttr("offset", b.getI64IntegerAttr(0));
    auto workspace = b.getDictionaryAttr(
        {none, b.getNamedAttr("bytes", b.getI64IntegerAttr(*zeroed))});
    modules[0]->setAttr(
        kPlanAttribute,
        b.getDictionaryAttr(
            {b.getNamedAttr("arena", b.getI64IntegerAttr(arena)),
             b.getNamedAttr("workspace_zeroed", workspace),
             b.getNamedAttr("entries", b.getDictionaryAttr(entries))}));
    eraseHost();
  }

private:
  /// Plans an entry; `arena` grows to the bytes that it needs.
  FailureOr<ArrayAttr> planEntry(func::FuncOp entry,
                                 const GlobalPlaces &globals, int64_t &arena) {
    FailureOr<EntryArguments> arguments = EntryArguments::of(entry);
    if (failed(arguments))
      return failure();
    if (!entry.getBody().hasOneBlock())
      return entry.emitOpError("expected one block");
    if (failed(verifyMemory(entry)))
      return failure();
    if (arguments->has(EntryArgument::Arena)) {
      Value own = entry.getArgument(arguments->at(EntryArgument::Arena));
      int64_t bytes = cast<MemRefType>(own.getType()).getNumElements();
      arena = std::max(arena, kZeroed + bytes);
    }
    return EntryPlanner(entry, *arguments, globals).plan(entry.front());
  }

  void eraseHost() {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (isEntry(function) || slotOf(function))
        function.erase();
    for (auto global :
         llvm::make_early_inc_range(getOperation().getOps<memref::GlobalOp>()))
      global.erase();
  }
};
} // namespace
