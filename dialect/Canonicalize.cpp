/// Canonicalization: if an op can say the same in two ways, one of them is
/// kept.
#include "dialect/Dialect.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace cria::llama;

namespace {
/// gqa {window = w}  =>  gqa, where w is at least the cache's positions.
struct DropIdleWindow : OpRewritePattern<GQAOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GQAOp op,
                                PatternRewriter &rewriter) const override {
    int64_t positions = op.getRoom();
    if (!op.getWindow() || op.getRing() || ShapedType::isDynamic(positions) ||
        static_cast<int64_t>(*op.getWindow()) < positions)
      return rewriter.notifyMatchFailure(op, "the window hides keys");
    rewriter.modifyOpInPlace(op, [&] { op.removeWindowAttr(); });
    return success();
  }
};

/// gqa(one token) ahead(n) {causal}  =>  gqa(one token): no key is after that
/// token.
struct DropIdleCausal : OpRewritePattern<GQAOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GQAOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getCausal() || op.getQuery().getType().getDimSize(0) != 1 ||
        !op.getPosition().getType().isIndex())
      return rewriter.notifyMatchFailure(op, "the order of tokens matters");
    rewriter.modifyOpInPlace(op, [&] {
      op.setCausal(false);
      op.getAheadMutable().clear();
    });
    return success();
  }
};

/// gqa values v  =>  gqa, where v is the head size.
struct DropWholeValues : OpRewritePattern<GQAOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GQAOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getValueSize() || op.getType() != op.getQuery().getType())
      return rewriter.notifyMatchFailure(op, "values are a part of a row");
    rewriter.modifyOpInPlace(op, [&] { op.removeValueSizeAttr(); });
    return success();
  }
};

/// %a, %b, %c, %d = kernel { yield %w, %w, %outside, %z } with %d unused
///   =>  %a = kernel { yield %w }, %a for %b, %outside for %c
struct DropIdleResults : OpRewritePattern<KernelOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(KernelOp op,
                                PatternRewriter &rewriter) const override {
    Operation *yield = op.getBody().front().getTerminator();
    SmallVector<Value> kept;
    for (auto [result, value] :
         llvm::zip(op.getResults(), yield->getOperands()))
      if (!result.use_empty() &&
          op.getBody().isAncestor(value.getParentRegion()) &&
          !llvm::is_contained(kept, value))
        kept.push_back(value);
    if (kept.size() == op.getNumResults())
      return rewriter.notifyMatchFailure(op, "every result is needed");
    SmallVector<Value> yielded(yield->getOperands());
    auto made = KernelOp::create(
        rewriter, op.getLoc(), TypeRange(ValueRange(kept)), op.getKernelName());
    rewriter.inlineRegionBefore(op.getBody(), made.getBody(),
                                made.getBody().end());
    rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(kept); });
    SmallVector<Value> replacements;
    for (Value value : yielded) {
      auto *found = llvm::find(kept, value);
      replacements.push_back(
          found == kept.end() ? value : made.getResult(found - kept.begin()));
    }
    return replaceUsed(op, replacements, rewriter);
  }

  /// Replaces only the results that are used. The replacement of an unused
  /// result need not dominate the kernel.
  static LogicalResult replaceUsed(KernelOp op, ArrayRef<Value> replacements,
                                   PatternRewriter &rewriter) {
    for (auto [result, value] : llvm::zip(op.getResults(), replacements))
      if (!result.use_empty())
        rewriter.replaceAllUsesWith(result, value);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void GQAOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                        MLIRContext *context) {
  patterns.add<DropIdleWindow, DropIdleCausal, DropWholeValues>(context);
}

void KernelOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<DropIdleResults>(context);
}
