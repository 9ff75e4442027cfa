/// Lowers llama ops to linalg on tensors, with one function for each op.
/// Attention is lowered in Attention.cpp, states in States.cpp, mixtures of
/// experts in Experts.cpp, kernels in Kernels.cpp, elementwise ops in
/// Elementwise.cpp.
#include "lowering/linalg/Lowering.h"
#include "dialect/Attributes.h"
#include "dialect/Elementwise.h"
#include "dialect/Signature.h"
#include "lowering/linalg/Functions.h"
#include "lowering/linalg/Pages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

static Type elementType(Value value) {
  return tensorType(value).getElementType();
}

/// x * scale. Emits no multiplication if the scale is 1.
static Value scaled(LinalgBuilder &b, Value x, llvm::APFloat scale) {
  double factor = scale.convertToDouble();
  if (factor == 1)
    return x;
  return arith::MulFOp::create(b, b.getLoc(), x, b.f32(factor));
}

Value FunctionLowering::stored(Value old) {
  if (Value value = storedForm.lookup(old))
    return value;
  Value wide = wideForm.lookup(old);
  assert(wide && "a value is lowered before its uses");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(wide);
  Value value = b.map({wide}, elementType(old),
                      [](Values v) -> SmallVector<Value> { return {v[0]}; });
  storedForm[old] = value;
  return value;
}

Value FunctionLowering::any(Value old) {
  if (Value wide = wideForm.lookup(old))
    return wide;
  return stored(old);
}

void FunctionLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    lower(&op);
}

void FunctionLowering::lower(Operation *op) {
  b.setLoc(op->getLoc());
  llvm::TypeSwitch<Operation *>(op)
      .Case<GetWeightOp, GetRopeOp, EmbedOp, RMSNormOp, SquareSumsOp,
            LayerNormOp, LinearOp, HeadOp, SwiGLUOp, ActivateOp, AddRowsOp,
            SetRowsOp, AllReduceOp, ResidualOp, HeadLinearOp, RopeOp,
            KVAppendOp, GQAOp, CausalConvOp, DeltaRuleOp, SelectiveScanOp,
            RouteOp, ExpertLinearOp, CombineOp, KernelOp, tensor::SplatOp,
            tensor::ConcatOp>([&](auto typed) { lower(typed); })
      .Case<scf::ForOp>([&](scf::ForOp loop) { lowerLoop(loop); })
      .Default([&](Operation *other) {
        if (lowerReshape(other))
          return;
        if (isElementwise(other))
          return lowerElementwise(other);
        IRMapping mapping;
        for (Value operand : other->getOperands())
          mapping.map(operand, stored(operand));
        Operation *copy = b.clone(*other, mapping);
        for (auto [old, value] :
             llvm::zip(other->getResults(), copy->getResults()))
          storedForm[old] = value;
      });
}

/// Reshapes a value in its wide form if it has one. A dimension that is alone
/// in its group keeps its size.
bool FunctionLowering::lowerReshape(Operation *op) {
  if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return false;
  Value x = any(op->getOperand(0)), old = op->getResult(0), reshaped;
  auto type = tensorType(old).clone(elementType(x));
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    SmallVector<OpFoldResult> shape = expand.getMixedOutputShape(),
                              sizes = b.sizes(x);
    for (auto [size, group] :
         llvm::zip(sizes, expand.getReassociationIndices()))
      for (int64_t dim : group) {
        if (group.size() == 1)
          shape[dim] = size;
        else if (auto value = dyn_cast<Value>(shape[dim]))
          shape[dim] = stored(value);
      }
    reshaped = tensor::ExpandShapeOp::create(
        b, b.getLoc(), type, x, expand.getReassociationIndices(), shape);
  } else {
    auto collapse = cast<tensor::CollapseShapeOp>(op);
    reshaped = tensor::CollapseShapeOp::create(
        b, b.getLoc(), type, x, collapse.getReassociationIndices());
  }
  (wideForm.count(op->getOperand(0)) ? wideForm : storedForm)[old] = reshaped;
  return true;
}

Value FunctionLowering::call(StringRef symbol, Type type, ValueRange operands) {
  return func::CallOp::create(b, b.getLoc(), symbol, type, operands)
      .getResult(0);
}

void FunctionLowering::lower(GetWeightOp op) {
  SmallVector<Value> layer;
  if (op.getLayer())
    layer.push_back(stored(op.getLayer()));
  storedForm[op] =
      call(op.getWeight(), storageType(tensorType(op.getResult())), layer);
}

void FunctionLowering::lower(GetRopeOp op) {
  std::string name = op.getTable().str();
  storedForm[op.getCos()] = call(name + ".cos", op.getCos().getType(), {});
  storedForm[op.getSin()] = call(name + ".sin", op.getSin().getType(), {});
}

void FunctionLowering::lower(EmbedOp op) {
  Value ids = stored(op.getIds()), table = stored(op.getTable());
  Value out =
      b.empty({b.sizes(ids)[0], b.getIndexAttr(op.getType().getDimSize(1))},
              op.getType().getElementType());
  auto blocks = dyn_cast<BlocksType>(elementType(op.getTable()));
  storedForm[op] = b.generic(
      2, {ids}, {out}, {b.select(2, {0}), b.select(2, {0, 1})},
      [&](Values v) -> SmallVector<Value> {
        Value id =
            arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), v[0]);
        Value column = linalg::IndexOp::create(b, b.getLoc(), 1);
        Value x = blocks
                      ? extractNumber(b, table, id, column, blocks.getFormat())
                      : tensor::ExtractOp::create(b, b.getLoc(), table,
                                                  ValueRange{id, column})
                            .getResult();
        return {scaled(b, b.widen(x), op.getScale())};
      })[0];
}

/// The map of all dimensions but the last. A row's statistics have these
/// dimensions.
static AffineMap rowMap(OpBuilder &b, int64_t rank) {
  return b.getMultiDimIdentityMap(rank).dropResult(rank - 1);
}

/// sum[t] = sum_i term(rows[t, i]), over the last dimension.
Value FunctionLowering::rowSum(Value rows, LinalgBuilder::Payload term) {
  int64_t rank = tensorType(rows).getRank();
  return b.generic(
      rank, {rows}, {b.filled(ArrayRef(b.sizes(rows)).drop_back(), 0)},
      {b.getMultiDimIdentityMap(rank), rowMap(b, rank)},
      [&](Values v) -> SmallVector<Value> {
        return {arith::AddFOp::create(b, b.getLoc(), v[1], term({v[0]}).front(),
                                      b.sumFlags())};
      })[0];
}

/// sums / count, elementwise. `sizes` are those of `sums`.
static Value divided(LinalgBuilder &b, Value sums, ArrayRef<OpFoldResult> sizes,
                     int64_t count) {
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(sizes.size()));
  return b.generic(
      sizes.size(), {sums}, {b.empty(sizes, b.getF32Type())}, maps,
      [&](Values v) -> SmallVector<Value> {
        return {arith::DivFOp::create(b, b.getLoc(), v[0],
                                      b.f32(static_cast<double>(count)))};
      })[0];
}

/// mean[t] = sum_i term(rows[t, i]) / I, over the last dimension.
Value FunctionLowering::rowMean(Value rows, LinalgBuilder::Payload term) {
  Value sums = rowSum(rows, term);
  return divided(b, sums, b.sizes(sums), tensorType(rows).getShape().back());
}

/// Whether a value is a weight, or a slice or a reshape of a weight. Weights
/// are mapped from the checkpoint and are never written.
static bool isWeight(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
             tensor::ExtractSliceOp>(op))
      return isa<GetWeightOp>(op);
    value = op->getOperand(0);
  }
  return false;
}

/// The stored form of a value, for ops that write over their operand. For a
/// weight this is a copy.
Value FunctionLowering::writable(Value old) {
  Value value = stored(old);
  if (!isWeight(old))
    return value;
  return bufferization::MaterializeInDestinationOp::create(
             b, b.getLoc(), value, b.empty(b.sizes(value), elementType(value)))
      .getResult();
}

/// Whether the only use of the value is that the entry returns it as `output`.
/// The value may be made inside a kernel, which yields it.
static bool makesOutput(Value value, FunctionLowering::Output output) {
  if (!value.hasOneUse())
    return false;
  OpOperand &use = *value.use_begin();
  if (isa<YieldOp>(use.getOwner()))
    return makesOutput(
        use.getOwner()->getParentOp()->getResult(use.getOperandNumber()),
        output);
  auto function = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
  return function && isa<func::ReturnOp>(use.getOwner()) &&
         use.getOperandNumber() == static_cast<unsigned>(output) &&
         (output == FunctionLowering::Logits ||
          returnsHidden(function.getFunctionType()));
}

/// The first rows of an output's memory, as many as `rows` has.
Value FunctionLowering::outputSlice(Output output, Value rows) {
  Value all = outputs[output];
  SmallVector<OpFoldResult> zeros(2, b.getIndexAttr(0));
  return b.slice(all, zeros, {b.sizes(rows)[0], b.sizes(all)[1]});
}

Value FunctionLowering::intoOutput(Output output, Value rows) {
  SmallVector<OpFoldResult> zeros(2, b.getIndexAttr(0));
  return b.insert(rows, outputs[output], zeros, b.sizes(rows));
}

/// Whether a value has one use, and what it is a part or a reshape of has no
/// other use.
static bool hasOneReader(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_present<tensor::ExtractSliceOp, tensor::ExpandShapeOp,
                         tensor::CollapseShapeOp>(op))
      return true;
    value = op->getOperand(0);
  }
  return false;
}

/// The destination of a norm's result: the entry's hidden states if the entry
/// returns the result as these, the norm's input if nothing else reads its
/// memory, or else a new tensor.
Value FunctionLowering::normDestination(Operation *norm, Value x) {
  if (makesOutput(norm->getResult(0), Hidden))
    return outputSlice(Hidden, x);
  auto type = cast<RankedTensorType>(norm->getResult(0).getType());
  if (wideForm.count(norm->getOperand(0)))
    type = type.clone(b.getF32Type());
  if (x.getType() == type && hasOneReader(norm->getOperand(0)) &&
      !isWeight(norm->getOperand(0)))
    return x;
  return b.empty(b.sizes(x), type.getElementType());
}

/// One number of a norm's result. Hidden states are stored in f32, so the
/// number is first rounded to the norm's type.
static Value roundHidden(LinalgBuilder &b, Operation *norm, Value y) {
  if (!makesOutput(norm->getResult(0), FunctionLowering::Hidden))
    return y;
  return b.widen(b.round(y, elementType(norm->getResult(0))));
}

/// Sets a norm's result. If the input has a wide form, the result is a wide
/// form, too.
void FunctionLowering::setNorm(Operation *norm, Value result) {
  if (makesOutput(norm->getResult(0), Hidden)) {
    storedForm[norm->getResult(0)] = intoOutput(Hidden, result);
    return;
  }
  bool wide = wideForm.count(norm->getOperand(0));
  (wide ? wideForm : storedForm)[norm->getResult(0)] = result;
}

/// x * x, a term of a sum.
static SmallVector<Value> square(LinalgBuilder &b, Value x) {
  return {arith::MulFOp::create(b, b.getLoc(), x, x, b.sumFlags())};
}

/// The mean of the squares of each row: of x, or of the rows of all ranks.
Value FunctionLowering::meanSquare(RMSNormOp op, Value x) {
  if (!op.getSquares())
    return rowMean(x, [&](Values v) { return square(b, v[0]); });
  OpFoldResult tokens = b.sizes(x)[0];
  Value column = b.slice(
      stored(op.getSquares()),
      {b.getIndexAttr(0), b.getIndexAttr(static_cast<int64_t>(op.getColumn()))},
      {tokens, b.getIndexAttr(1)});
  Value sums = tensor::CollapseShapeOp::create(
      b, b.getLoc(), column, ArrayRef<ReassociationIndices>{{0, 1}});
  return divided(b, sums, tokens, static_cast<int64_t>(*op.getSize()));
}

/// Each tensor's sums are a column of the result.
void FunctionLowering::lower(SquareSumsOp op) {
  SmallVector<OpFoldResult> sizes = b.sizes(any(op.getInputs()[0]));
  OpFoldResult tokens = sizes[0], one = b.getIndexAttr(1);
  sizes[1] = b.getIndexAttr(op.getType().getDimSize(1));
  Value out = b.empty(sizes, b.getF32Type());
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value sums = rowSum(any(input), [&](Values v) { return square(b, v[0]); });
    auto type = RankedTensorType::get({tensorType(sums).getDimSize(0), 1},
                                      b.getF32Type());
    Value column = tensor::ExpandShapeOp::create(
        b, b.getLoc(), type, sums, ArrayRef<ReassociationIndices>{{0, 1}},
        ArrayRef<OpFoldResult>{tokens, one});
    out = b.insert(column, out, {b.getIndexAttr(0), b.getIndexAttr(int64_t(i))},
                   {tokens, one});
  }
  storedForm[op] = out;
}

void FunctionLowering::lower(RMSNormOp op) {
  Value x = any(op.getInput());
  Type type = op.getType().getElementType();
  Value mean = meanSquare(op, x);
  Value inverse = b.map({mean}, b.getF32Type(), [&](Values v) {
    Value shifted = arith::AddFOp::create(b, b.getLoc(), v[0],
                                          b.f32(op.getEps().convertToDouble()));
    return SmallVector<Value>{math::RsqrtOp::create(b, b.getLoc(), shifted)};
  });
  int64_t rank = op.getType().getRank();
  AffineMap all = b.getMultiDimIdentityMap(rank);
  SmallVector<Value> inputs = {x, inverse};
  SmallVector<AffineMap> maps = {all, rowMap(b, rank)};
  if (op.getWeight()) {
    inputs.push_back(stored(op.getWeight()));
    maps.push_back(all.getMinorSubMap(
        static_cast<unsigned>(op.getWeight().getType().getRank())));
  }
  maps.push_back(all);
  auto apply = [&](Values v) {
    Value y = arith::MulFOp::create(b, b.getLoc(), v[0], v[1]);
    if (!op.getRoundOnce())
      y = b.widen(b.round(y, type));
    Value weight = op.getWeight() ? v[2] : Value();
    if (op.getUnitOffset())
      weight = arith::AddFOp::create(b, b.getLoc(), weight, b.f32(1));
    if (weight)
      y = arith::MulFOp::create(b, b.getLoc(), weight, y);
    return SmallVector<Value>{roundHidden(b, op, y)};
  };
  setNorm(op,
          b.generic(rank, inputs, {normDestination(op, x)}, maps, apply)[0]);
}

void FunctionLowering::lower(LayerNormOp op) {
  Value x = any(op.getInput());
  Value mean =
      rowMean(x, [](Values v) -> SmallVector<Value> { return {v.front()}; });
  SmallVector<AffineMap> rows = {b.select(2, {0, 1}), b.select(2, {0}),
                                 b.select(2, {0, 1})};
  auto centre = [&](Values v) -> SmallVector<Value> {
    return {arith::SubFOp::create(b, b.getLoc(), v[0], v[1])};
  };
  Value centred = b.generic(2, {x, mean}, {b.empty(b.sizes(x), b.getF32Type())},
                            rows, centre)[0];
  Value variance = rowMean(centred, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0])};
  });
  SmallVector<Value> inputs = {centred, variance};
  SmallVector<AffineMap> maps = {rows[0], rows[1]};
  for (Value vector : {op.getGamma(), op.getBeta()})
    if (vector) {
      inputs.push_back(stored(vector));
      maps.push_back(b.select(2, {1}));
    }
  maps.push_back(rows[0]);
  double eps = op.getEps().convertToDouble();
  auto apply = [&](Values v) {
    Value shifted = arith::AddFOp::create(b, b.getLoc(), v[1], b.f32(eps));
    Value y = arith::MulFOp::create(
        b, b.getLoc(), v[0], math::RsqrtOp::create(b, b.getLoc(), shifted));
    Value gamma = op.getGamma() ? v[2] : Value();
    if (op.getUnitOffset())
      gamma = arith::AddFOp::create(b, b.getLoc(), gamma, b.f32(1));
    if (gamma)
      y = arith::MulFOp::create(b, b.getLoc(), y, gamma);
    if (op.getBeta())
      y = arith::AddFOp::create(b, b.getLoc(), y, v[3]);
    return SmallVector<Value>{roundHidden(b, op, y)};
  };
  setNorm(op, b.generic(2, inputs, {normDestination(op, x)}, maps, apply)[0]);
}

/// `x` in blocks. All products that read `x` share the result.
BlockRows FunctionLowering::quantized(Value x) {
  auto [entry, isNew] = inBlocks.try_emplace(x);
  if (isNew)
    entry->second = quantizeRows(b, x);
  return entry->second;
}

/// `x` in 16 bits. All products that read `x` share the result.
Value FunctionLowering::inHalves(Value x) {
  if (!tensorType(x).getElementType().isF32())
    return x;
  auto [entry, isNew] = rounded.try_emplace(x);
  if (isNew)
    entry->second =
        b.map({x}, b.getBF16Type(),
              [&](Values v) -> SmallVector<Value> { return {v[0]}; });
  return entry->second;
}

/// Whether products of these rows take widened numbers of a weight in blocks.
/// What a token computes must not depend on where a text is cut.
bool FunctionLowering::widensWeights(Value rows, ShapedType weight) {
  auto type = cast<ShapedType>(rows.getType());
  return llvm::is_contained(prompt.widened, type.getElementType()) &&
         type.getDimSize(0) != 1 && weight.getDimSize(0) >= kWidenedRows &&
         !function->hasAttr(kInvariantAttribute);
}

/// x (T, K) times the transpose of weight (N, K), in f32. The result goes into
/// `into`, or into a new tensor if `into` is null. `oldX` and `oldWeight` are
/// values of the llama function. `widens`: numbers of a weight in blocks may be
/// widened.
Value FunctionLowering::matmul(Value oldX, Value oldWeight, Value into,
                               bool widens) {
  Value x = stored(oldX), weight = stored(oldWeight);
  if (!into)
    into = b.empty({b.sizes(x)[0], b.sizes(weight)[0]}, b.getF32Type());
  Value zero = linalg::FillOp::create(b, b.getLoc(), ValueRange{b.f32(0)},
                                      ValueRange{into})
                   .getResult(0);
  auto blocks = dyn_cast<BlocksType>(elementType(oldWeight));
  if (!blocks)
    return b.contractTransposed(x, weight, zero);
  if (blocks.getFormat() == BlockFormat::FP8)
    return multiplyWidened(b, inHalves(x), weight, BlockFormat::FP8,
                           /*rounds=*/tensorType(x).getDimSize(0) != 1, zero);
  if (widens && widensWeights(x, tensorType(oldWeight)))
    return multiplyWidened(b, x, weight, blocks.getFormat(), /*rounds=*/true,
                           zero);
  return multiplyBlocks(b, quantized(x), weight, blocks.getFormat(), zero);
}

/// rows (T, N) + vector (N), in place.
Value FunctionLowering::addVector(Value rows, Value vector) {
  return b.generic(2, {vector}, {rows}, {b.select(2, {1}), b.select(2, {0, 1})},
                   [&](Values v) -> SmallVector<Value> {
                     return {arith::AddFOp::create(b, b.getLoc(), v[1], v[0])};
                   })[0];
}

void FunctionLowering::lower(LinearOp op) {
  Value y = matmul(op.getInput(), op.getWeight(), {}, /*widens=*/true);
  if (op.getBias())
    y = addVector(y, stored(op.getBias()));
  (elementType(op.getResult()).isF32() ? storedForm : wideForm)[op] = y;
}

/// If the entry returns the head's result as logits, the head writes into the
/// memory of the logits. A prompt's head usually has one row.
void FunctionLowering::lower(HeadOp op) {
  Value into;
  if (makesOutput(op, Logits))
    into = outputSlice(Logits, stored(op.getInput()));
  Value y = matmul(op.getInput(), op.getWeight(), into, /*widens=*/false);
  auto inPlace = [&](llvm::function_ref<Value(Value)> f) {
    y = b.generic(2, {}, {y}, {b.select(2, {0, 1})},
                  [&](Values v) { return SmallVector<Value>{f(v[0])}; })[0];
  };
  if (op.getScale().convertToDouble() != 1)
    inPlace([&](Value x) { return scaled(b, x, op.getScale()); });
  if (op.getBias())
    y = addVector(y, stored(op.getBias()));
  if (op.getSoftcap())
    inPlace([&](Value x) { return softcap(b, x, *op.getSoftcap()); });
  storedForm[op] = makesOutput(op, Logits) ? intoOutput(Logits, y) : y;
}

bool cria::writesOutput(Operation *op) {
  return op && ((isa<HeadOp>(op) &&
                 makesOutput(op->getResult(0), FunctionLowering::Logits)) ||
                (isa<RMSNormOp, LayerNormOp>(op) &&
                 makesOutput(op->getResult(0), FunctionLowering::Hidden)));
}

/// The op that makes this value, or null. If a kernel yields the value, the op
/// in the kernel.
static Operation *makerOf(Value value) {
  if (auto kernel = value.getDefiningOp<KernelOp>()) {
    Operation *yield = kernel.getBody().front().getTerminator();
    value = yield->getOperand(cast<OpResult>(value).getResultNumber());
  }
  return value.getDefiningOp();
}

Value FunctionLowering::storeOutput(Output output, Value old) {
  Value value = stored(old);
  if (writesOutput(makerOf(old)))
    return value;
  Value place = outputSlice(output, value);
  if (elementType(value).isF32())
    return intoOutput(output, bufferization::MaterializeInDestinationOp::create(
                                  b, b.getLoc(), value, place)
                                  .getResult());
  SmallVector<AffineMap> maps(2, b.select(2, {0, 1}));
  auto widened =
      b.generic(2, {value}, {place}, maps,
                [](Values v) -> SmallVector<Value> { return {v[0]}; });
  return intoOutput(output, widened.front());
}

/// The table's rows for the tokens: consecutive rows from one position on, or,
/// if each token has a position, the row at each position. Rows at the
/// positions of tokens are gathered once for each table.
Value FunctionLowering::rowsAt(Value table, Value oldPosition,
                               ArrayRef<OpFoldResult> sizes) {
  Value position = stored(oldPosition);
  if (position.getType().isIndex())
    return b.slice(table, {position, b.getIndexAttr(0)}, sizes);
  Value &gathered = gatheredRows[{table, position}];
  if (!gathered)
    gathered =
        b.generic(2, {position}, {b.empty(sizes, elementType(table))},
                  {b.select(2, {0}), b.select(2, {0, 1})},
                  [&](Values v) -> SmallVector<Value> {
                    Value row = arith::IndexCastOp::create(
                        b, b.getLoc(), b.getIndexType(), v[0]);
                    Value column = linalg::IndexOp::create(b, b.getLoc(), 1);
                    return {tensor::ExtractOp::create(b, b.getLoc(), table,
                                                      ValueRange{row, column})};
                  })[0];
  return gathered;
}

/// Makes each number of a result from x's number, whether the table has a row
/// for the token, and the number of that row. The table's first row is for
/// position `first`.
Value FunctionLowering::fromRows(
    Value x, Value table, Value position, uint64_t first, Type type,
    llvm::function_ref<Value(Value, Value, Value)> make) {
  int64_t rows = tensorType(table).getDimSize(0);
  SmallVector<AffineMap> maps(2, b.select(2, {0, 1}));
  return b.generic(
      2, {x}, {b.empty(b.sizes(x), type)}, maps,
      [&](Values v) -> SmallVector<Value> {
        Location loc = b.getLoc();
        auto constant = [&](int64_t value) -> Value {
          return arith::ConstantIndexOp::create(b, loc, value);
        };
        Value token = linalg::IndexOp::create(b, loc, 0),
              column = linalg::IndexOp::create(b, loc, 1);
        Value place = arith::AddIOp::create(b, loc, position, token);
        place = arith::SubIOp::create(b, loc, place,
                                      constant(static_cast<int64_t>(first)));
        Value low = arith::MaxSIOp::create(b, loc, place, constant(0)),
              row = arith::MinSIOp::create(b, loc, low, constant(rows - 1));
        Value isThere =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, place, row);
        Value number =
            tensor::ExtractOp::create(b, loc, table, ValueRange{row, column});
        return {make(v[0], isThere, b.widen(number))};
      })[0];
}

void FunctionLowering::lower(SetRowsOp op) {
  storedForm[op] = fromRows(
      any(op.getInput()), stored(op.getRows()), stored(op.getPosition()),
      op.getFirst(), op.getType().getElementType(),
      [&](Value x, Value isThere, Value row) -> Value {
        return arith::SelectOp::create(b, b.getLoc(), isThere, row, x);
      });
}

/// Adds to each row of x the table's row for that token. A table without a
/// position has one row, which is added to all rows of x.
void FunctionLowering::lower(AddRowsOp op) {
  Value x = any(op.getInput()), table = stored(op.getTable());
  if (op.getFirst()) {
    storedForm[op] =
        fromRows(x, table, stored(op.getPosition()), op.getFirst(),
                 op.getType().getElementType(),
                 [&](Value x, Value isThere, Value row) -> Value {
                   Value added = arith::SelectOp::create(b, b.getLoc(), isThere,
                                                         row, b.f32(0));
                   return arith::AddFOp::create(b, b.getLoc(), x, added);
                 });
    return;
  }
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  unsigned row = 0, column = 1;
  AffineMap all = b.select(2, {row, column}), from = b.select(2, {column});
  if (op.getPosition()) {
    table = rowsAt(table, op.getPosition(), sizes);
    from = all;
  } else {
    table = tensor::CollapseShapeOp::create(
        b, b.getLoc(), table, ArrayRef<ReassociationIndices>{{0, 1}});
  }
  storedForm[op] =
      b.generic(2, {x, table}, {b.empty(sizes, op.getType().getElementType())},
                {all, from, all}, [&](Values v) -> SmallVector<Value> {
                  return {arith::AddFOp::create(b, b.getLoc(), v[0], v[1])};
                })[0];
}

/// The sum over ranks replaces this rank's summand, in the same buffer. The
/// tensor is flattened because mpi.allreduce only counts the elements of the
/// first dimension. It is widened to f32, the only float type of mpi.allreduce.
void FunctionLowering::lower(AllReduceOp op) {
  Value x = any(op.getInput());
  Type f32 = b.getF32Type();
  if (elementType(x) != f32)
    x = b.map({x}, f32, [](Values v) -> SmallVector<Value> { return {v[0]}; });
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  SmallVector<ReassociationIndices> rows = {{0, 1}};
  Value flat = tensor::CollapseShapeOp::create(b, b.getLoc(), x, rows);
  auto memory = MemRefType::get(tensorType(flat).getShape(), f32);
  Value buffer = bufferization::ToBufferOp::create(b, b.getLoc(), memory, flat);
  Value world = mpi::CommWorldOp::create(b, b.getLoc(),
                                         mpi::CommType::get(b.getContext()));
  mpi::AllReduceOp::create(b, b.getLoc(), /*retval=*/Type(), buffer, buffer,
                           mpi::MPI_ReductionOpEnum::MPI_SUM, world);
  flat = bufferization::ToTensorOp::create(b, b.getLoc(), flat.getType(),
                                           buffer, /*restrict=*/true,
                                           /*writable=*/true);
  Value y = tensor::ExpandShapeOp::create(b, b.getLoc(), x.getType(), flat,
                                          rows, sizes);
  if (op.getBias())
    y = addVector(y, stored(op.getBias()));
  (elementType(op.getResult()).isF32() ? storedForm : wideForm)[op] = y;
}

void FunctionLowering::lower(ResidualOp op) {
  AffineMap all = b.select(2, {0, 1});
  SmallVector<Value> inputs = {any(op.getUpdate())};
  SmallVector<AffineMap> maps = {all};
  if (op.getFactor()) {
    inputs.push_back(stored(op.getFactor()));
    maps.push_back(b.select(2, {1}));
  }
  if (op.getTimes()) {
    inputs.push_back(
        tensor::CollapseShapeOp::create(b, b.getLoc(), stored(op.getTimes()),
                                        ArrayRef<ReassociationIndices>()));
    maps.push_back(b.select(2, {}));
  }
  size_t times = inputs.size() - 1;
  Value stream = stored(op.getStream()), into = stream;
  bool isInPlace = !isWeight(op.getStream());
  if (!isInPlace) {
    inputs.push_back(stream);
    maps.push_back(all);
    into = b.empty(b.sizes(stream), op.getType().getElementType());
  }
  maps.push_back(all);
  storedForm[op] =
      b.generic(2, inputs, {into}, maps, [&](Values v) -> SmallVector<Value> {
        Value update = scaled(b, v[0], op.getScale()),
              old = isInPlace ? v.back() : v[inputs.size() - 1];
        if (op.getFactor())
          update = arith::MulFOp::create(b, b.getLoc(), update, v[1]);
        Value sum = arith::AddFOp::create(b, b.getLoc(), old, update);
        if (op.getTimes())
          sum = arith::MulFOp::create(b, b.getLoc(), sum, v[times]);
        return {sum};
      })[0];
}

/// Loops (t, h, n, k).
void FunctionLowering::lower(HeadLinearOp op) {
  Value x = stored(op.getInput()), weight = stored(op.getWeight());
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  sizes[2] = b.getIndexAttr(op.getType().getDimSize(2));
  AffineMap rows =
      op.getTransposed() ? b.select(4, {1, 3, 2}) : b.select(4, {1, 2, 3});
  Value y = b.contract({x, b.select(4, {0, 1, 3})}, {weight, rows},
                       b.select(4, {0, 1, 2}), b.filled(sizes, 0));
  (elementType(op.getResult()).isF32() ? storedForm : wideForm)[op] = y;
}

/// Copies each tensor into its slice of a new one.
void FunctionLowering::lower(tensor::ConcatOp op) {
  int64_t rank = op.getResultType().getRank();
  auto dim = static_cast<size_t>(op.getDim());
  Type type = op.getResultType().getElementType();
  SmallVector<Value> parts = llvm::map_to_vector(
      op.getInputs(), [&](Value input) { return any(input); });
  SmallVector<OpFoldResult> sizes = b.sizes(parts.front()),
                            at(sizes.size(), b.getIndexAttr(0));
  sizes[dim] = b.getIndexAttr(op.getResultType().getDimSize(dim));
  Value out = b.empty(sizes, type);
  int64_t first = 0;
  for (auto [part, input] : llvm::zip(parts, op.getInputs())) {
    int64_t size = tensorType(input).getDimSize(dim);
    at[dim] = b.getIndexAttr(first);
    sizes[dim] = b.getIndexAttr(size);
    SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(rank));
    Value copy =
        b.generic(rank, {part}, {b.empty(sizes, type)}, maps,
                  [](Values v) -> SmallVector<Value> { return {v[0]}; })[0];
    out = b.insert(copy, out, at, sizes);
    first += size;
  }
  storedForm[op] = out;
}

void FunctionLowering::lower(RopeOp op) {
  Value x = any(op.getInput());
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  int64_t half = tensorType(op.getCos()).getDimSize(1),
          size = op.getType().getDimSize(2);
  Value out = b.empty(sizes, op.getType().getElementType());
  // Where the elements of pairs begin, and from one pair to the next.
  int64_t step = op.getInterleaved() ? 2 : 1;
  SmallVector<OpFoldResult> low(3, b.getIndexAttr(0)), high = low;
  high[2] = b.getIndexAttr(op.getInterleaved() ? 1 : half);
  sizes[2] = b.getIndexAttr(half);
  SmallVector<OpFoldResult> rows = {sizes[0], sizes[2]};
  SmallVector<Value> inputs = {
      b.slice(x, low, sizes, {}, step), b.slice(x, high, sizes, {}, step),
      rowsAt(stored(op.getCos()), op.getPosition(), rows),
      rowsAt(stored(op.getSin()), op.getPosition(), rows)};
  AffineMap all = b.select(3, {0, 1, 2}), table = b.select(3, {0, 2});
  Type type = op.getType().getElementType();
  // The two halves are computed one after the other, each directly in its slice
  // of `out`.
  for (bool upper : {false, true}) {
    ArrayRef<OpFoldResult> offsets = upper ? high : low;
    Value rotated = b.generic(
        3, inputs, {b.empty(sizes, type)}, {all, all, table, table, all},
        [&](Values v) -> SmallVector<Value> {
          Value own = arith::MulFOp::create(b, b.getLoc(), v[upper], v[2]);
          Value other = arith::MulFOp::create(b, b.getLoc(), v[!upper], v[3]);
          if (upper)
            return {arith::AddFOp::create(b, b.getLoc(), own, other)};
          return {arith::SubFOp::create(b, b.getLoc(), own, other)};
        })[0];
    out = b.insert(rotated, out, offsets, sizes, step);
  }
  if (2 * half < size) {
    low[2] = b.getIndexAttr(2 * half);
    sizes[2] = b.getIndexAttr(size - 2 * half);
    Value rest = b.generic(
        3, {b.slice(x, low, sizes)}, {b.empty(sizes, type)}, {all, all},
        [](Values v) -> SmallVector<Value> { return {v[0]}; })[0];
    out = b.insert(rest, out, low, sizes);
  }
  storedForm[op] = out;
}

/// Writes the rows into the layer's cache, where the rows of one head are
/// adjacent. Rows of several tokens may lie apart in a ring.
void FunctionLowering::lower(KVAppendOp op) {
  Value rows = stored(op.getRows());
  bool isOne = tensorType(rows).getDimSize(0) == 1;
  if (op.getPages() || (op.getRing() && !isOne)) {
    PagedCache cache = {writable(op.getCache()),
                        op.getPages() ? stored(op.getPages()) : Value(),
                        stored(op.getPosition()), stored(op.getLayer())};
    storedForm[op] = appendToPages(b, rows, cache);
    return;
  }
  SmallVector<OpFoldResult> sizes = b.sizes(rows);
  std::swap(sizes[0], sizes[1]);
  Value place = stored(op.getPosition());
  if (op.getRing())
    place = arith::RemUIOp::create(
        b, b.getLoc(), place, b.index(tensorType(op.getCache()).getDimSize(2)));
  AffineMap all = b.select(3, {0, 1, 2}), headFirst = b.select(3, {1, 0, 2});
  Value turned = b.generic(
      3, {rows}, {b.empty(sizes, elementType(rows))}, {all, headFirst},
      [](Values v) { return SmallVector<Value>{v[0]}; })[0];
  OpFoldResult zero = b.getIndexAttr(0);
  if (isa<BlocksType>(elementType(op.getCache()))) {
    storedForm[op] = insertBlocks(b, turned, writable(op.getCache()),
                                  stored(op.getLayer()), place);
    return;
  }
  storedForm[op] = b.insert(turned, writable(op.getCache()),
                            {stored(op.getLayer()), zero, place, zero},
                            {b.getIndexAttr(1), sizes[0], sizes[1], sizes[2]});
}

void FunctionLowering::lower(GQAOp op) {
  auto optional = [&](Value value) { return value ? stored(value) : Value(); };
  AttentionOperands operands = {
      any(op.getQuery()),         stored(op.getKeyCache()),
      stored(op.getValueCache()), stored(op.getLayer()),
      stored(op.getPosition()),   optional(op.getPages()),
      optional(op.getOver()),     optional(op.getAhead()),
      optional(op.getSinks())};
  storedForm[op] = lowerAttention(b, operands, op);
}

void FunctionLowering::lowerLoop(scf::ForOp loop) {
  SmallVector<Value> inits;
  for (Value init : loop.getInitArgs())
    inits.push_back(writable(init));
  auto copy = scf::ForOp::create(b, loop.getLoc(), stored(loop.getLowerBound()),
                                 stored(loop.getUpperBound()),
                                 stored(loop.getStep()), inits);
  for (auto [old, value] : llvm::zip(loop.getBody()->getArguments(),
                                     copy.getBody()->getArguments()))
    storedForm[old] = value;
  OpBuilder::InsertionGuard guard(b);
  if (inits.empty())
    b.setInsertionPoint(copy.getBody()->getTerminator());
  else
    b.setInsertionPointToEnd(copy.getBody());
  lowerBlock(*loop.getBody());
  SmallVector<Value> yielded;
  for (Value value : loop.getYieldedValues())
    yielded.push_back(writable(value));
  if (!inits.empty())
    scf::YieldOp::create(b, loop.getLoc(), yielded);
  for (auto [old, value] : llvm::zip(loop.getResults(), copy.getResults()))
    storedForm[old] = value;
}
