/// Lowers the ops of states to linalg. An op reads what it needs of the old
/// state before it overwrites the layer, so that the state is updated in place.
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

namespace {
/// Arithmetic of places and comparisons, short enough to read as formulas.
struct Places {
  LinalgBuilder &b;

  Value add(Value x, Value y) {
    return arith::AddIOp::create(b, b.getLoc(), x, y);
  }
  Value sub(Value x, Value y) {
    return arith::SubIOp::create(b, b.getLoc(), x, y);
  }
  Value rem(Value x, int64_t y) {
    return arith::RemUIOp::create(b, b.getLoc(), x, b.index(y));
  }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, b.getLoc(), arith::CmpIPredicate::ult, x,
                                 y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, b.getLoc(), condition, x, y);
  }
  Value loop(int64_t dim) {
    return linalg::IndexOp::create(b, b.getLoc(), static_cast<uint64_t>(dim));
  }
  /// An element in f32.
  Value element(Value tensor, ValueRange at) {
    return b.widen(tensor::ExtractOp::create(b, b.getLoc(), tensor, at));
  }
};
} // namespace

/// One layer of a state: (rows, numbers).
static Value layerOf(LinalgBuilder &b, Value state, Value layer) {
  RankedTensorType type = tensorType(state);
  OpFoldResult zero = b.getIndexAttr(0);
  return b.slice(state, {layer, zero, zero},
                 {b.getIndexAttr(1), b.getIndexAttr(type.getDimSize(1)),
                  b.getIndexAttr(type.getDimSize(2))},
                 type.clone(type.getShape().drop_front()));
}

/// The state with another layer (rows, numbers).
static Value withLayer(LinalgBuilder &b, Value state, Value layer, Value rows) {
  OpFoldResult zero = b.getIndexAttr(0);
  SmallVector<OpFoldResult> sizes = b.sizes(rows);
  sizes.insert(sizes.begin(), b.getIndexAttr(1));
  return b.insert(rows, state, {layer, zero, zero}, sizes);
}

/// Each token's sum reads rows of the call's tokens and, before these, of the
/// state: the tokens of a prompt do not wait for one another.
void FunctionLowering::lower(CausalConvOp op) {
  Value x = stored(op.getInput()), weight = stored(op.getWeight()),
        state = writable(op.getState()), layer = stored(op.getLayer()),
        position = stored(op.getPosition());
  int64_t kept = op.getState().getType().getDimSize(1);
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  Value tokens = getValueOrCreateConstantIndexOp(b, b.getLoc(), sizes[0]),
        zero = b.index(0), most = b.index(kept);
  Places p{b};
  AffineMap all = b.select(2, {0, 1});
  SmallVector<Value> inputs = {x};
  SmallVector<AffineMap> maps = {all};
  if (op.getBias()) {
    inputs.push_back(stored(op.getBias()));
    maps.push_back(b.select(2, {1}));
  }
  maps.push_back(all);
  storedForm[op.getResult()] = b.generic(
      2, inputs, {b.empty(sizes, op.getResult().getType().getElementType())},
      maps, [&](Values v) -> SmallVector<Value> {
        Value token = p.loop(0), column = p.loop(1);
        Value sum = op.getBias() ? v[1] : Value();
        for (int64_t j = 0; j <= kept; ++j) {
          Value term = v[0];
          if (j < kept) {
            // The row of the call with number row - kept, if not negative.
            Value row = p.add(token, b.index(j)), first = p.less(row, most),
                  from = p.select(first, zero, p.sub(row, most)),
                  place = p.rem(p.add(position, row), kept),
                  isBefore = p.less(p.add(position, row), most);
            Value old = p.select(isBefore, b.f32(0),
                                 p.element(state, {layer, place, column}));
            term = p.select(first, old, p.element(x, {from, column}));
          }
          Value factor = p.element(weight, {column, b.index(j)});
          term = arith::MulFOp::create(b, b.getLoc(), factor, term);
          sum = sum ? arith::AddFOp::create(b, b.getLoc(), sum, term) : term;
        }
        return {sum};
      })[0];
  Value rows = b.generic(
      2, {}, {layerOf(b, state, layer)}, {all},
      [&](Values v) -> SmallVector<Value> {
        // The last token whose row has this place is `back` before the last.
        Value end = p.add(position, p.add(tokens, b.index(kept - 1))),
              back = p.rem(p.sub(end, p.loop(0)), kept),
              isNew = p.less(back, tokens), last = p.sub(tokens, b.index(1)),
              from = p.select(isNew, p.sub(last, back), zero);
        return {p.select(isNew, p.element(x, {from, p.loop(1)}), v[0])};
      })[0];
  storedForm[op.getNext()] = withLayer(b, state, layer, rows);
}

/// (T, H, ...)  =>  (T, KH, H / KH, ...), or without T.
static Value grouped(LinalgBuilder &b, Value heads, int64_t dim,
                     int64_t groups) {
  SmallVector<OpFoldResult> sizes = b.sizes(heads);
  RankedTensorType type = tensorType(heads);
  SmallVector<int64_t> shape(type.getShape());
  int64_t each = shape[dim] / groups;
  shape[dim] = groups;
  shape.insert(shape.begin() + dim + 1, each);
  sizes[dim] = b.getIndexAttr(groups);
  sizes.insert(sizes.begin() + dim + 1, b.getIndexAttr(each));
  SmallVector<ReassociationIndices> indices;
  for (int64_t from = 0, to = 0; from < type.getRank(); ++from, ++to) {
    indices.push_back({to});
    if (from == dim)
      indices.back().push_back(++to);
  }
  return tensor::ExpandShapeOp::create(b, b.getLoc(), type.clone(shape), heads,
                                       indices, sizes);
}

/// Row `token` of a tensor, without the dimension of tokens.
static Value rowOf(LinalgBuilder &b, Value rows, Value token) {
  SmallVector<OpFoldResult> sizes = b.sizes(rows),
                            at(sizes.size(), b.getIndexAttr(0));
  at[0] = token;
  sizes[0] = b.getIndexAttr(1);
  RankedTensorType type = tensorType(rows);
  return b.slice(rows, at, sizes, type.clone(type.getShape().drop_front()));
}

/// x / |x| * scale for each head: (T, KH, D) in f32.
Value FunctionLowering::unitRows(Value x, llvm::APFloat eps, double scale) {
  Value sums = rowSum(x, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0], b.sumFlags())};
  });
  AffineMap all = b.select(3, {0, 1, 2});
  return b.generic(
      3, {x, sums}, {b.empty(b.sizes(x), b.getF32Type())},
      {all, b.select(3, {0, 1}), all}, [&](Values v) -> SmallVector<Value> {
        Value sum = arith::AddFOp::create(b, b.getLoc(), v[1],
                                          b.f32(eps.convertToDouble()));
        Value y = arith::MulFOp::create(
            b, b.getLoc(), v[0], math::RsqrtOp::create(b, b.getLoc(), sum));
        if (scale != 1)
          y = arith::MulFOp::create(b, b.getLoc(), y, b.f32(scale));
        return {y};
      })[0];
}

/// One token after the other. Loops are (kh, g, d, v): key heads, their heads,
/// and the rows and columns of a head's matrix.
void FunctionLowering::lower(DeltaRuleOp op) {
  Value state = writable(op.getState()), layer = stored(op.getLayer()),
        position = stored(op.getPosition());
  RankedTensorType type = op.getResult().getType();
  int64_t heads = type.getDimSize(1),
          groups = op.getKey().getType().getDimSize(1);
  Value q = unitRows(any(op.getQuery()), op.getEps(),
                     op.getScale().convertToDouble()),
        k = unitRows(any(op.getKey()), op.getEps(), 1),
        v = grouped(b, any(op.getValue()), 1, groups),
        rate = grouped(b, stored(op.getRate()), 1, groups);
  Value steps = stored(op.getStep());
  AffineMap pair = b.select(2, {0, 1});
  Value decay = b.generic(
      2, {steps, stored(op.getLogDecay())},
      {b.empty(b.sizes(steps), b.getF32Type())}, {pair, b.select(2, {1}), pair},
      [&](Values v) -> SmallVector<Value> {
        Value each = math::ExpOp::create(b, b.getLoc(), v[1]);
        Value log = arith::MulFOp::create(b, b.getLoc(), each, v[0]);
        return {math::ExpOp::create(b, b.getLoc(),
                                    arith::NegFOp::create(b, b.getLoc(), log))};
      })[0];
  decay = grouped(b, decay, 1, groups);

  Value tokens = getValueOrCreateConstantIndexOp(b, b.getLoc(), b.sizes(q)[0]);
  Value rows =
      grouped(b, b.empty(b.sizes(any(op.getValue())), type.getElementType()), 1,
              groups);
  auto loop = scf::ForOp::create(b, b.getLoc(), b.index(0), tokens, b.index(1),
                                 ValueRange{state, rows});
  b.setInsertionPointToEnd(loop.getBody());
  Value token = loop.getInductionVar();
  state = loop.getRegionIterArg(0);
  rows = loop.getRegionIterArg(1);
  // (H D, V)  =>  (KH, G, D, V)
  Value matrices =
      grouped(b, grouped(b, layerOf(b, state, layer), 0, heads), 0, groups);
  Places p{b};
  Value first = p.less(p.add(position, token), b.index(1));
  auto decayed = [&](Value number, Value decay) {
    Value kept = arith::MulFOp::create(b, b.getLoc(), number, decay);
    return p.select(first, b.f32(0), kept);
  };
  Value key = rowOf(b, k, token), value = rowOf(b, v, token),
        factor = rowOf(b, decay, token);
  Value zeros = b.filled(b.sizes(value), 0);
  AffineMap all = b.select(4, {0, 1, 2, 3}), ofHead = b.select(4, {0, 1}),
            ofRow = b.select(4, {0, 2}), ofColumn = b.select(4, {0, 1, 3});
  auto addProduct = [&](Value sum, Value x, Value y) -> SmallVector<Value> {
    Value product = arith::MulFOp::create(b, b.getLoc(), x, y, b.sumFlags());
    return {arith::AddFOp::create(b, b.getLoc(), sum, product, b.sumFlags())};
  };
  Value known = b.generic(
      4, {matrices, key, factor}, {zeros}, {all, ofRow, ofHead, ofColumn},
      [&](Values v) { return addProduct(v[3], decayed(v[0], v[2]), v[1]); })[0];
  matrices = b.generic(
      4, {key, factor, rowOf(b, rate, token), value, known}, {matrices},
      {ofRow, ofHead, ofHead, ofColumn, ofColumn, all}, [&](Values v) {
        Value error = arith::SubFOp::create(b, b.getLoc(), v[3], v[4]),
              update = arith::MulFOp::create(b, b.getLoc(), v[2], error);
        return addProduct(decayed(v[5], v[1]), v[0], update);
      })[0];
  Value mixed = b.generic(
      4, {matrices, rowOf(b, q, token)}, {zeros}, {all, ofRow, ofColumn},
      [&](Values v) { return addProduct(v[2], v[0], v[1]); })[0];
  mixed = b.map({mixed}, type.getElementType(),
                [](Values v) -> SmallVector<Value> { return {v[0]}; });
  OpFoldResult zero = b.getIndexAttr(0);
  SmallVector<OpFoldResult> sizes = b.sizes(mixed);
  sizes.insert(sizes.begin(), b.getIndexAttr(1));
  rows = b.insert(mixed, rows, {token, zero, zero, zero}, sizes);
  matrices = tensor::CollapseShapeOp::create(
      b, b.getLoc(), matrices, ArrayRef<ReassociationIndices>{{0, 1, 2}, {3}});
  scf::YieldOp::create(b, b.getLoc(),
                       ValueRange{withLayer(b, state, layer, matrices), rows});
  b.setInsertionPointAfter(loop);
  storedForm[op.getNext()] = loop.getResult(0);
  storedForm[op.getResult()] = tensor::CollapseShapeOp::create(
      b, b.getLoc(), loop.getResult(1),
      ArrayRef<ReassociationIndices>{{0}, {1, 2}, {3}});
}
