/// func.call @k(%x)  =>  the body of @k.launch, else that of @k
///
///   func.func @decode(%x) {           func.func @decode(%x) {
///     call @k(%x)                =>     gpu.launch_func @kernels::@k_0 ...
///     call @other(%x)                   linalg.generic {cria.kernel = "other"}
///   }                                 }
///
/// A kernel that the plan cannot launch is not launched, and a remark says why.
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"
#include "lowering/gpu/host/HostValues.h"
#include "lowering/gpu/host/KernelNumbers.h"
#include "lowering/kernel/Launches.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace cria {
#define GEN_PASS_DEF_INLINELAUNCHES
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Clones the body of `function` before the call; returns the copies.
static SmallVector<Operation *>
cloneBody(func::CallOp call, func::FuncOp function, IRMapping &mapping) {
  OpBuilder b(call);
  SmallVector<Operation *> copies;
  mapping.map(function.getArguments(), call.getOperands());
  for (Operation &op : function.front().without_terminator()) {
    Operation *copy = b.clone(op, mapping);
    // Sizes of buffers become those of the call's operands.
    SmallVector<Value> folded;
    if (succeeded(b.tryFold(copy, folded)) && !folded.empty()) {
      mapping.map(op.getResults(), folded);
      copy->erase();
      continue;
    }
    copies.push_back(copy);
    if (!isa<gpu::LaunchFuncOp, func::CallOp>(copy) &&
        !copy->hasAttr(kKernelAttribute))
      copy->setAttr(kKernelAttribute, call.getCalleeAttr().getAttr());
  }
  return copies;
}

/// Whether the host reaches the op once in a call, or once in each layer.
static bool isOnHost(Operation *op) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  Operation *outer = loop ? loop->getParentOp() : op->getParentOp();
  return isa<func::FuncOp>(outer) && (!loop || loop.getStaticTripCount());
}

/// Whether the memory is at a known place: a weight, an argument of the entry,
/// or a temporary.
static bool isPlaced(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  if (auto argument = dyn_cast<BlockArgument>(memref))
    return isa<func::FuncOp>(argument.getOwner()->getParentOp());
  return isa<memref::AllocOp, memref::GetGlobalOp, func::CallOp>(
      memref.getDefiningOp());
}

/// Why the plan cannot launch the kernel; empty if it can.
static StringRef whyNotPlanned(gpu::LaunchFuncOp launch,
                               const HostValues &values) {
  if (!isOnHost(launch))
    return "it is in a branch, or in a loop other than one of layers";
  gpu::KernelDim3 grid = launch.getGridSizeOperandValues();
  for (Value size : {grid.x, grid.y, grid.z})
    if (!values.gridSize(size))
      return "its grid is no number that the plan can say";
  for (Value operand : launch.getKernelOperands()) {
    bool isMemory = isa<MemRefType>(operand.getType());
    if (isMemory && !isPlaced(operand))
      return "it takes memory that other code chooses";
    if (!isMemory && !KernelNumbers::canCompute(operand))
      return "it takes a number that a kernel cannot compute";
  }
  return {};
}

/// Whether the plan can launch the kernel; if not, a remark says why.
static bool isPlanned(gpu::LaunchFuncOp launch, const HostValues &values,
                      StringRef kernel) {
  StringRef reason = whyNotPlanned(launch, values);
  if (!reason.empty())
    remark::missed(launch.getLoc(), remark::RemarkOpts::name("no-schedule")
                                        .category("inline-launches")
                                        .function(kernel))
        << remark::reason("{0}", reason.str());
  return reason.empty();
}

static LogicalResult verifyLaunches(func::CallOp call, func::FuncOp kernel,
                                    func::FuncOp launches) {
  if (TypeRange(launches.getArgumentTypes()) != call.getOperandTypes() ||
      launches.getNumResults() || !launches.getBody().hasOneBlock()) {
    InFlightDiagnostic error = launches.emitOpError(
        "expected one block with the kernel's arguments and without results");
    error.attachNote(call.getLoc()) << "it is called here";
    return error;
  }
  for (auto [i, result] :
       llvm::enumerate(kernel.front().getTerminator()->getOperands()))
    if (!isa<BlockArgument>(result))
      return call.emitOpError("expected result ")
             << i << " of a kernel that is launched to be an argument";
  return success();
}

namespace {
struct InlineLaunches : cria::impl::InlineLaunchesBase<InlineLaunches> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (isEntry(function) && failed(inlineCalls(function, symbols)))
        return signalPassFailure();
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!isEntry(function) && !function.isDeclaration())
        function.erase();
  }

private:
  /// Inlines all calls, also those of kernels that call others.
  LogicalResult inlineCalls(func::FuncOp entry, SymbolTable &symbols) {
    FailureOr<EntryArguments> arguments = EntryArguments::of(entry);
    if (failed(arguments))
      return failure();
    GlobalPlaces none;
    HostValues values(*arguments, none, &getContext());
    auto functions = getOperation().getOps<func::FuncOp>();
    auto deepest = std::distance(functions.begin(), functions.end());
    for (int64_t depth = 0;; ++depth) {
      SmallVector<std::pair<func::CallOp, func::FuncOp>> calls;
      entry.walk([&](func::CallOp call) {
        auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
        if (kernel && !kernel.isDeclaration())
          calls.push_back({call, kernel});
      });
      if (calls.empty())
        return success();
      if (depth == deepest)
        return calls[0].first.emitOpError("calls a kernel that calls itself");
      for (auto [call, kernel] : calls)
        if (failed(inlineCall(call, kernel, symbols, values)))
          return failure();
    }
  }

  LogicalResult inlineCall(func::CallOp call, func::FuncOp kernel,
                           SymbolTable &symbols, const HostValues &values) {
    if (!kernel.getBody().hasOneBlock())
      return kernel.emitOpError("expected one block");
    IRMapping mapping;
    bool isLaunched = false;
    if (func::FuncOp launches = launchesOf(symbols, kernel)) {
      if (failed(verifyLaunches(call, kernel, launches)))
        return failure();
      SmallVector<Operation *> copies = cloneBody(call, launches, mapping);
      isLaunched = llvm::all_of(copies, [&](Operation *op) {
        auto launch = dyn_cast<gpu::LaunchFuncOp>(op);
        return !launch || isPlanned(launch, values, kernel.getName());
      });
      if (!isLaunched)
        for (Operation *op : llvm::reverse(copies))
          op->erase();
    }
    if (isLaunched)
      mapping.map(kernel.getArguments(), call.getOperands());
    else
      cloneBody(call, kernel, mapping);
    for (auto [result, value] : llvm::zip(
             call.getResults(), kernel.front().getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookupOrDefault(value));
    call.erase();
    return success();
  }
};
} // namespace
