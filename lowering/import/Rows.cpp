/// A number of rows, an offset or a size is an affine expression. Its variables
/// ("columns") are T, the arguments of the function, the induction variables of
/// loops, and the results of other ops; nothing is known of such a result. To
/// prove `a <= b`, this file shows that `a > b` contradicts the known facts.
#include "lowering/import/Rows.h"

#include "dialect/Dialect.h"
#include "dialect/Elementwise.h"
#include "dialect/Signature.h"
#include "lowering/entry/LayerNumber.h"

#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The most ops through which a number is followed.
static constexpr int kMostSteps = 64;

namespace {
class Rows {
public:
  Rows(func::FuncOp function, int64_t positions)
      : function(function), context(function.getContext()),
        positions(positions) {
    // The other tensors of numbers are the positions and pages of tokens.
    for (Value argument : function.getArguments().drop_front())
      if (auto type = dyn_cast<RankedTensorType>(argument.getType());
          type && type.getElementType().isInteger(32) && type.isDynamicDim(0))
        known[argument] = tokens();
  }
  LogicalResult verify(Operation *op);

private:
  AffineExpr column(Value value);
  AffineExpr number(OpFoldResult index, int steps = 0);
  AffineExpr rows(Value tensor);
  AffineExpr rows(tensor::CollapseShapeOp op);
  bool isNonNegative(AffineExpr expr);
  void addFacts(presburger::IntegerPolyhedron &facts);
  LogicalResult verifySlice(tensor::ExtractSliceOp op);
  LogicalResult verifyExpand(tensor::ExpandShapeOp op);
  LogicalResult expectSame(Operation *op, ValueRange tensors);
  LogicalResult expectAtMostTokens(Operation *op, Value tensor);
  LogicalResult expectInTable(Operation *op, Value input, Value position,
                              Value table, int64_t first = 0);
  LogicalResult expectInCache(Operation *op, Value input, Value position,
                              Value pages);
  LogicalResult verifyLoop(scf::YieldOp yield);
  LogicalResult verifyLlama(Operation *op);

  AffineExpr constant(int64_t value) {
    return getAffineConstantExpr(value, context);
  }
  AffineExpr tokens() { return rows(function.getArgument(0)); }

  func::FuncOp function;
  MLIRContext *context;
  int64_t positions;
  llvm::MapVector<Value, AffineExpr> columns;
  llvm::DenseMap<Value, AffineExpr> known;
};
} // namespace

AffineExpr Rows::column(Value value) {
  auto [entry, isNew] = columns.try_emplace(value);
  if (isNew)
    entry->second = getAffineDimExpr(columns.size() - 1, context);
  return entry->second;
}

AffineExpr Rows::number(OpFoldResult index, int steps) {
  if (std::optional<int64_t> value = getConstantIntValue(index))
    return constant(*value);
  auto value = cast<Value>(index);
  Operation *op = value.getDefiningOp();
  if (!op || steps > kMostSteps)
    return column(value);
  if (auto dim = dyn_cast<tensor::DimOp>(op))
    return dim.getConstantIndex() == 0 ? rows(dim.getSource()) : column(value);
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return column(value);
  AffineExpr a = number(op->getOperand(0), steps + 1),
             b = number(op->getOperand(1), steps + 1);
  if (isa<arith::AddIOp>(op))
    return a + b;
  if (isa<arith::SubIOp>(op))
    return a - b;
  return a.isSymbolicOrConstant() || b.isSymbolicOrConstant() ? a * b
                                                              : column(value);
}

/// The number of rows of a tensor: its first dimension.
AffineExpr Rows::rows(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.getRank() == 0 || !type.isDynamicDim(0))
    return constant(type.getRank() ? type.getDimSize(0) : 1);
  AffineExpr expr = known.lookup(tensor);
  return expr ? expr : column(tensor);
}

/// Adds what is known of a column: `expr >= 0` for each expression.
void Rows::addFacts(presburger::IntegerPolyhedron &facts) {
  auto add = [&](AffineExpr expr) {
    SmallVector<int64_t> flat;
    if (succeeded(getFlattenedAffineExpr(expr, columns.size(), 0, &flat)))
      facts.addInequality(flat);
  };
  AffineExpr all = tokens();
  // New columns may appear above, but not below.
  for (auto [value, at] : columns) {
    auto argument = dyn_cast<BlockArgument>(value);
    bool isOfFunction =
        argument && argument.getOwner() == &function.getBody().front();
    if (isa<TensorType>(value.getType()) || isOfFunction)
      add(at);
    if (value == function.getArgument(0))
      add(at - 1);
    if (std::optional<LayerNumber> loop = loopNumber(value)) {
      add(at - loop->first);
      add(constant(loop->last) - at);
    }
    if (!isOfFunction || !value.getType().isIndex())
      continue;
    unsigned place = argument.getArgNumber();
    FunctionType type = function.getFunctionType();
    if (place == 1)
      add(constant(positions) - at - all);
    if (place == 2 ||
        (returnsHidden(type) && place == firstHiddenArgument(type)))
      add(all - at);
  }
}

/// Whether the expression is at least 0 for all numbers that a call may have.
bool Rows::isNonNegative(AffineExpr expr) {
  expr = simplifyAffineExpr(expr, columns.size(), 0);
  if (auto number = dyn_cast<AffineConstantExpr>(expr))
    return number.getValue() >= 0;
  (void)tokens(); // may add the column T
  SmallVector<int64_t> flat;
  if (failed(getFlattenedAffineExpr(-expr - 1, columns.size(), 0, &flat)))
    return false;
  presburger::IntegerPolyhedron facts(
      presburger::PresburgerSpace::getSetSpace(columns.size()));
  addFacts(facts);
  facts.addInequality(flat);
  return facts.isEmpty();
}

LogicalResult Rows::verifySlice(tensor::ExtractSliceOp op) {
  RankedTensorType source = op.getSourceType();
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets(),
                            sizes = op.getMixedSizes(),
                            strides = op.getMixedStrides();
  for (int64_t i = 0; i < source.getRank(); ++i) {
    AffineExpr all = i == 0 ? rows(op.getSource())
                            : constant(source.getDimSize(i)),
               offset = number(offsets[i]), size = number(sizes[i]);
    int64_t stride = getConstantIntValue(strides[i]).value_or(0);
    if (stride < 1 || (i > 0 && source.isDynamicDim(i)) ||
        !isNonNegative(offset) || !isNonNegative(size) ||
        !isNonNegative(all - 1 - offset - (size - 1) * stride))
      return op.emitOpError("expected a slice that lies within its source at "
                            "every position and for every number of tokens; "
                            "dimension ")
             << i << " may not";
  }
  int64_t first = 0;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  while (first + 1 < source.getRank() && dropped[first])
    ++first;
  if (op.getType().getRank())
    known[op] = number(sizes[first]);
  return success();
}

/// A dimension that is alone in its group has the source's size, whatever size
/// the op says.
LogicalResult Rows::verifyExpand(tensor::ExpandShapeOp op) {
  AffineExpr source = rows(op.getSrc());
  if (op.getSrcType().getRank() == 0 || !op.getType().isDynamicDim(0))
    return success();
  AffineExpr first = source, product;
  ReassociationIndices group = op.getReassociationIndices().front();
  if (group.size() > 1)
    first = number(op.getMixedOutputShape()[0]);
  product = first;
  for (int64_t dim : ArrayRef(group).drop_front())
    product = product * op.getType().getDimSize(dim);
  known[op] = first;
  if (simplifyAffineExpr(product - source, columns.size(), 0) == constant(0))
    return success();
  return op.emitOpError("expected as many numbers as the source has, for every "
                        "number of tokens");
}

AffineExpr Rows::rows(tensor::CollapseShapeOp op) {
  AffineExpr product = rows(op.getSrc());
  if (op.getReassociationIndices().empty())
    return product;
  ReassociationIndices group = op.getReassociationIndices().front();
  for (int64_t dim : ArrayRef(group).drop_front())
    product = product * op.getSrcType().getDimSize(dim);
  return product;
}

LogicalResult Rows::expectSame(Operation *op, ValueRange tensors) {
  for (Value tensor : tensors.drop_front()) {
    AffineExpr difference = rows(tensors.front()) - rows(tensor);
    if (simplifyAffineExpr(difference, columns.size(), 0) != constant(0))
      return op->emitOpError("expected operands of the same number of rows for "
                             "every number of tokens");
  }
  return success();
}

LogicalResult Rows::expectAtMostTokens(Operation *op, Value tensor) {
  if (isNonNegative(tokens() - rows(tensor)))
    return success();
  return op->emitOpError("expected at most a row for each token");
}

/// Checks an op that reads rows of a table from the position on. The table's
/// first row is for position `first`.
LogicalResult Rows::expectInTable(Operation *op, Value input, Value position,
                                  Value table, int64_t first) {
  if (!position.getType().isIndex())
    return expectSame(op, {input, position});
  if (isNonNegative(rows(table) + first - number(position) - rows(input)))
    return success();
  return op->emitOpError("expected a table with a row for each position of a "
                         "token");
}

/// Checks an op of attention, which reads or writes caches from the position
/// on.
LogicalResult Rows::expectInCache(Operation *op, Value input, Value position,
                                  Value pages) {
  if (position.getType().isIndex())
    return expectAtMostTokens(op, input);
  return expectSame(op, {input, position, pages});
}

LogicalResult Rows::verifyLoop(scf::YieldOp yield) {
  auto loop = cast<scf::ForOp>(yield->getParentOp());
  for (auto [argument, value] :
       llvm::zip(loop.getRegionIterArgs(), yield.getOperands()))
    if (isa<RankedTensorType>(value.getType()) &&
        failed(expectSame(yield, {argument, value})))
      return failure();
  return success();
}

/// Checks the operands of an op of llama.
LogicalResult Rows::verifyLlama(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<SwiGLUOp, SquareSumsOp, CombineOp>(
          [&](auto same) { return expectSame(op, same->getOperands()); })
      .Case([&](ResidualOp sum) {
        return expectSame(op, {sum.getStream(), sum.getUpdate()});
      })
      .Case([&](ExpertLinearOp linear) {
        return expectSame(op, {linear.getInput(), linear.getExperts()});
      })
      .Case([&](RMSNormOp norm) {
        return norm.getSquares()
                   ? expectSame(op, {norm.getInput(), norm.getSquares()})
                   : success();
      })
      .Case([&](RopeOp rope) {
        return expectInTable(op, rope.getInput(), rope.getPosition(),
                             rope.getCos());
      })
      .Case([&](AddRowsOp add) {
        return add.getPosition()
                   ? expectInTable(op, add.getInput(), add.getPosition(),
                                   add.getTable(),
                                   static_cast<int64_t>(add.getFirst()))
                   : success();
      })
      .Case([&](KVAppendOp append) {
        return expectInCache(op, append.getRows(), append.getPosition(),
                             append.getPages());
      })
      .Case([&](GQAOp gqa) {
        return expectInCache(op, gqa.getQuery(), gqa.getPosition(),
                             gqa.getPages());
      })
      .Case([&](CausalConvOp conv) { // a state has all tokens, in order
        return expectSame(op, {conv.getInput(), function.getArgument(0)});
      })
      .Case([&](DeltaRuleOp rule) {
        return expectSame(op, {rule.getQuery(), rule.getKey(), rule.getValue(),
                               rule.getStep(), rule.getRate(),
                               function.getArgument(0)});
      })
      .Case([&](SelectiveScanOp scan) {
        return expectSame(op, {scan.getQuery(), scan.getKey(), scan.getValue(),
                               scan.getStep(), function.getArgument(0)});
      })
      .Default(success());
}

/// Checks an op. The ops that it depends on were checked before.
LogicalResult Rows::verify(Operation *op) {
  auto copyRows = [&](ValueRange from, ValueRange to) {
    for (auto [a, b] : llvm::zip(from, to))
      if (isa<RankedTensorType>(a.getType()))
        known[b] = rows(a);
    return success();
  };
  if (auto append = dyn_cast<KVAppendOp>(op))
    (void)copyRows(append.getCache(), append.getResult());
  // Most ops make a row of each row of their first operand.
  if (isa<LlamaDialect>(op->getDialect()) && op->getNumOperands() &&
      op->getNumResults() && !isa<KVAppendOp, GetWeightOp>(op))
    for (Value result : op->getResults())
      (void)copyRows(op->getOperand(0), result);
  if (auto of = dyn_cast<StateOpInterface>(op))
    (void)copyRows(of.getState(), of.getNext());
  if (isElementwise(op)) {
    SmallVector<Value> tensors = tensorsOf(op);
    (void)copyRows(tensors.front(), op->getResult(0));
    return expectSame(op, tensors);
  }
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tensor::ExtractSliceOp slice) { return verifySlice(slice); })
      .Case([&](tensor::ExpandShapeOp expand) { return verifyExpand(expand); })
      .Case([&](tensor::CollapseShapeOp collapse) {
        known[collapse] = rows(collapse);
        return success();
      })
      .Case([&](tensor::ConcatOp concat) {
        (void)copyRows(concat.getInputs().front(), concat.getResult());
        return expectSame(op, concat.getInputs());
      })
      .Case([&](tensor::SplatOp splat) {
        if (splat.getType().getRank() && splat.getType().isDynamicDim(0))
          known[splat] = number(splat.getDynamicSizes().front());
        return success();
      })
      .Case([&](scf::ForOp loop) {
        (void)copyRows(loop.getInitArgs(), loop.getRegionIterArgs());
        return copyRows(loop.getInitArgs(), loop.getResults());
      })
      .Case([&](scf::YieldOp yield) { return verifyLoop(yield); })
      .Case([&](YieldOp yield) {
        return copyRows(yield.getOperands(),
                        yield->getParentOp()->getResults());
      })
      .Case([&](arith::SelectOp select) {
        (void)copyRows(select.getTrueValue(), select.getResult());
        return isa<RankedTensorType>(select.getType())
                   ? expectSame(op,
                                {select.getTrueValue(), select.getFalseValue()})
                   : success();
      })
      .Case([&](func::ReturnOp ret) {
        size_t rest = cacheTypes(function.getFunctionType()).size();
        for (Value value : ret.getOperands().drop_back(rest))
          if (failed(expectAtMostTokens(op, value)))
            return failure();
        return success();
      })
      .Default([&](Operation *) { return verifyLlama(op); });
}

LogicalResult cria::verifyRows(func::FuncOp function, int64_t positions) {
  Rows rows(function, positions);
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return op == function || succeeded(rows.verify(op))
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
