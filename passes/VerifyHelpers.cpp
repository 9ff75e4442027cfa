/// Checks that the inliner can replace every call of a helper function, and
/// that the program that it leaves is not too large.
#include "passes/Passes.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace cria {
#define GEN_PASS_DEF_VERIFYHELPERS
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// The most ops of a program without calls, and the most calls in each other.
static constexpr uint64_t kMostOps = 1 << 20;
static constexpr size_t kMostDepth = 32;

namespace {
class Helpers {
public:
  Helpers(ModuleOp module) : symbols(module) {}
  /// Checks the calls of a function, of the functions that it calls, and so on.
  LogicalResult verify(func::FuncOp function);

private:
  /// Checks a call, and the function that it calls.
  LogicalResult verifyCall(func::CallOp call, func::FuncOp helper);

  /// The ops of a function, calls inlined, and how deep its calls are in each
  /// other.
  struct Size {
    uint64_t ops = 0;
    size_t depth = 0;
  };

  SymbolTable symbols;
  llvm::DenseMap<Operation *, Size> sizes; // of functions that were checked
  /// The functions that are being checked: each calls the next.
  llvm::SmallSetVector<func::FuncOp, 4> path;
};
} // namespace

LogicalResult Helpers::verifyCall(func::CallOp call, func::FuncOp helper) {
  if (!helper.isPrivate())
    return call.emitError("expected a call of a private function, got @")
           << helper.getName();
  if (!helper.getBody().hasOneBlock())
    return helper.emitError("expected @")
           << helper.getName() << " to be one block, got "
           << helper.getBody().getBlocks().size();
  if (call.getNoInline() || helper.getNoInline())
    return call.emitError("expected a call without 'no_inline'");
  if (path.contains(helper))
    return call.emitError("expected functions that do not call themselves, got "
                          "a call of @")
           << helper.getName() << " in it";
  bool isTooDeep = path.size() > kMostDepth; // bounds the recursion, too
  if (!isTooDeep && failed(verify(helper)))
    return failure();
  if (!isTooDeep && sizes.at(helper).depth < kMostDepth)
    return success();
  return call.emitError("expected at most ")
         << kMostDepth << " calls in each other";
}

LogicalResult Helpers::verify(func::FuncOp function) {
  if (sizes.contains(function))
    return success();
  path.insert(function);
  Size size;
  WalkResult result = function.walk([&](Operation *op) {
    ++size.ops;
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto helper = symbols.lookup<func::FuncOp>(call.getCallee());
      if (failed(verifyCall(call, helper)))
        return WalkResult::interrupt();
      size.ops += sizes.at(helper).ops;
      size.depth = std::max(size.depth, sizes.at(helper).depth + 1);
    }
    if (size.ops <= kMostOps)
      return WalkResult::advance();
    op->emitError("expected at most ") << kMostOps << " ops, calls inlined";
    return WalkResult::interrupt();
  });
  path.pop_back();
  if (!result.wasInterrupted())
    sizes[function] = size;
  return failure(result.wasInterrupted());
}

/// Checks that no other module in the program has ops, because the inliner
/// would inline its calls, too. The module of the manifest has no ops.
static LogicalResult verifyOneModule(ModuleOp program) {
  WalkResult result = program.walk([&](Operation *op) {
    if (op == program || !op->hasTrait<OpTrait::SymbolTable>() ||
        op->getRegion(0).front().empty())
      return WalkResult::advance();
    op->emitError("expected one module, got another in it");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct VerifyHelpers : cria::impl::VerifyHelpersBase<VerifyHelpers> {
  void runOnOperation() override {
    if (failed(verifyOneModule(getOperation())))
      return signalPassFailure();
    Helpers helpers(getOperation());
    SymbolTableCollection tables;
    SymbolUserMap users(tables, getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      StringRef name = function.getName();
      bool isEntry = name == "forward" || name == "encode";
      // If only calls use a function, it is checked where it is called.
      if (function.isPrivate() && !isEntry &&
          llvm::all_of(users.getUsers(function), llvm::IsaPred<func::CallOp>))
        continue;
      if (function.isPrivate() && isEntry) {
        function.emitError("expected @") << name << " to be public";
        return signalPassFailure();
      }
      if (failed(helpers.verify(function)))
        return signalPassFailure();
    }
  }
};
} // namespace
