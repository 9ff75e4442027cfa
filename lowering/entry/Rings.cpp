#include "lowering/entry/Rings.h"

#include "dialect/Signature.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

Value cria::inKernel(Value value) {
  auto kernel = value.getDefiningOp<KernelOp>();
  if (!kernel)
    return value;
  return kernel.getBody().front().getTerminator()->getOperand(
      cast<OpResult>(value).getResultNumber());
}

BlockArgument cria::cacheArgument(Value cache) {
  while (cache) {
    cache = inKernel(cache);
    if (auto append = cache.getDefiningOp<KVAppendOp>()) {
      cache = append.getCache();
      continue;
    }
    if (auto loop = cache.getDefiningOp<scf::ForOp>()) {
      cache = loop.getTiedLoopInit(cast<OpResult>(cache))->get();
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(cache);
    auto loop = argument
                    ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                    : scf::ForOp();
    if (!loop)
      return argument;
    OpOperand *init = loop.getTiedLoopInit(argument);
    cache = init ? init->get() : Value();
  }
  return {};
}

FailureOr<SmallVector<int64_t>> cria::ringWindows(func::FuncOp function) {
  auto caches =
      static_cast<unsigned>(cacheTypes(function.getFunctionType()).size());
  unsigned first = function.getNumArguments() - caches;
  SmallVector<int64_t> windows(caches);
  SmallVector<Operation *> users(caches);
  auto isRing = [](Operation *op) {
    auto append = dyn_cast<KVAppendOp>(op);
    return append ? append.getRing() : cast<GQAOp>(op).getRing();
  };
  auto visit = [&](Operation *op, Value cache, int64_t window) {
    BlockArgument argument = cacheArgument(cache);
    if (!argument || argument.getOwner() != &function.front() ||
        argument.getArgNumber() < first) {
      if (isRing(op))
        op->emitError("expected a ring to be a cache of the function");
      return isRing(op) ? WalkResult::interrupt() : WalkResult::advance();
    }
    unsigned number = argument.getArgNumber() - first;
    Operation *&user = users[number];
    if (user && isRing(user) != isRing(op)) {
      (op->emitError("expected all that use a cache to take it for a ring, or "
                     "none"))
              .attachNote(user->getLoc())
          << "another use is here";
      return WalkResult::interrupt();
    }
    user = op;
    if (isRing(op))
      windows[number] = std::max(windows[number], window);
    return WalkResult::advance();
  };
  WalkResult walked = function.walk([&](Operation *op) {
    if (auto append = dyn_cast<KVAppendOp>(op))
      return visit(op, append.getCache(), 1);
    auto gqa = dyn_cast<GQAOp>(op);
    if (!gqa)
      return WalkResult::advance();
    int64_t window = static_cast<int64_t>(gqa.getWindow().value_or(1));
    WalkResult keys = visit(op, gqa.getKeyCache(), window);
    return keys.wasInterrupted() ? keys
                                 : visit(op, gqa.getValueCache(), window);
  });
  if (walked.wasInterrupted())
    return failure();
  return windows;
}

LogicalResult cria::verifyRings(func::FuncOp function, int64_t chunk) {
  FailureOr<SmallVector<int64_t>> windows = ringWindows(function);
  if (failed(windows))
    return failure();
  auto ids = cast<RankedTensorType>(function.getArgumentTypes()[0]);
  int64_t tokens = ids.isDynamicDim(0) ? chunk : ids.getDimSize(0);
  for (auto [window, type] :
       llvm::zip(*windows, cacheTypes(function.getFunctionType()))) {
    int64_t places = cast<RankedTensorType>(type).getShape().take_back(2)[0];
    int64_t least = leastPlaces(window, tokens);
    if (window && places < least)
      return function.emitError("expected rings of at least ")
             << least << " places, for a window of " << window
             << " and calls of " << tokens << " tokens, got " << places;
  }
  return success();
}
