/// llama ops to linalg on tensors, one function an op. Attention is in a file
/// of its own.
#include "lowering/linalg/Lowering.h"
#include "lowering/linalg/Functions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Type elementType(Value value) {
  return tensorType(value).getElementType();
}

/// x, times the scale where it is not 1.
static Value scaled(LinalgBuilder &b, Value x, llvm::APFloat scale) {
  double factor = scale.convertToDouble();
  if (factor == 1)
    return x;
  return arith::MulFOp::create(b, b.getLoc(), x, b.f32(factor));
}

Value EntryLowering::stored(Value old) {
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

Value EntryLowering::any(Value old) {
  if (Value wide = wideForm.lookup(old))
    return wide;
  return stored(old);
}

void EntryLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    lower(&op);
}

void EntryLowering::lower(Operation *op) {
  b.setLoc(op->getLoc());
  llvm::TypeSwitch<Operation *>(op)
      .Case<GetWeightOp, GetRopeOp, EmbedOp, RMSNormOp, LayerNormOp, LinearOp,
            HeadOp, SwiGLUOp, ActivateOp, AddRowsOp, ResidualOp, RopeOp,
            KVAppendOp, GQAOp, KernelOp>([&](auto typed) { lower(typed); })
      .Case<scf::ForOp>([&](scf::ForOp loop) { lowerLoop(loop); })
      .Default([&](Operation *other) {
        if (lowerReshape(other))
          return;
        IRMapping mapping;
        for (Value operand : other->getOperands())
          mapping.map(operand, stored(operand));
        Operation *copy = b.clone(*other, mapping);
        for (auto [old, value] :
             llvm::zip(other->getResults(), copy->getResults()))
          storedForm[old] = value;
      });
}

/// Reshapes carry the wide form on.
bool EntryLowering::lowerReshape(Operation *op) {
  if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op) ||
      !wideForm.count(op->getOperand(0)))
    return false;
  auto type =
      cast<RankedTensorType>(op->getResult(0).getType()).clone(b.getF32Type());
  Value wide = wideForm[op->getOperand(0)];
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    SmallVector<OpFoldResult> shape = expand.getMixedOutputShape();
    for (OpFoldResult &size : shape)
      if (auto value = dyn_cast<Value>(size))
        size = stored(value);
    wideForm[op->getResult(0)] = tensor::ExpandShapeOp::create(
        b, b.getLoc(), type, wide, expand.getReassociationIndices(), shape);
    return true;
  }
  auto collapse = cast<tensor::CollapseShapeOp>(op);
  wideForm[op->getResult(0)] = tensor::CollapseShapeOp::create(
      b, b.getLoc(), type, wide, collapse.getReassociationIndices());
  return true;
}

Value EntryLowering::call(StringRef symbol, Type type, ValueRange operands) {
  return func::CallOp::create(b, b.getLoc(), symbol, type, operands)
      .getResult(0);
}

void EntryLowering::lower(GetWeightOp op) {
  SmallVector<Value> layer;
  if (op.getLayer())
    layer.push_back(stored(op.getLayer()));
  storedForm[op] = call(op.getWeight(), op.getType(), layer);
}

void EntryLowering::lower(GetRopeOp op) {
  std::string name = op.getTable().str();
  storedForm[op.getCos()] = call(name + ".cos", op.getCos().getType(), {});
  storedForm[op.getSin()] = call(name + ".sin", op.getSin().getType(), {});
}

void EntryLowering::lower(EmbedOp op) {
  Value ids = stored(op.getIds()), table = stored(op.getTable());
  Value out = b.empty({b.sizes(ids)[0], b.sizes(table)[1]}, elementType(table));
  storedForm[op] =
      b.generic(2, {ids}, {out}, {b.select(2, {0}), b.select(2, {0, 1})},
                [&](Values v) -> SmallVector<Value> {
                  Value id = arith::IndexCastOp::create(b, b.getLoc(),
                                                        b.getIndexType(), v[0]);
                  Value column = linalg::IndexOp::create(b, b.getLoc(), 1);
                  Value x = tensor::ExtractOp::create(b, b.getLoc(), table,
                                                      ValueRange{id, column});
                  return {scaled(b, b.widen(x), op.getScale())};
                })[0];
}

/// The sum of terms may be taken in any order and with fused products.
static arith::FastMathFlagsAttr sumFlags(MLIRContext *context) {
  return arith::FastMathFlagsAttr::get(
      context, arith::FastMathFlags::reassoc | arith::FastMathFlags::contract);
}

/// The map of all dimensions but the last: where a row's statistics lie.
static AffineMap rowMap(OpBuilder &b, int64_t rank) {
  return b.getMultiDimIdentityMap(rank).dropResult(rank - 1);
}

/// mean[t] = sum_i term(rows[t, i]) / I, over the last dimension.
Value EntryLowering::rowMean(Value rows, LinalgBuilder::Payload term) {
  auto flags = sumFlags(b.getContext());
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t rank = type.getRank();
  Value sum = b.generic(
      rank, {rows}, {b.filled(ArrayRef(b.sizes(rows)).drop_back(), 0)},
      {b.getMultiDimIdentityMap(rank), rowMap(b, rank)},
      [&](Values v) -> SmallVector<Value> {
        return {arith::AddFOp::create(b, b.getLoc(), v[1], term({v[0]}).front(),
                                      flags)};
      })[0];
  double count = type.getDimSize(rank - 1);
  return b.map({sum}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
    return {arith::DivFOp::create(b, b.getLoc(), v[0], b.f32(count))};
  });
}

/// Whether a value is a weight, or a part or another shape of one: weights are
/// read where the checkpoint is mapped, and never written.
static bool isWeight(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
             tensor::ExtractSliceOp>(op))
      return isa<GetWeightOp>(op);
    value = op->getOperand(0);
  }
  return false;
}

/// The stored form of a value that ops may write over: of a weight a copy.
Value EntryLowering::writable(Value old) {
  Value value = stored(old);
  if (!isWeight(old))
    return value;
  return bufferization::MaterializeInDestinationOp::create(
             b, b.getLoc(), value, b.empty(b.sizes(value), elementType(value)))
      .getResult();
}

/// Where a norm's result goes: over its input, if nothing else reads that.
Value EntryLowering::normDestination(Operation *norm, Value x) {
  auto type = cast<RankedTensorType>(norm->getResult(0).getType());
  if (wideForm.count(norm->getOperand(0)))
    type = type.clone(b.getF32Type());
  if (x.getType() == type && norm->getOperand(0).hasOneUse() &&
      !isWeight(norm->getOperand(0)))
    return x;
  return b.empty(b.sizes(x), type.getElementType());
}

/// The norm of a product's wide form is wide as well.
void EntryLowering::setNorm(Operation *norm, Value result) {
  bool wide = wideForm.count(norm->getOperand(0));
  (wide ? wideForm : storedForm)[norm->getResult(0)] = result;
}

void EntryLowering::lower(RMSNormOp op) {
  Value x = any(op.getInput());
  Type type = op.getType().getElementType();
  auto flags = sumFlags(b.getContext());
  Value mean = rowMean(x, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0], flags)};
  });
  Value inverse = b.map({mean}, b.getF32Type(), [&](Values v) {
    Value shifted = arith::AddFOp::create(b, b.getLoc(), v[0],
                                          b.f32(op.getEps().convertToDouble()));
    return SmallVector<Value>{math::RsqrtOp::create(b, b.getLoc(), shifted)};
  });
  int64_t rank = op.getType().getRank();
  auto last = static_cast<unsigned>(rank - 1);
  AffineMap all = b.getMultiDimIdentityMap(rank);
  SmallVector<Value> inputs = {x, inverse};
  SmallVector<AffineMap> maps = {all, rowMap(b, rank)};
  if (op.getWeight()) {
    inputs.push_back(stored(op.getWeight()));
    maps.push_back(b.select(rank, {last}));
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
    return SmallVector<Value>{y};
  };
  setNorm(op,
          b.generic(rank, inputs, {normDestination(op, x)}, maps, apply)[0]);
}

void EntryLowering::lower(LayerNormOp op) {
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
    if (op.getGamma())
      y = arith::MulFOp::create(b, b.getLoc(), y, v[2]);
    if (op.getBeta())
      y = arith::AddFOp::create(b, b.getLoc(), y, v[3]);
    return SmallVector<Value>{y};
  };
  setNorm(op, b.generic(2, inputs, {normDestination(op, x)}, maps, apply)[0]);
}

/// x (T, K) times weight (N, K) transposed, in f32, into `into` or a new
/// tensor.
Value EntryLowering::matmul(Value x, Value weight, Value into) {
  if (!into)
    into = b.empty({b.sizes(x)[0], b.sizes(weight)[0]}, b.getF32Type());
  Value zero = linalg::FillOp::create(b, b.getLoc(), ValueRange{b.f32(0)},
                                      ValueRange{into})
                   .getResult(0);
  return b.contractTransposed(x, weight, zero);
}

/// rows (T, N) + vector (N), in place.
Value EntryLowering::addVector(Value rows, Value vector) {
  return b.generic(2, {vector}, {rows}, {b.select(2, {1}), b.select(2, {0, 1})},
                   [&](Values v) -> SmallVector<Value> {
                     return {arith::AddFOp::create(b, b.getLoc(), v[1], v[0])};
                   })[0];
}

void EntryLowering::lower(LinearOp op) {
  Value y = matmul(stored(op.getInput()), stored(op.getWeight()), {});
  if (op.getBias())
    y = addVector(y, stored(op.getBias()));
  (elementType(op.getResult()).isF32() ? storedForm : wideForm)[op] = y;
}

/// Whether the function returns this value, out of the kernel it may be in.
static bool isReturned(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    if (isa<YieldOp>(use.getOwner()))
      return isReturned(
          use.getOwner()->getParentOp()->getResult(use.getOperandNumber()));
    return isa<func::ReturnOp>(use.getOwner()) && use.getOperandNumber() == 0;
  });
}

Value EntryLowering::logitsSlice() {
  SmallVector<OpFoldResult> zeros(2, b.getIndexAttr(0));
  return b.slice(logits, zeros, {logitRows, b.sizes(logits)[1]});
}

/// The head writes where its result is wanted, if that is what is returned.
void EntryLowering::lower(HeadOp op) {
  Value y = matmul(stored(op.getInput()), stored(op.getWeight()),
                   isReturned(op) ? logitsSlice() : Value());
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
  storedForm[op] = y;
}

/// Whether a head makes this value, in the kernel it may come from.
static bool isOfHead(Value value) {
  if (auto kernel = value.getDefiningOp<KernelOp>()) {
    Operation *yield = kernel.getBody().front().getTerminator();
    value = yield->getOperand(cast<OpResult>(value).getResultNumber());
  }
  return value.getDefiningOp<HeadOp>();
}

Value EntryLowering::storeLogits(Value old) {
  Value value = stored(old);
  if (!isOfHead(old))
    value = bufferization::MaterializeInDestinationOp::create(
                b, b.getLoc(), value, logitsSlice())
                .getResult();
  SmallVector<OpFoldResult> zeros(2, b.getIndexAttr(0));
  return b.insert(value, logits, zeros, {logitRows, b.sizes(logits)[1]});
}

void EntryLowering::lower(SwiGLUOp op) {
  storedForm[op] = b.map({any(op.getGate()), any(op.getUp())},
                         op.getType().getElementType(), [&](Values v) {
                           Value gate = activate(b, op.getActivation(), v[0]);
                           return SmallVector<Value>{arith::MulFOp::create(
                               b, b.getLoc(), gate, v[1])};
                         });
}

void EntryLowering::lower(ActivateOp op) {
  storedForm[op] = b.map({any(op.getInput())}, op.getType().getElementType(),
                         [&](Values v) -> SmallVector<Value> {
                           return {activate(b, op.getActivation(), v[0])};
                         });
}

/// Rows of the table from the position on, or its only row, to each of x.
void EntryLowering::lower(AddRowsOp op) {
  Value x = any(op.getInput()), table = stored(op.getTable());
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  unsigned row = 0, column = 1;
  AffineMap all = b.select(2, {row, column}), from = b.select(2, {column});
  if (op.getPosition()) {
    table =
        b.slice(table, {stored(op.getPosition()), b.getIndexAttr(0)}, sizes);
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

void EntryLowering::lower(ResidualOp op) {
  SmallVector<AffineMap> maps(2, b.select(2, {0, 1}));
  if (isWeight(op.getStream())) {
    storedForm[op] = b.map(
        {stored(op.getStream()), any(op.getUpdate())},
        op.getType().getElementType(), [&](Values v) -> SmallVector<Value> {
          Value update = scaled(b, v[1], op.getScale());
          return {arith::AddFOp::create(b, b.getLoc(), v[0], update)};
        });
    return;
  }
  storedForm[op] =
      b.generic(2, {any(op.getUpdate())}, {stored(op.getStream())}, maps,
                [&](Values v) -> SmallVector<Value> {
                  Value update = scaled(b, v[0], op.getScale());
                  return {arith::AddFOp::create(b, b.getLoc(), v[1], update)};
                })[0];
}

void EntryLowering::lower(RopeOp op) {
  Value x = any(op.getInput());
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  int64_t half = tensorType(op.getCos()).getDimSize(1),
          size = op.getType().getDimSize(2);
  Value out = b.empty(sizes, op.getType().getElementType());
  SmallVector<OpFoldResult> low(3, b.getIndexAttr(0)), high = low;
  high[2] = b.getIndexAttr(half);
  sizes[2] = b.getIndexAttr(half);
  SmallVector<OpFoldResult> row = {stored(op.getPosition()), b.getIndexAttr(0)},
                            rows = {sizes[0], sizes[2]};
  SmallVector<Value> inputs = {b.slice(x, low, sizes), b.slice(x, high, sizes),
                               b.slice(stored(op.getCos()), row, rows),
                               b.slice(stored(op.getSin()), row, rows)};
  AffineMap all = b.select(3, {0, 1, 2}), table = b.select(3, {0, 2});
  // One half after the other, each in place in the result.
  for (bool upper : {false, true}) {
    ArrayRef<OpFoldResult> offsets = upper ? high : low;
    Value rotated = b.generic(
        3, inputs, {b.slice(out, offsets, sizes)},
        {all, all, table, table, all}, [&](Values v) -> SmallVector<Value> {
          Value own = arith::MulFOp::create(b, b.getLoc(), v[upper], v[2]);
          Value other = arith::MulFOp::create(b, b.getLoc(), v[!upper], v[3]);
          if (upper)
            return {arith::AddFOp::create(b, b.getLoc(), own, other)};
          return {arith::SubFOp::create(b, b.getLoc(), own, other)};
        })[0];
    out = b.insert(rotated, out, offsets, sizes);
  }
  if (2 * half < size) {
    low[2] = b.getIndexAttr(2 * half);
    sizes[2] = b.getIndexAttr(size - 2 * half);
    Value rest = b.generic(
        3, {b.slice(x, low, sizes)}, {b.slice(out, low, sizes)}, {all, all},
        [](Values v) -> SmallVector<Value> { return {v[0]}; })[0];
    out = b.insert(rest, out, low, sizes);
  }
  storedForm[op] = out;
}

void EntryLowering::lower(KVAppendOp op) {
  Value rows = stored(op.getRows()), cache = writable(op.getCache());
  Value layer = stored(op.getLayer()), position = stored(op.getPosition());
  auto type = tensorType(rows);
  OpFoldResult heads = b.getIndexAttr(type.getDimSize(1)),
               size = b.getIndexAttr(type.getDimSize(2)),
               zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  auto rowType = RankedTensorType::get(type.getShape().drop_front(),
                                       type.getElementType());
  Value tokens =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), b.sizes(rows)[0]);
  auto loop = scf::ForOp::create(
      b, b.getLoc(), b.index(0), tokens, b.index(1), ValueRange{cache},
      [&](OpBuilder &nested, Location loc, Value token, ValueRange carried) {
        LinalgBuilder body(loc, nested);
        Value row =
            body.slice(rows, {token, zero, zero}, {one, heads, size}, rowType);
        Value at = arith::AddIOp::create(body, loc, position, token);
        Value next = body.insert(row, carried[0], {layer, zero, at, zero},
                                 {one, heads, one, size});
        scf::YieldOp::create(body, loc, next);
      });
  storedForm[op] = loop.getResult(0);
}

void EntryLowering::lower(GQAOp op) {
  AttentionOperands operands = {any(op.getQuery()),
                                stored(op.getKeyCache()),
                                stored(op.getValueCache()),
                                stored(op.getLayer()),
                                stored(op.getPosition()),
                                op.getOver() ? stored(op.getOver()) : Value()};
  auto type = cast<RankedTensorType>(op.getType());
  storedForm[op] = lowerAttention(b, operands, op, type);
}

void EntryLowering::lower(KernelOp op) {
  auto region =
      scf::ExecuteRegionOp::create(b, b.getLoc(), op.getResultTypes());
  region->setAttr("kernel", op.getKernelNameAttr());
  region.setNoInline(true);
  OpBuilder::InsertionGuard guard(b);
  Location loc = b.getLoc();
  b.createBlock(&region.getRegion());
  Block &body = op.getBody().front();
  lowerBlock(body);
  b.setLoc(loc);
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(writable(value));
  scf::YieldOp::create(b, loc, results);
  for (auto [old, value] : llvm::zip(op.getResults(), region.getResults()))
    storedForm[old] = value;
}

void EntryLowering::lowerLoop(scf::ForOp loop) {
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
