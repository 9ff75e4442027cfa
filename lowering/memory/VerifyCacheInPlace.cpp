/// Checks that caches are never copied. A compilation only succeeds if no KV
/// cache, and no layer of a cache, is copied, and no buffer is allocated that
/// could hold one.
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace cria {
#define GEN_PASS_DEF_VERIFYCACHEINPLACE
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// The shape without leading ones.
static ArrayRef<int64_t> significant(Type type) {
  return cast<MemRefType>(type).getShape().drop_while(
      [](int64_t size) { return size == 1; });
}

/// A cache that has the shape of the buffer, or whose layer has it; null if
/// there is none.
static MemRefType cacheLike(ArrayRef<MemRefType> caches, Type buffer) {
  ArrayRef<int64_t> shape = significant(buffer);
  for (MemRefType cache : caches)
    if (shape == significant(cache) ||
        (shape.size() >= 2 && shape == cache.getShape().drop_front().drop_while(
                                           [](int64_t s) { return s == 1; })))
      return cache;
  return {};
}

/// Whether a cache is a state, (layers, rows, numbers), or the states of many
/// texts, (states, layers, rows, numbers).
static bool isState(MemRefType cache) {
  return cache.getRank() == 3 ||
         (cache.getRank() == 4 && cache.isDynamicDim(0));
}

/// Whether `buffer` is a view of allocated memory, or of an argument that is
/// not a cache.
static bool isNoCache(ArrayRef<MemRefType> caches, Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  return buffer.getDefiningOp<memref::AllocOp>() ||
         (isa<BlockArgument>(buffer) &&
          !llvm::is_contained(caches, buffer.getType()));
}

/// What the program calls an argument: "cache 1", counted from 0, "logits".
static std::string nameOf(const EntryArguments &arguments, unsigned place) {
  SmallVector<unsigned> caches = arguments.caches();
  auto *cache = llvm::find(caches, place);
  if (cache == caches.end())
    return EntryArguments::nameOf(arguments.all()[place]).str();
  return "cache " + std::to_string(cache - caches.begin());
}

static std::string nameOf(const EntryArguments &arguments, func::FuncOp entry,
                          Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == &entry.front()
             ? nameOf(arguments, argument.getArgNumber())
             : "another buffer";
}

namespace {
struct VerifyCacheInPlace
    : cria::impl::VerifyCacheInPlaceBase<VerifyCacheInPlace> {
  void runOnOperation() override {
    SmallVector<MemRefType> caches;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!isEntry(function))
        continue;
      FailureOr<EntryArguments> arguments = EntryArguments::of(function);
      if (failed(arguments))
        return signalPassFailure();
      for (unsigned i : arguments->caches()) {
        auto cache = dyn_cast<MemRefType>(function.getArgumentTypes()[i]);
        if (!cache) {
          function.emitError("expected caches in memory, got ")
              << function.getArgumentTypes()[i];
          return signalPassFailure();
        }
        caches.push_back(cache);
      }
    }
    bool copied = false;
    auto report = [&](Operation *op, MemRefType buffer, StringRef what,
                      bool isScratch) {
      MemRefType cache = buffer ? cacheLike(caches, buffer) : MemRefType();
      if (!cache || isScratch)
        return;
      op->emitError(
          "expected the KV cache to be updated in place, but this op ")
          << what << " " << buffer << ", as large as the cache " << cache;
      copied = true;
    };
    getOperation().walk([&](Operation *op) {
      // Scratch may be as large as a layer, but has fewer dimensions than the
      // cache or state. A layer of a state may be computed there.
      if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
        MemRefType cache = cacheLike(caches, alloc.getType());
        report(op, alloc.getType(), "allocates",
               cache && alloc.getType().getRank() < cache.getRank());
      }
      auto copy = dyn_cast<memref::CopyOp>(op);
      auto target =
          copy ? dyn_cast<MemRefType>(copy.getTarget().getType()) : nullptr;
      MemRefType cache = target ? cacheLike(caches, target) : MemRefType();
      if (cache)
        report(op, target, "copies",
               isNoCache(caches, copy.getSource()) &&
                   (isNoCache(caches, copy.getTarget()) ||
                    (isState(cache) && target.getRank() < 3)));
    });
    if (copied)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (isEntry(function) && failed(dropResults(function)))
        return signalPassFailure();
  }

private:
  /// Results are the logits and hidden states, if any, and the caches.
  LogicalResult dropResults(func::FuncOp entry) {
    EntryArguments arguments = *EntryArguments::of(entry);
    Operation *ret = entry.front().getTerminator();
    bool logits =
        ret->getNumOperands() > arguments.outputs(/*logits=*/false).size();
    SmallVector<unsigned> places = arguments.outputs(logits);
    if (ret->getNumOperands() != places.size())
      return ret->emitError("expected ") << places.size() << " results";
    for (auto [i, place] : llvm::enumerate(places))
      if (ret->getOperand(i) != entry.getArgument(place))
        return ret->emitError("expected result ")
               << i << " to be " << nameOf(arguments, place)
               << ", updated in place, got "
               << nameOf(arguments, entry, ret->getOperand(i));
    ret->setOperands({});
    entry.setType(
        FunctionType::get(&getContext(), entry.getArgumentTypes(), {}));
    return success();
  }
};
} // namespace
