/// @forward(%ids, %position, %first, %k : tensor<5x4x512x64xbf16>, ...)
///   =>
/// @prefill(%ids, %position, %first, %pages : tensor<32xi32>,
///          %k : tensor<?x5x4x16x64xbf16>, ...)
/// @batch(%ids, %positions : tensor<?xi32>, %first,
///        %tables : tensor<?x32xi32>, %k : tensor<?x5x4x16x64xbf16>, ...)
///
/// Both functions have the same ops. Ops with a position use the position, or
/// positions, of their function. Ops that read or write a cache use the
/// function's pages. If @forward returns hidden states, so do both.
#include "dialect/Attributes.h"
#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "passes/CacheType.h"
#include "passes/Passes.h"

namespace cria {
#define GEN_PASS_DEF_PAGECACHES
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Arguments of @forward.
static constexpr unsigned kPosition = 1;

static bool isCache(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 4;
}

/// (layers, heads, positions, size)  =>  (pages, layers, heads, page, size)
static RankedTensorType pagedType(RankedTensorType cache, int64_t page) {
  SmallVector<int64_t> shape(cache.getShape());
  shape[2] = page;
  shape.insert(shape.begin(), ShapedType::kDynamic);
  return cache.clone(shape);
}

/// Fails on programs whose caches cannot be paged.
static LogicalResult verifyPageable(ModuleOp module) {
  if (auto encode = module.lookupSymbol<func::FuncOp>("encode"))
    return encode.emitError("expected no encoder beside paged caches");
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  auto isWhole = [](Type type) {
    auto state = cast<RankedTensorType>(type);
    return isState(state) && state.hasStaticShape();
  };
  if (llvm::any_of(cacheTypes(forward.getFunctionType()), isWhole))
    return forward.emitError("expected no states beside paged caches: the "
                             "texts of a batch have none of their own yet");
  for (auto table : module.getOps<RopeTableOp>())
    if (table.getOriginal())
      return table.emitError("expected frequencies that do not depend on the "
                             "length of a text, beside paged caches");
  WalkResult walked = module.walk([](GQAOp op) {
    if (op.getRing()) {
      op.emitError("expected no ring beside paged caches, in which a text has "
                   "all positions (--window-cache=whole)");
      return WalkResult::interrupt();
    }
    if (op.getCausal())
      return WalkResult::advance();
    op.emitError("expected causal attention over paged caches");
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

/// The positions of the smallest cache; 0 if there is no cache.
static int64_t positionsOf(func::FuncOp function) {
  int64_t positions = 0;
  for (Type type : function.getArgumentTypes())
    if (isCache(type)) {
      int64_t size = cast<RankedTensorType>(type).getDimSize(2);
      positions = positions ? std::min(positions, size) : size;
    }
  return positions;
}

/// Makes the function's caches paged, in all ops that use them, and adds the
/// argument `pages` with the page numbers.
static void pageCaches(func::FuncOp function, RankedTensorType pages,
                       int64_t page) {
  Block &body = function.front();
  body.insertArgument(kPagesArgument, pages, function.getLoc());
  for (BlockArgument argument : body.getArguments())
    if (isCache(argument.getType()))
      setCacheType(argument,
                   pagedType(cast<RankedTensorType>(argument.getType()), page));
  function.walk([&](Operation *op) {
    if (auto append = dyn_cast<KVAppendOp>(op))
      append.getPagesMutable().assign(body.getArgument(kPagesArgument));
    if (auto attention = dyn_cast<GQAOp>(op))
      attention.getPagesMutable().assign(body.getArgument(kPagesArgument));
  });
}

/// Updates the function's type to the types of its arguments and results.
static void updateType(func::FuncOp function) {
  Block &body = function.front();
  function.setType(FunctionType::get(function.getContext(),
                                     body.getArgumentTypes(),
                                     body.getTerminator()->getOperandTypes()));
}

/// Adds a copy of @prefill in which each token has its own position and pages.
static void makeBatch(func::FuncOp prefill, int64_t rows) {
  OpBuilder b(prefill->getContext());
  b.setInsertionPointAfter(prefill);
  auto batch = cast<func::FuncOp>(b.clone(*prefill));
  batch.setName("batch");
  batch->setAttr(kChunkAttribute, b.getIndexAttr(rows));
  constexpr int64_t tokens = ShapedType::kDynamic;
  Block &body = batch.front();
  Value pages = body.getArgument(kPagesArgument);
  int64_t width = cast<RankedTensorType>(pages.getType()).getDimSize(0);
  pages.setType(RankedTensorType::get({tokens, width}, b.getI32Type()));
  body.getArgument(kPosition).setType(
      RankedTensorType::get({tokens}, b.getI32Type()));
  updateType(batch);
}

namespace {
struct PageCaches : cria::impl::PageCachesBase<PageCaches> {
  using PageCachesBase::PageCachesBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    int64_t positions = forward ? positionsOf(forward) : 0;
    if (rows < 1 || page < 1 || positions < 1 ||
        !forward.getBody().hasOneBlock() ||
        forward.getNumArguments() <= kPagesArgument ||
        !forward.getArgument(kPosition).getType().isIndex()) {
      getOperation().emitError("expected a function @forward(ids, position, "
                               "first, caches...), and rows and a page of at "
                               "least 1");
      return signalPassFailure();
    }
    if (failed(verifyPageable(getOperation())))
      return signalPassFailure();
    Builder b(&getContext());
    auto width = static_cast<int64_t>(llvm::divideCeil(positions, page));
    pageCaches(forward, RankedTensorType::get({width}, b.getI32Type()), page);
    updateType(forward);
    forward.setName("prefill");
    forward->setAttr(kInvariantAttribute, b.getUnitAttr());
    makeBatch(forward, rows);
  }
};
} // namespace
