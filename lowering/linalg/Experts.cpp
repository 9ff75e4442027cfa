/// Lowers mixtures of experts.
///
/// Experts are ranked by counting. The rank of an expert is the number of
/// experts that come before it, so the chosen ones are those with ranks 0 to
/// k - 1:
///
///   rank[t, e]    = sum_f (f comes before e)
///   experts[t, s] = the e with rank[t, e] = s
///
/// This needs no loop and no sort. Every order of the counting gives the same
/// numbers.
#include "lowering/linalg/Functions.h"
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

/// A tensor of i32 zeros.
static Value zeros(LinalgBuilder &b, ArrayRef<OpFoldResult> sizes) {
  Value zero = arith::ConstantOp::create(b, b.getLoc(), b.getI32IntegerAttr(0));
  return linalg::FillOp::create(b, b.getLoc(), ValueRange{zero},
                                ValueRange{b.empty(sizes, b.getI32Type())})
      .getResult(0);
}

static Value asIndex(LinalgBuilder &b, Value number) {
  return arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), number);
}

static Value asI32(LinalgBuilder &b, Value number) {
  return arith::IndexCastOp::create(b, b.getLoc(), b.getI32Type(), number);
}

/// Whether the number x is larger than y. NaN is larger than any number, and
/// not larger than NaN.
static Value isLarger(LinalgBuilder &b, Value x, Value y) {
  using Is = arith::CmpFPredicate;
  Value larger = arith::CmpFOp::create(b, b.getLoc(), Is::UGT, x, y);
  Value isNumber = arith::CmpFOp::create(b, b.getLoc(), Is::ORD, y, y);
  return arith::AndIOp::create(b, b.getLoc(), larger, isNumber);
}

/// Whether the number x at index i comes before the number y at index j: it is
/// larger, or as large and i < j.
static Value comesBefore(LinalgBuilder &b, Value x, Value i, Value y, Value j) {
  using Is = arith::CmpIPredicate;
  Value lower = arith::CmpIOp::create(b, b.getLoc(), Is::ult, i, j);
  Value never = arith::ConstantOp::create(b, b.getLoc(), b.getBoolAttr(false));
  Value tied =
      arith::SelectOp::create(b, b.getLoc(), isLarger(b, y, x), never, lower);
  return arith::OrIOp::create(b, b.getLoc(), isLarger(b, x, y), tied);
}

/// rank[t, e], (T, E) i32: how many of the numbers x[t, :] come before x[t, e].
/// Only numbers of the same group of `group` adjacent ones count.
static Value ranks(LinalgBuilder &b, Value x, int64_t group) {
  SmallVector<AffineMap> maps = {b.select(3, {0, 1}), b.select(3, {0, 2}),
                                 b.select(3, {0, 1})};
  bool isWhole = cast<RankedTensorType>(x.getType()).getDimSize(1) == group;
  return b.generic(
      3, {x, x}, {zeros(b, b.sizes(x))}, maps,
      [&](Values v) -> SmallVector<Value> {
        Value e = linalg::IndexOp::create(b, b.getLoc(), 1),
              f = linalg::IndexOp::create(b, b.getLoc(), 2);
        Value counts = comesBefore(b, v[1], f, v[0], e);
        if (!isWhole) {
          auto groupOf = [&](Value index) -> Value {
            return arith::DivUIOp::create(b, b.getLoc(), index, b.index(group));
          };
          Value same = arith::CmpIOp::create(
              b, b.getLoc(), arith::CmpIPredicate::eq, groupOf(e), groupOf(f));
          counts = arith::AndIOp::create(b, b.getLoc(), counts, same);
        }
        Value one =
            arith::ExtUIOp::create(b, b.getLoc(), b.getI32Type(), counts);
        return {arith::AddIOp::create(b, b.getLoc(), v[2], one)};
      })[0];
}

/// x (T, E) as (T, G, E / G).
static Value inGroups(LinalgBuilder &b, Value x, int64_t groups) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t group = type.getDimSize(1) / groups;
  OpFoldResult tokens = b.sizes(x)[0];
  return tensor::ExpandShapeOp::create(
      b, b.getLoc(), type.clone({type.getDimSize(0), groups, group}), x,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}},
      ArrayRef<OpFoldResult>{tokens, b.getIndexAttr(groups),
                             b.getIndexAttr(group)});
}

/// The choices (T, E), with -infinity outside of the kept groups.
static Value keepGroups(LinalgBuilder &b, RouteOp op, Value choices) {
  auto groups = static_cast<int64_t>(*op.getGroups());
  int64_t group = op.getLogits().getType().getDimSize(1) / groups;
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getLoc(),
                                     b.getI32IntegerAttr(int32_t(value)));
  };
  auto isBelow = [&](Value rank, uint64_t count) -> Value {
    return arith::CmpIOp::create(b, b.getLoc(), arith::CmpIPredicate::ult, rank,
                                 number(static_cast<int64_t>(count)));
  };
  Value places = inGroups(b, ranks(b, choices, group), groups);
  OpFoldResult tokens = b.sizes(choices)[0];
  AffineMap all = b.select(3, {0, 1, 2});
  Value scores = b.generic(
      3, {inGroups(b, choices, groups), places},
      {b.filled({tokens, b.getIndexAttr(groups)}, 0)},
      {all, all, b.select(3, {0, 1})}, [&](Values v) -> SmallVector<Value> {
        Value sum = arith::AddFOp::create(b, b.getLoc(), v[2], v[0]);
        return {arith::SelectOp::create(
            b, b.getLoc(), isBelow(v[1], op.getGroupBest()), sum, v[2])};
      })[0];
  Value order = ranks(b, scores, groups);
  return b.map({choices}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
    Value t = linalg::IndexOp::create(b, b.getLoc(), 0),
          e = linalg::IndexOp::create(b, b.getLoc(), 1),
          g = arith::DivUIOp::create(b, b.getLoc(), e, b.index(group)),
          rank =
              tensor::ExtractOp::create(b, b.getLoc(), order, ValueRange{t, g}),
          kept = isBelow(rank, *op.getKeptGroups());
    return {arith::SelectOp::create(
        b, b.getLoc(), kept, v[0],
        b.f32(-std::numeric_limits<double>::infinity()))};
  });
}

/// f(x[t, i], row[t]), f32.
static Value mapRows(LinalgBuilder &b, Value x, Value row,
                     llvm::function_ref<Value(Value, Value)> f) {
  AffineMap all = b.select(2, {0, 1});
  return b.generic(
      2, {x, row}, {b.empty(b.sizes(x), b.getF32Type())},
      {all, b.select(2, {0}), all},
      [&](Values v) -> SmallVector<Value> { return {f(v[0], v[1])}; })[0];
}

/// The softmax of each row.
Value FunctionLowering::softmaxRows(Value x) {
  Value lowest =
      b.filled(b.sizes(x)[0], -std::numeric_limits<double>::infinity());
  Value largest =
      b.generic(2, {x}, {lowest}, {b.select(2, {0, 1}), b.select(2, {0})},
                [&](Values v) -> SmallVector<Value> {
                  return {arith::MaximumFOp::create(b, b.getLoc(), v[0], v[1])};
                })[0];
  Value powers = mapRows(b, x, largest, [&](Value number, Value most) -> Value {
    return math::ExpOp::create(
        b, b.getLoc(), arith::SubFOp::create(b, b.getLoc(), number, most));
  });
  Value sums =
      rowSum(powers, [](Values v) -> SmallVector<Value> { return {v[0]}; });
  return mapRows(b, powers, sums, [&](Value power, Value sum) -> Value {
    return arith::DivFOp::create(b, b.getLoc(), power, sum);
  });
}

static Value sigmoidOf(LinalgBuilder &b, Value x) {
  return b.map({x}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
    return {activate(b, Activation::Sigmoid, v[0])};
  });
}

/// scale * x, f32.
static Value scaled(LinalgBuilder &b, Value x, llvm::APFloat scale) {
  double factor = scale.convertToDouble();
  if (factor == 1)
    return x;
  return b.map({x}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], b.f32(factor))};
  });
}

/// The weights of the chosen experts, whose scores are w (T, S).
Value FunctionLowering::normalized(RouteOp op, Value w) {
  switch (op.getNormalize()) {
  case Normalization::None:
    return w;
  case Normalization::Softmax:
    return softmaxRows(w);
  case Normalization::Sigmoid:
    return sigmoidOf(b, w);
  case Normalization::Sum:
  case Normalization::SumAtLeast:
    break;
  }
  Value sums = rowSum(w, [](Values v) -> SmallVector<Value> { return {v[0]}; });
  return mapRows(b, w, sums, [&](Value number, Value sum) -> Value {
    double least = op.getFloor().convertToDouble();
    if (op.getNormalize() == Normalization::SumAtLeast)
      sum = arith::MaximumFOp::create(b, b.getLoc(), sum, b.f32(least));
    else if (least != 0)
      sum = arith::AddFOp::create(b, b.getLoc(), sum, b.f32(least));
    return arith::DivFOp::create(b, b.getLoc(), number, sum);
  });
}

void FunctionLowering::lower(RouteOp op) {
  Value scores = scaled(b, any(op.getLogits()), op.getLogitScale());
  if (op.getScore() != Score::Logits)
    scores = op.getScore() == Score::Softmax ? softmaxRows(scores)
                                             : sigmoidOf(b, scores);
  Value choices = scores;
  AffineMap all = b.select(2, {0, 1});
  if (op.getCorrection())
    choices = b.generic(
        2, {scores, stored(op.getCorrection())},
        {b.empty(b.sizes(scores), b.getF32Type())},
        {all, b.select(2, {1}), all}, [&](Values v) -> SmallVector<Value> {
          return {arith::AddFOp::create(b, b.getLoc(), v[0], v[1])};
        })[0];
  if (op.getGroups())
    choices = keepGroups(b, op, choices);
  Value order = ranks(b, choices, op.getLogits().getType().getDimSize(1));
  auto k = static_cast<int64_t>(op.getK());
  SmallVector<OpFoldResult> sizes = {b.sizes(scores)[0], b.getIndexAttr(k)};
  Value experts = b.generic(
      3, {order}, {zeros(b, sizes)}, {b.select(3, {0, 2}), b.select(3, {0, 1})},
      [&](Values v) -> SmallVector<Value> {
        Value s = asI32(b, linalg::IndexOp::create(b, b.getLoc(), 1)),
              e = asI32(b, linalg::IndexOp::create(b, b.getLoc(), 2)),
              isAt = arith::CmpIOp::create(b, b.getLoc(),
                                           arith::CmpIPredicate::eq, v[0], s);
        return {arith::SelectOp::create(b, b.getLoc(), isAt, e, v[1])};
      })[0];
  Value weights =
      b.map({experts}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
        Value t = linalg::IndexOp::create(b, b.getLoc(), 0);
        return {tensor::ExtractOp::create(b, b.getLoc(), scores,
                                          ValueRange{t, asIndex(b, v[0])})};
      });
  weights = scaled(b, normalized(op, weights), op.getScale());
  if (op.getFactors()) {
    Value factors = stored(op.getFactors());
    weights = b.map(
        {weights, experts}, b.getF32Type(),
        [&](Values v) -> SmallVector<Value> {
          Value factor = tensor::ExtractOp::create(
              b, b.getLoc(), factors, ValueRange{asIndex(b, v[1])});
          return {arith::MulFOp::create(b, b.getLoc(), v[0], b.widen(factor))};
        });
  }
  storedForm[op.getExperts()] = experts;
  storedForm[op.getWeights()] = weights;
}

/// acc[t, s, n] += sum_k x[t(, s), k] * weight[e, n, k], e = experts[t, s].
static Value multiplyFloats(LinalgBuilder &b, Value x, Value experts,
                            Value weight, Value acc) {
  bool isOfExperts = cast<RankedTensorType>(x.getType()).getRank() == 3;
  AffineMap rows = isOfExperts ? b.select(4, {0, 1, 3}) : b.select(4, {0, 3}),
            out = b.select(4, {0, 1, 2});
  return b.generic(
      4, {experts, x}, {acc}, {b.select(4, {0, 1}), rows, out},
      [&](Values v) -> SmallVector<Value> {
        Value n = linalg::IndexOp::create(b, b.getLoc(), 2),
              k = linalg::IndexOp::create(b, b.getLoc(), 3),
              w = tensor::ExtractOp::create(b, b.getLoc(), weight,
                                            ValueRange{asIndex(b, v[0]), n, k}),
              product = arith::MulFOp::create(b, b.getLoc(), v[1], b.widen(w),
                                              b.sumFlags());
        return {
            arith::AddFOp::create(b, b.getLoc(), v[2], product, b.sumFlags())};
      })[0];
}

/// A product whose weight's first index is a number of the tensor of experts.
/// The weight is only read at the chosen experts, and never copied.
void FunctionLowering::lower(ExpertLinearOp op) {
  Value x = stored(op.getInput()), weight = stored(op.getWeight()),
        experts = stored(op.getExperts());
  SmallVector<OpFoldResult> sizes = b.sizes(experts);
  sizes.push_back(b.sizes(weight)[1]);
  Value zeros = b.filled(sizes, 0);
  auto blocks = dyn_cast<BlocksType>(op.getWeight().getType().getElementType());
  Value y = blocks ? multiplyExperts(b, quantized(x), experts, weight,
                                     blocks.getFormat(), zeros)
                   : multiplyFloats(b, x, experts, weight, zeros);
  if (op.getBias()) {
    Value bias = stored(op.getBias());
    y = b.generic(
        3, {experts}, {y}, {b.select(3, {0, 1}), b.select(3, {0, 1, 2})},
        [&](Values v) -> SmallVector<Value> {
          Value n = linalg::IndexOp::create(b, b.getLoc(), 2),
                number = tensor::ExtractOp::create(
                    b, b.getLoc(), bias, ValueRange{asIndex(b, v[0]), n});
          return {arith::AddFOp::create(b, b.getLoc(), v[1], b.widen(number))};
        })[0];
  }
  (op.getType().getElementType().isF32() ? storedForm : wideForm)[op] = y;
}

void FunctionLowering::lower(CombineOp op) {
  Value x = any(op.getInput()), weights = stored(op.getWeights());
  SmallVector<OpFoldResult> sizes = {b.sizes(x)[0], b.sizes(x)[2]};
  AffineMap out = b.select(3, {0, 1});
  Value y =
      b.generic(3, {weights, x}, {b.filled(sizes, 0)},
                {b.select(3, {0, 2}), b.select(3, {0, 2, 1}), out},
                [&](Values v) -> SmallVector<Value> {
                  Value product =
                      arith::MulFOp::create(b, b.getLoc(), v[0], v[1]);
                  return {arith::AddFOp::create(b, b.getLoc(), v[2], product)};
                })[0];
  (op.getType().getElementType().isF32() ? storedForm : wideForm)[op] = y;
}
