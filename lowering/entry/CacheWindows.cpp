#include "lowering/entry/CacheWindows.h"

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

/// What an op takes a cache for.
static std::pair<bool, Value> formOf(Operation *op) {
  if (auto append = dyn_cast<KVAppendOp>(op))
    return {append.getRing(), append.getPages()};
  auto gqa = cast<GQAOp>(op);
  return {gqa.getRing(), gqa.getPages()};
}

FailureOr<SmallVector<int64_t>> cria::cacheWindows(func::FuncOp function) {
  FunctionType type = function.getFunctionType();
  auto caches = static_cast<unsigned>(cacheTypes(type).size());
  unsigned first = function.getNumArguments() - caches;
  std::optional<unsigned> own = numberArguments(type).windowPages;
  Value windowPages = own ? function.getArgument(*own) : Value();
  SmallVector<int64_t> windows(caches);
  SmallVector<Operation *> users(caches);
  auto visit = [&](Operation *op, Value cache, int64_t window) {
    BlockArgument argument = cacheArgument(cache);
    auto [isRing, pages] = formOf(op);
    bool keepsWindow = isRing || (pages && pages == windowPages);
    if (!argument || argument.getOwner() != &function.front() ||
        argument.getArgNumber() < first) {
      if (!keepsWindow)
        return WalkResult::advance();
      op->emitError("expected ")
          << (isRing ? "a ring" : "what is in window pages")
          << " to be a cache of the function";
      return WalkResult::interrupt();
    }
    unsigned number = argument.getArgNumber() - first;
    Operation *&user = users[number];
    if (user && formOf(user) != formOf(op)) {
      (op->emitError(pages ? "expected all that use a cache to use the same "
                             "pages"
                           : "expected all that use a cache to take it for a "
                             "ring, or none"))
              .attachNote(user->getLoc())
          << "another use is here";
      return WalkResult::interrupt();
    }
    if (keepsWindow && window == 0) {
      op->emitError("expected a window of attention over window pages");
      return WalkResult::interrupt();
    }
    user = op;
    if (keepsWindow)
      windows[number] = std::max(windows[number], window);
    return WalkResult::advance();
  };
  WalkResult walked = function.walk([&](Operation *op) {
    if (auto append = dyn_cast<KVAppendOp>(op))
      return visit(op, append.getCache(), 1);
    auto gqa = dyn_cast<GQAOp>(op);
    if (!gqa)
      return WalkResult::advance();
    auto window = static_cast<int64_t>(gqa.getWindow().value_or(0));
    WalkResult keys = visit(op, gqa.getKeyCache(), window);
    return keys.wasInterrupted() ? keys
                                 : visit(op, gqa.getValueCache(), window);
  });
  if (walked.wasInterrupted())
    return failure();
  return windows;
}

LogicalResult cria::verifyRings(func::FuncOp function, int64_t chunk) {
  FailureOr<SmallVector<int64_t>> windows = cacheWindows(function);
  if (failed(windows))
    return failure();
  if (numberArguments(function.getFunctionType()).pages)
    return success(); // there are no rings
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
