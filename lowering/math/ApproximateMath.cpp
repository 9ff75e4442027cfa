/// math.exp, math.tanh, ...  =>  arithmetic, by upstream's patterns
///
/// Some functions are first replaced by others (tan: sin over cos). Then each
/// f32 function becomes a polynomial, or a quotient of two. No function may be
/// left for which LLVM would call a library.
#include "lowering/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include <cmath>

namespace cria {
#define GEN_PASS_DEF_APPROXIMATEMATH
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

/// A constant of the type, which may be a vector.
static Value constant(ImplicitLocOpBuilder &b, Type type, double value) {
  TypedAttr attribute = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, attribute);
  return arith::ConstantOp::create(b, attribute);
}

namespace {
/// log10(x) => log2(x) / log2(10)
struct ExpandLog10 : OpRewritePattern<math::Log10Op> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::Log10Op op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value log2 = math::Log2Op::create(b, op.getOperand());
    Value factor = constant(b, op.getType(), std::log10(2.0));
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, log2, factor);
    return success();
  }
};

/// exp(x) => exp2(x * log2(e)), of f32
struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ExpOp op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not of f32");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value factor = constant(b, op.getType(), M_LOG2E);
    Value power = arith::MulFOp::create(b, op.getOperand(), factor);
    rewriter.replaceOpWithNewOp<math::Exp2Op>(op, power,
                                              arith::FastMathFlags::afn);
    return success();
  }
};
} // namespace

/// Replaces x in sin(x) and cos(x) of f32 by x - k 2 pi, computed in f64: the
/// polynomials are only accurate for small x.
static void reduceAngle(Operation *op) {
  Value x = op->getOperand(0);
  if (!getElementTypeOrSelf(x.getType()).isF32())
    return;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Type wide = b.getF64Type();
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    wide = vector.clone(wide);
  Value angle = arith::ExtFOp::create(b, wide, x);
  Value turns = arith::MulFOp::create(b, angle, constant(b, wide, 0.5 / M_PI));
  Value whole = math::RoundEvenOp::create(b, turns);
  Value part =
      math::FmaOp::create(b, whole, constant(b, wide, -2 * M_PI), angle);
  op->setOperand(0, arith::TruncFOp::create(b, x.getType(), part));
}

/// Whether LLVM has instructions for an op of the math dialect.
static bool hasInstructions(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::CtPopOp, math::FloorOp, math::FmaOp, math::IsFiniteOp,
             math::IsInfOp, math::IsNaNOp, math::IsNormalOp, math::RoundOp,
             math::RoundEvenOp, math::RsqrtOp, math::SqrtOp, math::TruncOp>(op);
}

static bool isExp2(Operation *op) {
  return isa<math::Exp2Op>(op) &&
         !getElementTypeOrSelf(op->getResult(0).getType()).isF64();
}

namespace {
struct ApproximateMath : cria::impl::ApproximateMathBase<ApproximateMath> {
  using ApproximateMathBase::ApproximateMathBase;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet first(context);
    SmallVector<StringRef> names = {"acosh", "asinh", "atanh", "clampf",
                                    "cosh",  "fpowi", "powf",  "sincos",
                                    "sinh",  "tan"};
    names.push_back(exp2 ? "rsqrt" : "exp2");
    math::populateExpansionPatterns(first, names);
    first.add<ExpandLog10>(context);
    expansions = std::move(first);
    RewritePatternSet second(context);
    populateMathPolynomialApproximationPatterns(second, [&](StringRef name) {
      return name != math::RsqrtOp::getOperationName() &&
             (!exp2 || name != math::ExpOp::getOperationName());
    });
    // Also applies to the exp that polynomials of other functions use.
    if (exp2)
      second.add<ExpandExp>(context);
    polynomials = std::move(second);
    return success();
  }

  void runOnOperation() override {
    // Upstream's passes for narrow floats allow each result to stay wide, but
    // an op's result must be rounded.
    getOperation()->walk([](arith::ArithFastMathInterface op) {
      if (isa<arith::ExtFOp, arith::TruncFOp>(op))
        op->removeAttr(op.getFastMathAttrName());
    });
    if (failed(apply(expansions)))
      return signalPassFailure();
    getOperation()->walk([](Operation *op) {
      if (isa<math::SinOp, math::CosOp>(op))
        reduceAngle(op);
    });
    if (failed(apply(polynomials)))
      return signalPassFailure();
    bool left = false;
    getOperation()->walk([&](Operation *op) {
      bool library = isa_and_present<math::MathDialect>(op->getDialect())
                         ? !hasInstructions(op) && !(exp2 && isExp2(op))
                         : isa<arith::RemFOp>(op);
      if (!library)
        return;
      left = true;
      op->emitError("expected a function that is computed without a library, "
                    "got one of ")
          << op->getOperand(0).getType();
    });
    if (left)
      signalPassFailure();
  }

private:
  /// Applies patterns to functions, and to the functions that replace them.
  LogicalResult apply(const FrozenRewritePatternSet &patterns) {
    SmallVector<Operation *> functions;
    getOperation()->walk([&](Operation *op) {
      if (isa_and_present<math::MathDialect>(op->getDialect()))
        functions.push_back(op);
    });
    return applyOpPatternsGreedily(
        functions, patterns,
        GreedyRewriteConfig().setStrictness(
            GreedyRewriteStrictness::ExistingAndNewOps));
  }

  FrozenRewritePatternSet expansions, polynomials;
};
} // namespace
