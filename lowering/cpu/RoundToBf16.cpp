/// arith.truncf f32 to bf16  =>  integer arithmetic without a select
///
///   bits = x + 0x7fff + (x >> 16 & 1)            to nearest, ties to even
///   result = bits >> 16 | (x is NaN ? 0x7fc0 : 0)
///
/// MLIR's expansion selects between the sum and a NaN. LLVM makes this a select
/// of vectors of bf16, which becomes code for each element on CPUs without
/// instructions for bf16.
#include "lowering/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace cria {
#define GEN_PASS_DEF_ROUNDTOBF16
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

/// The integer type of `bits` bits, or a vector of it if `like` is a vector.
static Type integersLike(Type like, unsigned bits) {
  Type type = IntegerType::get(like.getContext(), bits);
  auto vector = dyn_cast<VectorType>(like);
  return vector ? Type(vector.clone(type)) : type;
}

namespace {
struct RoundTruncF : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op.getIn();
    if (!getElementTypeOrSelf(op.getType()).isBF16() ||
        !getElementTypeOrSelf(x.getType()).isF32() ||
        isa<TensorType>(x.getType()) || op.getRoundingmodeAttr())
      return rewriter.notifyMatchFailure(op, "does not round f32 to bf16");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i32 = integersLike(x.getType(), 32),
         i16 = integersLike(x.getType(), 16);
    auto constant = [&](Type type, int64_t value) {
      return createScalarOrSplatConstant(b, b.getLoc(), type, value);
    };
    Value bits = arith::BitcastOp::create(b, i32, x);
    Value half = constant(i32, 16);
    Value last = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, half),
                                       constant(i32, 1));
    Value bias = arith::AddIOp::create(b, last, constant(i32, 0x7fff));
    Value sum = arith::AddIOp::create(b, bits, bias);
    Value rounded =
        arith::TruncIOp::create(b, i16, arith::ShRUIOp::create(b, sum, half));
    Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
    Value mask = arith::ExtSIOp::create(b, i16, isNan);
    Value nan = arith::AndIOp::create(b, mask, constant(i16, 0x7fc0));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(
        op, op.getType(), arith::OrIOp::create(b, rounded, nan));
    return success();
  }
};

struct RoundToBf16 : cria::impl::RoundToBf16Base<RoundToBf16> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RoundTruncF>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
