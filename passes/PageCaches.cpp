/// @forward(%ids, %position, %first, %k : tensor<5x4x512x64xbf16>, ...)
///   =>
/// @prefill(%ids, %position, %first, %pages : tensor<32xi32>,
///          %k : tensor<?x5x4x16x64xbf16>, ...)
/// @batch(%ids, %positions : tensor<?xi32>, %first,
///        %tables : tensor<?x32xi32>, %k : tensor<?x5x4x16x64xbf16>, ...)
///
/// If @forward has states, there are states of many texts, and the numbers of
/// those that a text reads and writes follow its pages:
///
/// @prefill(..., %pages, %states : tensor<2xi32>, ...,
///          %s : tensor<?x5x32x16xf32>)
/// @batch(..., %tables, %states : tensor<?x2xi32>, ...,
///        %s : tensor<?x5x32x16xf32>)
///
/// Caches that only layers with a window read have pages of their own. A text
/// has only those in the window. Their numbers follow the other pages:
///
/// @prefill(..., %pages, %window_pages : tensor<32xi32>, ...)
/// @batch(..., %tables, %window_tables : tensor<?x32xi32>, ...)
///
/// Both functions have the same ops. Ops with a position use the position, or
/// positions, of their function. Ops that read or write a cache use the
/// function's pages of this cache, or its states. If @forward returns hidden
/// states, so do both. If attention of @forward sees tokens `ahead`, attention
/// of @prefill does, too: the number of these tokens is an argument after pages
/// and states. Attention of @batch sees none, because the next token of a call
/// may be of another text.
#include "dialect/Attributes.h"
#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "passes/CacheType.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

namespace cria {
#define GEN_PASS_DEF_PAGECACHES
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Arguments of @forward.
static constexpr unsigned kPosition = 1, kAhead = 3;

static bool isCache(Type type, int64_t rank) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() && tensor.getRank() == rank;
}

/// Whether a cache of one text has positions, or is a state.
static bool hasPositions(Type cache) { return isCache(cache, 4); }
static bool isStateOfText(Type cache) { return isCache(cache, 3); }

/// (layers, heads, positions, size)  =>  (pages, layers, heads, page, size)
/// (layers, rows, numbers)           =>  (states, layers, rows, numbers)
static RankedTensorType pagedType(RankedTensorType cache, int64_t page) {
  SmallVector<int64_t> shape(cache.getShape());
  if (hasPositions(cache))
    shape[2] = page;
  shape.insert(shape.begin(), ShapedType::kDynamic);
  return cache.clone(shape);
}

/// Fails on programs whose caches cannot be paged.
static LogicalResult verifyPageable(ModuleOp module, func::FuncOp forward) {
  if (auto encode = module.lookupSymbol<func::FuncOp>("encode"))
    return encode.emitError("expected no encoder beside paged caches");
  for (auto table : module.getOps<RopeTableOp>())
    if (table.getOriginal())
      return table.emitError("expected frequencies that do not depend on the "
                             "length of a text, beside paged caches");
  size_t caches = cacheTypes(forward.getFunctionType()).size();
  for (Value cache : forward.getArguments().take_back(caches))
    if ((hasPositions(cache.getType()) || isStateOfText(cache.getType())) &&
        failed(verifyCacheUses(cache)))
      return failure();
  WalkResult walked = module.walk([&](GQAOp op) {
    if (op.getRing()) {
      op.emitError("expected no ring beside paged caches "
                   "(--window-cache=whole)");
      return WalkResult::interrupt();
    }
    if (op.getAhead() && op.getAhead() != forward.getArgument(kAhead)) {
      op.emitError("expected 'ahead' to be the argument of @forward after "
                   "'first'");
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
  for (Type type : cacheTypes(function.getFunctionType()))
    if (hasPositions(type)) {
      int64_t size = cast<RankedTensorType>(type).getDimSize(2);
      positions = positions ? std::min(positions, size) : size;
    }
  return positions;
}

/// For each cache, the largest window of the attentions that read it; 0 if the
/// cache is to have all positions: because an attention reads them all, or the
/// pages for the window and a call of `tokens` tokens are not fewer than
/// `width`. All caches are to have them if `tokens` is 0.
static SmallVector<int64_t> windowsOf(func::FuncOp function, int64_t page,
                                      int64_t tokens, int64_t width) {
  size_t count = cacheTypes(function.getFunctionType()).size();
  SmallVector<int64_t> windows(count);
  if (!tokens)
    return windows;
  llvm::MapVector<Operation *, SmallVector<size_t>> read; // by each attention
  for (auto [i, cache] :
       llvm::enumerate(function.getArguments().take_back(count)))
    forEachUse(cache, [&, i = i](OpOperand &use) {
      if (auto gqa = dyn_cast<GQAOp>(use.getOwner())) {
        read[gqa].push_back(i);
        windows[i] = std::max(
            windows[i], static_cast<int64_t>(gqa.getWindow().value_or(0)));
      }
    });
  // Keys and values of an attention are in the same pages.
  for (bool changes = true; std::exchange(changes, false);)
    for (auto &[op, caches] : read) {
      auto window =
          static_cast<int64_t>(cast<GQAOp>(op).getWindow().value_or(0));
      bool isWhole =
          !window || windowPages(window, tokens, page) >= width ||
          llvm::any_of(caches, [&](size_t i) { return windows[i] == 0; });
      for (size_t i : caches)
        if (isWhole && std::exchange(windows[i], 0))
          changes = true;
    }
  return windows;
}

/// Makes the function's caches paged, in all ops that use them, and adds the
/// arguments with the numbers of pages and, if there are states, of states.
/// `windows`: for each cache, the window that its pages keep, or 0.
static void pageCaches(func::FuncOp function, RankedTensorType pages,
                       int64_t page, ArrayRef<int64_t> windows) {
  Block &body = function.front();
  ArrayRef<Type> caches = cacheTypes(function.getFunctionType());
  unsigned next = kPagesArgument;
  auto add = [&](bool exists, RankedTensorType type) {
    return exists ? body.insertArgument(next++, type, function.getLoc())
                  : BlockArgument();
  };
  Value whole = add(true, pages);
  Value ofWindows = add(
      llvm::any_of(windows, [](int64_t window) { return window > 0; }), pages);
  Value states = add(llvm::any_of(caches, isStateOfText), pages.clone({2}));
  for (auto [argument, window] :
       llvm::zip(body.getArguments().take_back(caches.size()), windows)) {
    Type type = argument.getType();
    if (!hasPositions(type) && !isStateOfText(type))
      continue;
    setCacheType(argument, pagedType(cast<RankedTensorType>(type), page));
    Value numbers = window ? ofWindows : whole;
    llvm::SetVector<Operation *> users;
    forEachUse(argument, [&](OpOperand &use) { users.insert(use.getOwner()); });
    for (Operation *user : users)
      TypeSwitch<Operation *>(user)
          .Case<KVAppendOp, GQAOp>(
              [&](auto op) { op.getPagesMutable().assign(numbers); })
          .Case([&](StateOpInterface of) {
            of.getStatesMutable().assign(states);
          });
  }
}

/// Removes the argument with the number of tokens that attention sees ahead,
/// which becomes 0.
static void dropAhead(func::FuncOp function) {
  BlockArgument ahead;
  function.walk([&](GQAOp op) {
    if (op.getAhead())
      ahead = cast<BlockArgument>(op.getAhead());
    op.getAheadMutable().clear();
  });
  if (!ahead)
    return;
  Block &body = function.front();
  auto b = OpBuilder::atBlockBegin(&body);
  ahead.replaceAllUsesWith(
      arith::ConstantIndexOp::create(b, function.getLoc(), 0));
  body.eraseArgument(ahead.getArgNumber());
}

/// Updates the function's type to the types of its arguments and results.
static void updateType(func::FuncOp function) {
  Block &body = function.front();
  function.setType(FunctionType::get(function.getContext(),
                                     body.getArgumentTypes(),
                                     body.getTerminator()->getOperandTypes()));
}

/// Adds a copy of @prefill in which each token has its own position, pages and
/// states.
static void makeBatch(func::FuncOp prefill, int64_t rows) {
  OpBuilder b(prefill->getContext());
  b.setInsertionPointAfter(prefill);
  auto batch = cast<func::FuncOp>(b.clone(*prefill));
  batch.setName("batch");
  batch->setAttr(kChunkAttribute, b.getIndexAttr(rows));
  constexpr int64_t tokens = ShapedType::kDynamic;
  Block &body = batch.front();
  unsigned end = numberArguments(batch.getFunctionType()).end;
  for (unsigned number = kPagesArgument; number < end; ++number) {
    auto type = cast<RankedTensorType>(body.getArgument(number).getType());
    body.getArgument(number).setType(type.clone({tokens, type.getDimSize(0)}));
  }
  body.getArgument(kPosition).setType(
      RankedTensorType::get({tokens}, b.getI32Type()));
  dropAhead(batch);
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
                               "first, caches...), with a cache that has "
                               "positions, and rows and a page of at least 1");
      return signalPassFailure();
    }
    if (failed(verifyPageable(getOperation(), forward)))
      return signalPassFailure();
    Builder b(&getContext());
    auto width = static_cast<int64_t>(llvm::divideCeil(positions, page));
    SmallVector<int64_t> windows = windowsOf(
        forward, page, chunk ? std::max<int64_t>(chunk, rows) : 0, width);
    pageCaches(forward, RankedTensorType::get({width}, b.getI32Type()), page,
               windows);
    updateType(forward);
    forward.setName("prefill");
    forward->setAttr(kInvariantAttribute, b.getUnitAttr());
    makeBatch(forward, rows);
  }
};
} // namespace
