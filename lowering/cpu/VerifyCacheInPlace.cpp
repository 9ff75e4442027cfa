/// The no-copy certificate: a compilation succeeds only if no buffer of a KV
/// cache's shape, or of one layer of it, is allocated or copied.
#include "lowering/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace cria {
#define GEN_PASS_DEF_VERIFYCACHEINPLACE
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

/// Where an entry's caches begin: ids, tokens, position, first, source and
/// logits come before them.
static constexpr unsigned kFirstCache = 6;

/// The shape without leading ones.
static ArrayRef<int64_t> significant(Type type) {
  return cast<MemRefType>(type).getShape().drop_while(
      [](int64_t size) { return size == 1; });
}

/// The argument whose shape, or whose layer's shape, the buffer has.
static std::optional<BlockArgument> cacheLike(func::FuncOp entry, Type buffer) {
  for (BlockArgument arg : entry.getArguments().drop_front(kFirstCache)) {
    auto cache = dyn_cast<MemRefType>(arg.getType());
    if (!cache || cache.getRank() != 4)
      continue;
    ArrayRef<int64_t> shape = significant(buffer);
    if (shape == significant(cache) ||
        (shape.size() >= 2 && shape == cache.getShape().drop_front().drop_while(
                                           [](int64_t s) { return s == 1; })))
      return arg;
  }
  return std::nullopt;
}

namespace {
struct VerifyCacheInPlace
    : cria::impl::VerifyCacheInPlaceBase<VerifyCacheInPlace> {
  void runOnOperation() override {
    func::FuncOp entry = getOperation();
    if (entry.isDeclaration())
      return;
    bool copied = false;
    auto report = [&](Operation *op, Type buffer, StringRef what) {
      std::optional<BlockArgument> cache = cacheLike(entry, buffer);
      if (!cache)
        return;
      op->emitError(
          "expected the KV cache to be updated in place, but this op ")
          << what << " " << buffer << ", as large as argument "
          << cache->getArgNumber() << ", " << cache->getType();
      copied = true;
    };
    entry.walk([&](Operation *op) {
      if (auto alloc = dyn_cast<memref::AllocOp>(op))
        report(op, alloc.getType(), "allocates");
      if (auto copy = dyn_cast<memref::CopyOp>(op))
        report(op, copy.getTarget().getType(), "copies");
    });
    if (copied || failed(dropResults(entry)))
      signalPassFailure();
  }

private:
  /// Results are the last arguments: logits, if any, then the caches.
  LogicalResult dropResults(func::FuncOp entry) {
    Operation *ret = entry.front().getTerminator();
    unsigned first = entry.getNumArguments() - ret->getNumOperands();
    for (auto [i, value] : llvm::enumerate(ret->getOperands()))
      if (value != entry.getArgument(first + i))
        return ret->emitError("expected result ")
               << i << " to be argument " << first + i << ", updated in place";
    ret->setOperands({});
    entry.setType(
        FunctionType::get(&getContext(), entry.getArgumentTypes(), {}));
    return success();
  }
};
} // namespace
