/// func.call @k(%x)  =>  the body of @k.launch, else that of @k
///
///   func.func @decode(%x) {           func.func @decode(%x) {
///     call @k(%x)                =>     gpu.launch_func @kernels::@k_0 ...
///     call @other(%x)                   linalg.generic {cria.kernel = "other"}
///   }                                 }
#include "lowering/Entry.h"
#include "lowering/Passes.h"
#include "lowering/gpu/Launches.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/IRMapping.h"

namespace cria {
#define GEN_PASS_DEF_INLINELAUNCHES
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::cuda;

/// Makes uses of a call's results uses of the arguments that they are.
static LogicalResult dropResults(func::CallOp call, func::FuncOp kernel) {
  Operation *ret = kernel.front().getTerminator();
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    auto argument = dyn_cast<BlockArgument>(ret->getOperand(i));
    if (!argument)
      return call.emitOpError("expected result ")
             << i << " of a kernel that is launched to be an argument";
    result.replaceAllUsesWith(call.getOperand(argument.getArgNumber()));
  }
  return success();
}

/// Puts the body of `function` in the place of the call.
static void inlineBody(func::CallOp call, func::FuncOp function) {
  OpBuilder b(call);
  IRMapping mapping;
  mapping.map(function.getArguments(), call.getOperands());
  auto name = FlatSymbolRefAttr::get(call.getCalleeAttr().getAttr()).getAttr();
  for (Operation &op : function.front().without_terminator()) {
    Operation *copy = b.clone(op, mapping);
    if (!isa<gpu::LaunchFuncOp, func::CallOp>(copy) &&
        !copy->hasAttr(kKernelAttribute))
      copy->setAttr(kKernelAttribute, name);
  }
  Operation *ret = function.front().getTerminator();
  for (auto [result, value] : llvm::zip(call.getResults(), ret->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  call.erase();
}

namespace {
struct InlineLaunches : cria::impl::InlineLaunchesBase<InlineLaunches> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    // Bodies of kernels that call others, too, until no call is left.
    bool changed = true;
    while (changed) {
      changed = false;
      SmallVector<func::CallOp> calls;
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (isEntry(function))
          function.walk([&](func::CallOp call) { calls.push_back(call); });
      for (func::CallOp call : calls) {
        auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
        if (!kernel || kernel.isDeclaration())
          continue;
        if (failed(inlineCall(call, kernel, symbols)))
          return signalPassFailure();
        changed = true;
      }
    }
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!isEntry(function) && !function.isDeclaration())
        function.erase();
  }

private:
  LogicalResult inlineCall(func::CallOp call, func::FuncOp kernel,
                           SymbolTable &symbols) {
    if (!kernel.getBody().hasOneBlock())
      return kernel.emitOpError("expected one block");
    func::FuncOp launches = launchesOf(symbols, kernel);
    if (!launches) {
      inlineBody(call, kernel);
      return success();
    }
    if (TypeRange(launches.getArgumentTypes()) != call.getOperandTypes() ||
        launches.getNumResults() || !launches.getBody().hasOneBlock()) {
      InFlightDiagnostic error = launches.emitOpError(
          "expected a block that takes what the kernel is called with and "
          "returns nothing");
      error.attachNote(call.getLoc()) << "it is called here";
      return error;
    }
    if (failed(dropResults(call, kernel)))
      return failure();
    OpBuilder b(call);
    auto plain =
        func::CallOp::create(b, call.getLoc(), launches, call.getOperands());
    call.erase();
    inlineBody(plain, launches);
    return success();
  }
};
} // namespace
